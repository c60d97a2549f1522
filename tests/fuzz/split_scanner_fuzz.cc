// Hand-written scanners against the patterns that they stand for.
#include <memory>
#include <string>
#include <vector>

#include "runtime/text/pcre_regex.h"
#include "runtime/text/split_scanner.h"
#include "runtime/text/unicode_class.h"
#include "runtime/text/utf8.h"
#include "tests/fuzz/fuzz_target.h"

namespace deepslice {
namespace {

struct Pair {
  SplitScanner scanner;
  std::unique_ptr<Regex> regex;
};

const std::vector<Pair>& Pairs() {
  static const std::vector<Pair>* const pairs = [] {
    auto* out = new std::vector<Pair>;
    for (const absl::string_view pattern :
         {kGpt2Pattern, kLlama3Pattern, kQwen2Pattern, kCl100kPattern,
          kO200kPattern}) {
      auto regex = Regex::Compile(pattern);
      FUZZ_CHECK(regex.ok());
      out->push_back({FindSplitScanner(pattern), *std::move(regex)});
      FUZZ_CHECK(out->back().scanner != nullptr);
    }
    return out;
  }();
  return *pairs;
}

FUZZ_TARGET(split_scanner) {
  const std::string text = ReplaceInvalidUtf8(input);
  for (const Pair& pair : Pairs()) {
    Regex::Matcher matcher(*pair.regex, text.size());
    for (size_t at = 0; at < text.size();) {
      size_t end = 0;
      const auto found = matcher.MatchAt(text, at, &end);
      FUZZ_CHECK(found.ok() && *found);
      FUZZ_CHECK(pair.scanner(CharTable::Get(), text, at) == end);
      at = end;
    }
  }
}

}  // namespace
}  // namespace deepslice
