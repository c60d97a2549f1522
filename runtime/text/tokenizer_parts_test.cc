// Single components against what the published library makes of the same texts.
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/text/decoder_chain.h"
#include "runtime/text/json_at.h"
#include "runtime/text/normalizer.h"
#include "runtime/text/pre_tokenize.h"
#include "runtime/text/tokenizer_json_steps.h"
#include "runtime/text/tokenizer_spec.h"
#include "runtime/text/utf8.h"
#include "schema/base/file.h"
#include "schema/base/json.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

class Components : public testing::Test {
 protected:
  void SetUp() override {
    DS_ASSERT_OK_AND_ASSIGN(
        const std::string text,
        ReadFile(JoinPath(DS_TEXT_TESTDATA, "component_goldens.json"),
                 1 << 24));
    DS_ASSERT_OK_AND_ASSIGN(goldens_, json::Parse(text));
  }
  const std::vector<json::Value>& List(absl::string_view key) const {
    return goldens_.Find(key)->items();
  }

  json::Value goldens_;
};

TEST_F(Components, NormalizersGiveThePublishedTexts) {
  ASSERT_GE(List("normalizers").size(), 20u);
  for (const json::Value& row : List("normalizers")) {
    const json::Value& part = row.items()[0];
    SCOPED_TRACE(json::Write(part).substr(0, 120));
    TokenizerSpec spec;
    DS_ASSERT_OK(ReadNormalizer(JsonAt{&part, "normalizer"}, &spec));
    DS_ASSERT_OK_AND_ASSIGN(const Normalizer normalizer,
                            Normalizer::Create(spec));
    for (size_t i = 0; i < List("texts").size(); ++i) {
      const std::string& text = List("texts")[i].as_string();
      Normalizer::Text t;
      t.view = text;
      DS_ASSERT_OK(normalizer.Run(&t));
      EXPECT_EQ(t.view, row.items()[1].items()[i].as_string())
          << json::Write(text);
    }
  }
}

TEST_F(Components, PreTokenizersGiveThePublishedPieces) {
  ASSERT_GE(List("pre_tokenizers").size(), 30u);
  for (const json::Value& row : List("pre_tokenizers")) {
    const json::Value& part = row.items()[0];
    SCOPED_TRACE(json::Write(part).substr(0, 200));
    TokenizerSpec spec;
    DS_ASSERT_OK(ReadPreTokenizer(JsonAt{&part, "pre_tokenizer"}, &spec));
    // Raw bytes are for models; here, as the library shows them, characters.
    const bool byte_level =
        spec.pre_tokenizers.back().kind == PreTokenizerKind::kByteLevel;
    if (byte_level) {
      PreTokenizerStep rewrite;
      spec.pre_tokenizers.push_back(rewrite);
      spec.pre_tokenizers.back().kind = PreTokenizerKind::kMetaspace;
      spec.pre_tokenizers.back().pattern = "\x01";
      spec.pre_tokenizers.back().prepend_scheme = PrependScheme::kNever;
    }
    DS_ASSERT_OK_AND_ASSIGN(const PreTokenizer pre,
                            PreTokenizer::Create(spec.pre_tokenizers));
    for (size_t i = 0; i < List("texts").size(); ++i) {
      const std::string& text = List("texts")[i].as_string();
      PreTokens t;
      t.text = text;
      t.at_start = true;
      DS_ASSERT_OK(pre.Run(&t));
      std::vector<std::string> got, want;
      for (const PreTokens::Piece& p : t.pieces) {
        got.emplace_back(t.text.substr(p.begin, p.end - p.begin));
      }
      for (const json::Value& piece : row.items()[1].items()[i].items()) {
        want.push_back(piece.as_string());
      }
      EXPECT_EQ(got, want) << json::Write(text);
    }
  }
}

TEST_F(Components, DecodersGiveThePublishedTexts) {
  ASSERT_GE(List("decoders").size(), 15u);
  for (const json::Value& row : List("decoders")) {
    const json::Value& part = row.items()[0];
    SCOPED_TRACE(json::Write(part));
    TokenizerSpec spec;
    DS_ASSERT_OK(ReadDecoder(JsonAt{&part, "decoder"}, &spec));
    // As the reader of the whole file does for an empty Sequence.
    if (spec.decoders.empty()) spec.decoders = {{DecoderKind::kFuse}};
    DS_ASSERT_OK_AND_ASSIGN(const DecoderChain chain,
                            DecoderChain::Create(spec.decoders));
    for (size_t i = 0; i < List("tokens").size(); ++i) {
      std::string out;
      TextAllowance allowance;
      const auto stage = chain.Start(&allowance, &out);
      size_t shown = 0;
      for (const json::Value& token : List("tokens")[i].items()) {
        const DecodedToken t{token.as_string(), kTokenInModel, false};
        DS_ASSERT_OK(stage->Push(token.as_string(), &t));
        // Nothing is taken back, and nothing is half a character.
        ASSERT_GE(out.size(), shown);
        ASSERT_TRUE(IsValidUtf8(out));
        shown = out.size();
      }
      DS_ASSERT_OK(stage->Finish());
      EXPECT_EQ(out, row.items()[1].items()[i].as_string()) << i;
    }
  }
}

}  // namespace
}  // namespace deepslice
