// Tokenizers and chat templates at the edge of what may be asked for.
#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "compiler/checkpoint/test_files.h"
#include "gtest/gtest.h"
#include "runtime/text/chat_template.h"
#include "runtime/text/pcre_regex.h"
#include "runtime/text/tokenizer.h"
#include "runtime/text/tokenizer_builder.h"
#include "runtime/text/tokenizer_spec.h"
#include "schema/base/limits.h"
#include "tests/limits/edge.h"

namespace deepslice {
namespace {

// One token "a", joined by no merge.
TokenizerSpec OneToken() {
  TokenizerSpec spec;
  TokenizerBuilder builder;
  EXPECT_TRUE(builder.AddModelToken("a", 0).ok());
  builder.Finish(&spec);
  return spec;
}

absl::Status Parse(const TokenizerSpec& spec) {
  return ParseTokenizer(SerializeTokenizer(spec)).status();
}

// Where the serialised forms differ first: the place of a length.
size_t PlaceOf(const TokenizerSpec& one, const TokenizerSpec& other) {
  const std::string a = SerializeTokenizer(one), b = SerializeTokenizer(other);
  return std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first -
         a.begin();
}

// A tokenizer with the number `n` at byte `at`, and room for as many items of
// `item_bytes`.
absl::Status ParseWithCount(size_t at, int64_t n, int64_t item_bytes) {
  const std::string bytes = SerializeTokenizer(OneToken());
  Zeros all(bytes.size() + static_cast<size_t>((n + 1) * item_bytes));
  all.Write(0, bytes);
  all.Write(at, Bytes(static_cast<uint32_t>(n)));
  return ParseTokenizer(all.view()).status();
}

absl::Status Merges(int64_t n) {
  TokenizerSpec more = OneToken();
  more.merges.push_back({0, 0, 0});
  return ParseWithCount(PlaceOf(OneToken(), more), n, 12);
}

absl::Status AddedTokens(int64_t n) {
  TokenizerSpec more = OneToken();
  more.added.push_back(AddedToken());
  return ParseWithCount(PlaceOf(OneToken(), more), n, 5);
}

absl::Status Vectors(int64_t n) {
  TokenizerSpec more = OneToken();
  more.vectors.push_back({});
  return ParseWithCount(PlaceOf(OneToken(), more), n, 8);
}

absl::Status VocabularyText(int64_t n) {
  TokenizerSpec longer;
  TokenizerBuilder builder;
  EXPECT_TRUE(builder.AddModelToken("aa", 0).ok());
  builder.Finish(&longer);
  return ParseWithCount(PlaceOf(OneToken(), longer), n, 1);
}

absl::Status TokenOf(int64_t bytes) {
  TokenizerBuilder builder;
  return builder.AddModelToken(std::string(bytes, 'a'), 0);
}

// One token with the id n - 1, of a file that lists none.
absl::Status Holes(int64_t n) {
  TokenizerBuilder builder;
  return builder.AddModelToken("a", n - 1);
}

// What steps write, of no text at all.
absl::Status StepText(int64_t n) {
  TextAllowance allowance;
  return allowance.Write(n);
}

absl::Status AddedTokenOf(int64_t bytes) {
  TokenizerBuilder builder;
  return builder.AddAddedToken(std::string(bytes, 'a'), 0, AddedToken());
}

absl::Status Steps(int64_t n) {
  TokenizerSpec spec = OneToken();
  PreTokenizerStep step;
  step.kind = PreTokenizerKind::kByteLevel;
  spec.pre_tokenizers.assign(n, step);
  return Parse(spec);
}

absl::Status Affixes(int64_t n) {
  TokenizerSpec spec = OneToken();
  spec.prefix_ids.assign(n, 0);
  return Parse(spec);
}

absl::Status Content(int64_t n) {
  TokenizerSpec spec = OneToken();
  NormalizerStep step;
  step.kind = NormalizerKind::kPrepend;
  step.content.assign(n, 'a');
  spec.normalizers = {step};
  return Parse(spec);
}

absl::Status EncodeZeros(int64_t n) {
  const auto tokenizer = Tokenizer::Load(SerializeTokenizer(OneToken()));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return (*tokenizer)->Encode(Zeros(n).view()).status();
}

absl::Status ParseTemplateText(const std::string& text) {
  return ChatTemplate::Parse(text).status();
}

absl::Status RenderText(const std::string& text) {
  const auto chat = ChatTemplate::Parse(text);
  EXPECT_TRUE(chat.ok()) << chat.status();
  return (*chat)->Render({}, {}).status();
}

std::string Times(int64_t n, absl::string_view text) {
  std::string out;
  for (int64_t i = 0; i < n; ++i) absl::StrAppend(&out, text);
  return out;
}

}  // namespace

std::vector<Edge> TextEdges() {
  return {
      {"TokenizerMerges", Merges, kOnlyAbove},
      {"AddedTokens", AddedTokens},
      {"AddedTokenBytes", AddedTokenOf, kOk},
      {"TokenBytes", TokenOf, kOk},
      {"TokenizerHoles", Holes, kOk},
      {"StepTextBytes", StepText, kOk},
      {"TokenizerTextBytes", VocabularyText, kOnlyAbove, "too far"},
      {"TokenizerSteps", Steps, kOk},
      {"TokenizerAffixIds", Affixes, kOk},
      {"TokenizerContentBytes", Content, kOk},
      {"TokenizerVectors", Vectors},
      {"RegexBytes",
       [](int64_t n) { return Regex::Compile(std::string(n, 'a')).status(); }},
      {"TextBytes", EncodeZeros, kOnlyAbove},
      {"TemplateBytes",
       [](int64_t n) {
         return ParseTemplateText("{#" + std::string(n - 4, ' ') + "#}");
       },
       kOk},
      {"TemplateOutputBytes",
       [](int64_t n) {
         return RenderText(absl::StrCat("{{ 'a' * ", n, " }}"));
       },
       kOk},
      {"TemplateBlocks",
       [](int64_t n) {  // the text itself is the first level
         return ParseTemplateText(Times(n - 1, "{% if a %}") +
                                  Times(n - 1, "{% endif %}"));
       },
       kOk},
      {"TemplateBrackets",
       [](int64_t n) {  // the expression itself is the first level
         return ParseTemplateText("{{ " + Times(n - 1, "(") + "1" +
                                  Times(n - 1, ")") + " }}");
       },
       kOk},
      {"TemplateRange",
       [](int64_t n) {
         return RenderText(absl::StrCat("{{ range(", n, ") | length }}"));
       },
       kOk},
      {"TemplateDigits",
       [](int64_t n) {
         return RenderText(absl::StrCat("{{ '%.", n, "f' % 0.5 }}"));
       },
       kOk},
      {"TemplateTimeFormatBytes",
       [](int64_t n) {
         return RenderText(
             absl::StrCat("{{ strftime_now('", Times(n, "-"), "') }}"));
       },
       kOk},
  };
}

}  // namespace deepslice
