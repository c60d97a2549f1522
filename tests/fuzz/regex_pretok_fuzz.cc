// Patterns of tokenizers over texts: a behavior, the pattern, the text.
#include <string>

#include "runtime/text/pcre_regex.h"
#include "runtime/text/pre_tokenize.h"
#include "runtime/text/regex_matches.h"
#include "runtime/text/utf8.h"
#include "tests/fuzz/fuzz_target.h"

namespace deepslice {
namespace {

// Whether no character of valid text goes across `at`.
bool IsBorder(absl::string_view text, size_t at) {
  return at == text.size() || (static_cast<uint8_t>(text[at]) & 0xC0) != 0x80;
}

FUZZ_TARGET(regex_pretok) {
  const auto parts = SplitParts(input, 3);
  const std::string text = ReplaceInvalidUtf8(parts[2].substr(0, 256));
  const auto regex = Regex::Compile(parts[1]);
  if (!regex.ok()) return CheckRefusal(regex.status());
  Regex::Matcher matcher(**regex, text.size());
  size_t last = 0;
  const absl::Status walked =
      ForEachMatch(matcher, text, [&](size_t begin, size_t end) {
        FUZZ_CHECK(last <= begin && begin <= end && end <= text.size());
        FUZZ_CHECK(IsBorder(text, begin) && IsBorder(text, end));
        last = end;
        return true;
      });
  if (!walked.ok()) CheckRefusal(walked);

  PreTokenizerStep step;
  step.kind = PreTokenizerKind::kSplit;
  step.pattern = std::string(parts[1]);
  step.is_regex = true;
  const int choice = parts[0].empty() ? 0 : static_cast<uint8_t>(parts[0][0]);
  step.behavior = static_cast<SplitBehavior>(choice % 5);
  step.invert = choice / 5 % 2 == 1;
  const auto cutter = PreTokenizer::Create({step});
  if (parts[1].empty()) return CheckRefusal(cutter.status());
  FUZZ_CHECK(cutter.ok());
  PreTokens tokens;
  tokens.text = text;
  const absl::Status cut = cutter->Run(&tokens);
  FUZZ_CHECK(cut.ok() == walked.ok());
  if (!cut.ok()) return;
  uint32_t end = 0;
  for (const PreTokens::Piece& piece : tokens.pieces) {
    FUZZ_CHECK(end <= piece.begin && piece.begin < piece.end);
    end = piece.end;
  }
  FUZZ_CHECK(end <= text.size());
}

}  // namespace
}  // namespace deepslice
