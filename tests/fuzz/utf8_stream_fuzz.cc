// UTF-8 that comes in parts: the first byte of the input says how it is cut.
#include <string>

#include "runtime/text/utf8.h"
#include "tests/fuzz/fuzz_target.h"

namespace deepslice {
namespace {

FUZZ_TARGET(utf8_stream) {
  if (input.empty()) return;
  const size_t most = 1 + static_cast<uint8_t>(input[0]) % 7;
  const absl::string_view bytes = input.substr(1);
  const std::string whole = ReplaceInvalidUtf8(bytes);
  FUZZ_CHECK(IsValidUtf8(whole));
  FUZZ_CHECK(IsValidUtf8(bytes) == (whole == bytes));

  Utf8Stream stream;
  std::string joined;
  for (size_t at = 0; at < bytes.size();) {
    // Parts of unlike sizes, by what they begin with.
    const size_t size = 1 + static_cast<uint8_t>(bytes[at]) % most;
    const size_t before = joined.size();
    stream.Add(bytes.substr(at, size), &joined);
    FUZZ_CHECK(IsValidUtf8(absl::string_view(joined).substr(before)));
    at += size;
  }
  stream.Finish(&joined);
  FUZZ_CHECK(joined == whole);

  size_t count = 0;
  std::string again;
  for (size_t at = 0; at < whole.size(); ++count) {
    const CodePoint cp = DecodeUtf8(whole, at);
    FUZZ_CHECK(cp.valid && !cp.truncated);
    AppendUtf8(cp.value, &again);
    at += cp.size;
    FUZZ_CHECK(PreviousUtf8(whole, at) == at - cp.size);
  }
  FUZZ_CHECK(again == whole && count == Utf8Length(whole));
}

}  // namespace
}  // namespace deepslice
