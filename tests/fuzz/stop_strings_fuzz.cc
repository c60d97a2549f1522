// Stop strings in texts that come in parts: a stop on each line, then the text.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "runtime/stop_strings.h"
#include "tests/fuzz/fuzz_target.h"

namespace deepslice {
namespace {

// The first stop in `text`, of several the longest, then the first given; -1.
int Search(const std::vector<std::string>& stops, absl::string_view text,
           size_t* at) {
  for (*at = 0; *at < text.size(); ++*at) {
    int best = -1;
    for (size_t i = 0; i < stops.size(); ++i) {
      if (stops[i].empty() || !absl::StartsWith(text.substr(*at), stops[i])) {
        continue;
      }
      if (best < 0 || stops[i].size() > stops[best].size()) {
        best = static_cast<int>(i);
      }
    }
    if (best >= 0) return best;
  }
  return -1;
}

FUZZ_TARGET(stop_strings) {
  const auto parts = SplitParts(input, 2);
  std::vector<std::string> stops = absl::StrSplit(parts[0], '\n');
  stops.resize(std::min<size_t>(stops.size(), 8));
  const absl::string_view text = parts[1];
  StopStrings matcher(stops);
  std::string out;
  size_t given = 0;
  int found = -1;
  while (found < 0 && given < text.size()) {
    const size_t size = 1 + static_cast<uint8_t>(text[given]) % 5;
    found = matcher.Add(text.substr(given, size), /*armed=*/true, &out);
    given = std::min(given + size, text.size());
    FUZZ_CHECK(absl::StartsWith(text, out));
  }
  size_t at = 0;
  // What comes later can make no earlier stop, but a longer one.
  const int expected = Search(stops, text.substr(0, given), &at);
  FUZZ_CHECK((found < 0) == (expected < 0));
  if (found < 0) {
    matcher.Finish(&out);
    FUZZ_CHECK(out == text);
  } else {
    FUZZ_CHECK(out == text.substr(0, at));
  }
}

}  // namespace
}  // namespace deepslice
