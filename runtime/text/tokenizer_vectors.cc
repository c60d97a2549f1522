// Makes and checks the vectors.
#include "runtime/text/tokenizer_vectors.h"

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/text/tokenizer.h"
#include "runtime/text/tokenizer_spec.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// Where tokenizers go wrong: white space, case, digits, scripts, marks, emoji,
// what normalisers change, what only looks like a special token.
constexpr absl::string_view kTexts[] = {
    "",
    " ",
    "Hello, world!",
    " leading and trailing  ",
    "two  spaces   three\n\nlines\r\n\ttab",
    "don't we'll I'M they've YOU'RE he'd it's",
    "The quick brown fox jumps over the lazy dog.",
    "1234567890 3.14159 1,000,000 2024-02-29 0x7F",
    "camelCase HTMLParser SCREAMING_CASE snake_case",
    "for (int i = 0; i < n; ++i) { a[i] *= b; }  // loop",
    "https://example.org/a?b=c&d=%20#e user@example.org",
    "na\u00EFve caf\u00E9 \u00C5ngstr\u00F6m stra\u00DFe",
    "e\u0301 a\u0323\u0302 \u1E9B\u0323",
    "\u041F\u0440\u0438\u0432\u0435\u0442, \u043C\u0438\u0440! \u0401\u0436",
    "\u0393\u03B5\u03B9\u03B1 \u03C3\u03BF\u03C5 "
    "\u039A\u039F\u03A3\u039C\u0395",
    "\u05E9\u05DC\u05D5\u05DD \u05E2\u05D5\u05DC\u05DD",
    "\u0645\u0631\u062D\u0628\u0627 \u0661\u0662\u0663",
    "\u0928\u092E\u0938\u094D\u0924\u0947 \u0915\u094D\u0937\u093F",
    "\u0E2A\u0E27\u0E31\u0E2A\u0E14\u0E35",
    "\u4F60\u597D\uFF0C\u4E16\u754C\u3002",
    "\u3053\u3093\u306B\u3061\u306F\u30AB\u30BF\u30AB\u30CA\u30FC",
    "\uC548\uB155\uD558\uC138\uC694 \u1100\u1161\u11A8",
    "\U0001F600\U0001F44D\U0001F3FD\U0001F469\u200D\U0001F467 \u2764\uFE0F",
    "\uFB01 \u00BD \u2167 \uFF21\uFF11 \u33A5 \uFDFA",
    "\u0130stanbul \u0131I \u017F \u212A",
    "a\u00A0b\u3000c\u2003d\u200Be\u2028f",
    "\x01\x07\x1B\x7F\u0085\uFFFD\uFEFF",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "                                                                ",
    "!?!?!?!?!?!?!? --- ___ ... \u2026 \u201Cq\u201D \u00ABr\u00BB",
    "<s></s><unk><pad>[CLS][SEP][MASK]<|endoftext|><|im_start|>",
    "\u2581x\u2581 ##y \u0120z <0x41> \u0378",
};

// A text of a few tokens of the vocabulary, by a fixed sequence of numbers.
std::string VocabularyText(const Tokenizer& tokenizer, uint64_t* state) {
  std::vector<int32_t> ids;
  for (int i = 0; i < 6; ++i) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    ids.push_back(static_cast<int32_t>(
        (*state >> 33) % static_cast<uint64_t>(tokenizer.vocab_size())));
  }
  const auto text = tokenizer.Decode(ids, /*skip_special=*/true);
  return text.ok() ? *text : std::string();
}

std::string Show(const std::vector<int32_t>& ids) {
  return ids.size() <= 32
             ? absl::StrJoin(ids, ",")
             : absl::StrCat(absl::StrJoin(ids.begin(), ids.begin() + 32, ","),
                            ",...");
}

}  // namespace

absl::Status AddTokenizerVectors(TokenizerTables* tables) {
  DS_ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Load(tables->bytes));
  DS_ASSIGN_OR_RETURN(TokenizerSpec spec, ParseTokenizer(tables->bytes));
  spec.vectors.clear();
  const auto add = [&](std::string text) {
    auto ids = tokenizer->Encode(text);
    if (ids.ok()) spec.vectors.push_back({std::move(text), *std::move(ids)});
  };
  for (absl::string_view text : kTexts) add(std::string(text));
  uint64_t state = 1;
  for (int tries = 0;
       tries < 4 * kTokenizerVectors && spec.vectors.size() < kTokenizerVectors;
       ++tries) {
    add(VocabularyText(*tokenizer, &state));
  }
  tables->bytes = SerializeTokenizer(spec);
  return absl::OkStatus();
}

absl::Status CheckTokenizerVectors(absl::string_view tokenizer_bytes,
                                   int* checked) {
  *checked = 0;
  DS_ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Load(tokenizer_bytes));
  DS_ASSIGN_OR_RETURN(const TokenizerSpec spec,
                      ParseTokenizer(tokenizer_bytes));
  for (const TokenizerVector& v : spec.vectors) {
    DS_ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                        tokenizer->Encode(v.text));
    if (ids != v.ids) {
      return absl::DataLossError(absl::StrCat(
          "tokenizer vector ", *checked, " (\"",
          absl::Utf8SafeCEscape(v.text.substr(0, 60)), "\"): ids are ",
          Show(ids), "; the compiler's were ", Show(v.ids),
          ": compile the plan again, or report this machine's libraries"));
    }
    ++*checked;
  }
  return absl::OkStatus();
}

}  // namespace deepslice
