// Files of ranks: text to encode, name of the encoding, tokenizer_config.json,
// the file.
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "runtime/text/tokenizer_tables.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/tokenizer_use.h"

namespace deepslice {
namespace {

// The lines of the 256 bytes, without which a file of ranks is refused.
const std::string& ByteLines() {
  static const std::string* const lines = [] {
    auto* text = new std::string;
    for (int i = 0; i < 256; ++i) {
      const char byte = static_cast<char>(i);
      absl::StrAppend(text, absl::Base64Escape(absl::string_view(&byte, 1)),
                      " ", i, "\n");
    }
    return text;
  }();
  return *lines;
}

FUZZ_TARGET(tokenizer_ranks) {
  const auto parts = SplitParts(input, 4);
  const auto config = json::Parse(parts[2]);
  // Without declared tokens these have some at ids of 50,000 and more: right,
  // and slow.
  if (parts[1] != "qwen" && parts[1] != "llama3" &&
      (!config.ok() || config->Find("added_tokens_decoder") == nullptr)) {
    return;
  }
  absl::string_view file = parts[3];
  // A file that begins with this line has the bytes in its place.
  std::string whole;
  if (absl::ConsumePrefix(&file, "bytes\n")) {
    whole = absl::StrCat(ByteLines(), file);
    file = whole;
  }
  UseTokenizer(
      ReadTokenizerRanks(file, parts[1], config.ok() ? *config : json::Value()),
      parts[0]);
}

}  // namespace
}  // namespace deepslice
