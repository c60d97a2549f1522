// Tokenizers whose steps or tokens would take time or memory without bound:
// each is refused, or is as fast as its text is short.
#include "runtime/text/text_allowance.h"

#include <ctime>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "runtime/text/added_tokens.h"
#include "runtime/text/charsmap.h"
#include "runtime/text/decoder_chain.h"
#include "runtime/text/normalizer.h"
#include "runtime/text/pre_tokenize.h"
#include "runtime/text/testing_tokenizers.h"
#include "runtime/text/tokenizer_builder.h"
#include "runtime/text/tokenizer_spec.h"
#include "schema/base/limits.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

// Processor time since the start, in seconds: other work does not count.
class Clock {
 public:
  double Seconds() const {
    return static_cast<double>(std::clock() - start_) / CLOCKS_PER_SEC;
  }

 private:
  const std::clock_t start_ = std::clock();
};

NormalizerStep ReplaceStep(absl::string_view pattern, absl::string_view content,
                           uint16_t flags = 0) {
  NormalizerStep step;
  step.kind = NormalizerKind::kReplace;
  step.pattern = std::string(pattern);
  step.content = std::string(content);
  step.flags = flags;
  return step;
}

absl::Status Normalize(const std::vector<NormalizerStep>& steps,
                       absl::string_view text) {
  TokenizerSpec spec;
  spec.normalizers = steps;
  const auto normalizer = Normalizer::Create(spec);
  if (!normalizer.ok()) return normalizer.status();
  Normalizer::Text t;
  t.view = text;
  return normalizer->Run(&t);
}

absl::Status PreTokenize(const std::vector<PreTokenizerStep>& steps,
                         absl::string_view text) {
  const auto pre = PreTokenizer::Create(steps);
  if (!pre.ok()) return pre.status();
  PreTokens t;
  t.text = text;
  return pre->Run(&t);
}

TEST(TextAllowance, NormalizersThatMultiplyATextAreRefused) {
  NormalizerStep bytes;
  bytes.kind = NormalizerKind::kByteLevel;
  NormalizerStep prepend;
  prepend.kind = NormalizerKind::kPrepend;
  prepend.content.assign(limits::kTokenizerContentBytes, 'a');
  const std::string many(1000, 'a');
  const std::string long_text(1 << 20, 'b');
  for (const std::vector<NormalizerStep>& steps :
       {std::vector<NormalizerStep>(64, bytes),
        std::vector<NormalizerStep>(64, ReplaceStep("a", "aa")),
        std::vector<NormalizerStep>(
            64, ReplaceStep("a", "aa", NormalizerStep::kIsRegex)),
        {ReplaceStep("a", long_text)},
        {ReplaceStep("a", long_text, NormalizerStep::kIsRegex)},
        {prepend}}) {
    const Clock clock;
    const absl::Status status = Normalize(steps, "\xC3\xA9" + many);
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_LT(clock.Seconds(), 1);
  }
  // What multiplies a text by little is right.
  DS_ASSERT_OK(
      Normalize(std::vector<NormalizerStep>(6, ReplaceStep("a", "aa")), many));
}

TEST(TextAllowance, PreTokenizersThatMultiplyATextAreRefused) {
  PreTokenizerStep bytes;
  bytes.kind = PreTokenizerKind::kByteLevel;
  bytes.use_regex = false;
  PreTokenizerStep spaces;
  spaces.kind = PreTokenizerKind::kMetaspace;
  spaces.pattern = "  ";
  spaces.prepend_scheme = PrependScheme::kNever;
  PreTokenizerStep long_symbol = spaces;
  long_symbol.pattern.assign(limits::kRegexBytes, 'x');
  for (const std::vector<PreTokenizerStep>& steps :
       {std::vector<PreTokenizerStep>(64, bytes),
        std::vector<PreTokenizerStep>(64, spaces),
        std::vector<PreTokenizerStep>{long_symbol}}) {
    const Clock clock;
    const absl::Status status = PreTokenize(steps, std::string(1000, ' '));
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_LT(clock.Seconds(), 1);
  }
  DS_ASSERT_OK(PreTokenize({bytes, bytes, spaces}, std::string(1000, ' ')));
}

TEST(TextAllowance, DecodersThatMultiplyATextAreRefused) {
  DecoderStep twice{DecoderKind::kReplace, 0, "a", "aa"};
  for (const uint8_t flags : {uint8_t{0}, DecoderStep::kIsRegex}) {
    twice.flags = flags;
    DS_ASSERT_OK_AND_ASSIGN(
        const DecoderChain chain,
        DecoderChain::Create(std::vector<DecoderStep>(64, twice)));
    std::string out;
    TextAllowance allowance(1);
    const auto stage = chain.Start(&allowance, &out);
    const Clock clock;
    const absl::Status status = stage->Push("a", nullptr);
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_LT(clock.Seconds(), 1);
  }
  // A stream goes on as long as its steps write little.
  twice.flags = 0;
  DS_ASSERT_OK_AND_ASSIGN(const DecoderChain chain,
                          DecoderChain::Create({twice, twice, twice}));
  std::string out;
  TextAllowance allowance;
  const auto stage = chain.Start(&allowance, &out);
  for (int i = 0; i < 1 << 20; ++i) {
    allowance.Add(1);
    ASSERT_TRUE(stage->Push("a", nullptr).ok());
  }
  EXPECT_EQ(out.size(), size_t{8} << 20);
}

// A normalizer that takes a million steps for "aaa...a" of any length.
constexpr char kSlow[] = "(a+)+$";

TEST(TextAllowance, StretchesOfATextShareItsSteps) {
  json::Value file = testing_tokenizers::ByteLevelFile({});
  file.Set("normalizer", testing_tokenizers::Json(absl::StrCat(
                             R"({"type": "Replace", "pattern": {"Regex": ")",
                             kSlow, R"("}, "content": "b"})")));
  DS_ASSERT_OK_AND_ASSIGN(const auto tokenizer,
                          testing_tokenizers::LoadFile(file));
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "aaaaaaaaaaaaaaaaaaaaaaab<u>";
  const Clock clock;
  const absl::Status status = tokenizer->Encode(text).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_LT(clock.Seconds(), 1);
}

TEST(TextAllowance, AddedTokensShareTheirSteps) {
  const std::string name(26, 'a');
  for (const std::string& normalizer :
       {absl::StrCat(R"({"type": "Replace", "pattern": {"Regex": ")", kSlow,
                     R"("}, "content": "b"})"),
        absl::StrCat(R"({"type": "Prepend", "prepend": ")",
                     std::string(1 << 20, 'a'), "\"}")}) {
    json::Value file = testing_tokenizers::ByteLevelFile({});
    json::Value added = json::Value::Array();
    for (int64_t i = 0; i < 2000; ++i) {
      json::Value token = testing_tokenizers::AddedTokenJson(
          absl::StrCat(name, "b", i), 1000 + i, false);
      token.Set("normalized", true);
      added.Add(std::move(token));
    }
    file.Set("added_tokens", std::move(added));
    file.Set("normalizer", testing_tokenizers::Json(normalizer));
    const Clock clock;
    const absl::Status status = testing_tokenizers::LoadFile(file).status();
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_LT(clock.Seconds(), 2);
  }
}

TEST(TextAllowance, TokensOfWhiteSpaceThatTakeItAreLinear) {
  AddedToken token;
  token.rstrip = true;
  AddedTokenMatcher matcher;
  matcher.Add(token, " ");
  matcher.Build();
  const std::string text(1 << 20, ' ');
  std::vector<AddedSegment> segments;
  const Clock clock;
  matcher.Split(
      text, [](const AddedToken&, size_t, size_t) { return true; }, &segments);
  EXPECT_LT(clock.Seconds(), 1);
  ASSERT_EQ(segments.size(), text.size());
  for (const AddedSegment& s : segments) ASSERT_EQ(s.end, text.size());
}

std::string U32(uint32_t v) {
  return std::string(reinterpret_cast<const char*>(&v), 4);
}

TEST(TextAllowance, CharacterMapsThatLeadInACircleAreLinear) {
  // Every unit is for 'a' and leads to itself by way of its neighbours: node ^
  // 'a' ^ offset, offsets 'a', so that the walk stays at one unit.
  std::string units = U32('a' << 10 | 0);  // root: node 'a' ^ 'a' = 0
  units[0] = 'a';                          // and it is the unit of 'a' too
  std::string blob = absl::StrCat(U32(256 * 4), units);
  for (int i = 1; i < 256; ++i) blob += U32('a' << 10 | 'a');
  blob += std::string("x\0", 2);
  DS_ASSERT_OK_AND_ASSIGN(const Charsmap map, Charsmap::Parse(blob));
  const std::string text(100'000, 'a');
  const Clock clock;
  for (size_t pos = 0; pos < text.size(); ++pos) {
    size_t size = 0;
    absl::string_view replacement;
    EXPECT_FALSE(map.Find(text, pos, /*longest=*/true, &size, &replacement));
  }
  EXPECT_LT(clock.Seconds(), 5);
}

TEST(TextAllowance, CharacterMapsWithLongTextsAreRefused) {
  const auto parse = [](size_t size) {
    return Charsmap::Parse(absl::StrCat(U32(4), U32(0), std::string(size, 'x'),
                                        std::string(1, '\0')))
        .status();
  };
  DS_ASSERT_OK(parse(limits::kTokenBytes));
  EXPECT_TRUE(absl::IsInvalidArgument(parse(limits::kTokenBytes + 1)));
}

TEST(TextAllowance, LongTokensAreRefusedBeforeTheirPartsAreTried) {
  const std::string token(700'000, 'a');
  std::string ranks;
  for (int i = 0; i < 256; ++i) {
    absl::StrAppend(&ranks,
                    absl::Base64Escape(std::string(1, static_cast<char>(i))),
                    " ", i, "\n");
  }
  const Clock clock;
  const auto with = [&](absl::string_view text) {
    return ReadTokenizerRanks(
               absl::StrCat(ranks, absl::Base64Escape(text), " 256\n"), "qwen",
               json::Value())
        .status();
  };
  EXPECT_TRUE(absl::IsInvalidArgument(with(token)));
  DS_ASSERT_OK(with(token.substr(0, limits::kTokenBytes)));
  EXPECT_TRUE(
      absl::IsInvalidArgument(with(token.substr(0, limits::kTokenBytes + 1))));

  TokenizerSpec spec;
  spec.AddToken(token, kTokenInModel);
  EXPECT_TRUE(
      absl::IsInvalidArgument(
          ParseTokenizer(SerializeTokenizer(spec)).status()) ||
      absl::IsDataLoss(ParseTokenizer(SerializeTokenizer(spec)).status()));
  EXPECT_LT(clock.Seconds(), 2);
}

}  // namespace
}  // namespace deepslice
