// Encoding and decoding: golden ids, streams, added tokens, hostile text.
#include "runtime/text/tokenizer.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/text/chat_encode.h"
#include "runtime/text/testing_tokenizers.h"
#include "runtime/text/tokenizer_tables.h"
#include "runtime/text/utf8.h"
#include "schema/base/file.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

using testing_tokenizers::AddedTokenJson;
using testing_tokenizers::ByteLevelFile;
using testing_tokenizers::Json;
using testing_tokenizers::Load;
using testing_tokenizers::Loaded;
using testing_tokenizers::LoadFile;
using Ids = std::vector<int32_t>;

Ids IdsOf(const json::Value& list) {
  Ids out;
  for (const json::Value& v : list.items()) {
    out.push_back(static_cast<int32_t>(v.as_int()));
  }
  return out;
}

std::string Streamed(const Tokenizer& tokenizer, const Ids& ids, bool skip) {
  StreamDecoder decoder(tokenizer, skip);
  std::string out;
  for (int32_t id : ids) {
    const auto part = decoder.Add(id);
    EXPECT_TRUE(part.ok()) << part.status();
    EXPECT_TRUE(IsValidUtf8(*part));
    out += *part;
  }
  return out + *decoder.Finish();
}

class GoldenTokenizer : public testing::TestWithParam<const char*> {};

TEST_P(GoldenTokenizer, GivesTheReferenceIdsAndTexts) {
  const std::string folder = JoinPath(DS_GOLDEN_TOKENIZERS, GetParam());
  DS_ASSERT_OK_AND_ASSIGN(
      const std::string file,
      ReadFile(JoinPath(folder, "tokenizer.json"), 1 << 24));
  DS_ASSERT_OK_AND_ASSIGN(const std::string golden_text,
                          ReadFile(JoinPath(folder, "golden.json"), 1 << 24));
  DS_ASSERT_OK_AND_ASSIGN(const json::Value golden, json::Parse(golden_text));
  DS_ASSERT_OK_AND_ASSIGN(TokenizerTables tables,
                          ReadTokenizerJson(file, json::Value()));
  DS_ASSERT_OK_AND_ASSIGN(const Loaded t, Load(std::move(tables)));
  ASSERT_GE(golden.items().size(), 44u);
  EncodeOptions no_special;
  no_special.add_special = false;
  for (const json::Value& c : golden.items()) {
    const std::string& text = c.Find("text")->as_string();
    SCOPED_TRACE(json::Write(text));
    DS_ASSERT_OK_AND_ASSIGN(const Ids ids, t->Encode(text));
    EXPECT_EQ(ids, IdsOf(*c.Find("ids")));
    DS_ASSERT_OK_AND_ASSIGN(const Ids bare, t->Encode(text, no_special));
    EXPECT_EQ(bare, IdsOf(*c.Find("ids_no_special")));
    for (const bool skip : {true, false}) {
      DS_ASSERT_OK_AND_ASSIGN(const std::string decoded, t->Decode(ids, skip));
      EXPECT_EQ(decoded,
                c.Find(skip ? "decoded" : "decoded_keep")->as_string());
      EXPECT_EQ(Streamed(*t.tokenizer, ids, skip), decoded);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, GoldenTokenizer,
                         testing::Values("bert_cased", "bert_uncased", "clip",
                                         "gpt2", "llama2", "llama3",
                                         "metaspace", "qwen2", "smollm",
                                         "t5_unigram"));

TEST(Tokenizer, MergesByPriorityThenFromTheLeft) {
  // "aaa": the leftmost pair; "abc": (b, c) comes before (a, b).
  DS_ASSERT_OK_AND_ASSIGN(
      const Loaded t, LoadFile(ByteLevelFile(
                          {{"b", "c"}, {"a", "b"}, {"a", "a"}, {"a", "bc"}})));
  const auto token = [&](absl::string_view s) { return t->TokenToId(s); };
  EXPECT_EQ(*t->Encode("aaa"), Ids({token("aa"), token("a")}));
  EXPECT_EQ(*t->Encode("abc"), Ids({token("abc")}));
  EXPECT_EQ(*t->Encode("abab"), Ids({token("ab"), token("ab")}));
}

TEST(Tokenizer, LongWordsMergeLikeShortOnes) {
  // 32 symbols is the border between the scan and the heap: the same pattern
  // repeated across it must give the same parts.
  DS_ASSERT_OK_AND_ASSIGN(const Loaded t,
                          LoadFile(ByteLevelFile({{"a", "b"},
                                                  {"ab", "c"},
                                                  {"c", "a"},
                                                  {"abc", "abc"},
                                                  {"d", "abc"}})));
  DS_ASSERT_OK_AND_ASSIGN(const Ids unit, t->Encode("dabcabc"));
  for (int n = 1; n < 40; ++n) {
    std::string text;
    Ids expected;
    for (int i = 0; i < n; ++i) {
      text += "dabcabc";
      expected.insert(expected.end(), unit.begin(), unit.end());
    }
    EXPECT_EQ(*t->Encode(text), expected) << n;
  }
}

TEST(Tokenizer, WordsOfUnknownCharactersAloneGiveNoIds) {
  DS_ASSERT_OK_AND_ASSIGN(
      const Loaded t,
      LoadFile(Json(R"({"added_tokens": [], "normalizer": null,
                        "pre_tokenizer": null, "post_processor": null,
                        "decoder": null,
                        "model": {"type": "BPE", "vocab": {"a": 0},
                                  "merges": []}})")));
  for (int i = 0; i < 2; ++i) {  // the second time out of the cache
    EXPECT_EQ(*t->Encode("xyz"), Ids());
    EXPECT_EQ(*t->Encode("xay"), Ids({0}));
  }
}

TEST(Tokenizer, ReadsInvalidUtf8AsReplacementCharacters) {
  DS_ASSERT_OK_AND_ASSIGN(const Loaded t, LoadFile(ByteLevelFile({})));
  DS_ASSERT_OK_AND_ASSIGN(const Ids ids, t->Encode("a\xFF\xE2\x82z"));
  EXPECT_EQ(ids, *t->Encode("a\xEF\xBF\xBD\xEF\xBF\xBDz"));
  EXPECT_EQ(*t->Decode(ids, true), "a\xEF\xBF\xBD\xEF\xBF\xBDz");
}

TEST(Tokenizer, RoundTripsEveryCodePoint) {
  DS_ASSERT_OK_AND_ASSIGN(const Loaded t,
                          LoadFile(ByteLevelFile({{"Ã", "©"}, {"Ġ", "a"}})));
  std::string text;
  for (uint32_t cp = 0; cp < 0x110000; ++cp) {
    if (cp == 0xD800) cp = 0xE000;
    AppendUtf8(cp, &text);
  }
  DS_ASSERT_OK_AND_ASSIGN(const Ids ids, t->Encode(text));
  EXPECT_EQ(*t->Decode(ids, false), text);
}

TEST(Tokenizer, LongRunsOfOneCharacterAreEncoded) {
  DS_ASSERT_OK_AND_ASSIGN(
      const Loaded t,
      LoadFile(ByteLevelFile({{"a", "a"}, {"aa", "aa"}, {"Ġ", "Ġ"}})));
  EXPECT_EQ(t->Encode(std::string(1 << 20, 'a'))->size(), size_t{1} << 18);
  EXPECT_EQ(t->Encode(std::string(1 << 20, ' '))->size(), size_t{1} << 19);
  EXPECT_EQ(t->Encode("")->size(), 0u);
  EXPECT_EQ(*t->Encode(absl::string_view("\0", 1)), Ids({0}));
}

TEST(Tokenizer, DecodeRefusesIdsOutsideTheVocabulary) {
  DS_ASSERT_OK_AND_ASSIGN(const Loaded t, LoadFile(ByteLevelFile({})));
  ASSERT_EQ(t->vocab_size(), 258);
  for (int32_t id : {-1, 258, 1 << 30}) {
    DS_EXPECT_ERROR(t->Decode({0, id}, true), kInvalidArgument,
                    "is outside the vocabulary of 258 tokens");
    EXPECT_EQ(t->IdToToken(id), "");
    EXPECT_FALSE(t->IsSpecial(id));
  }
}

TEST(Tokenizer, NamesTokens) {
  DS_ASSERT_OK_AND_ASSIGN(
      const Loaded t,
      LoadFile(
          ByteLevelFile({}),
          Json(R"({"bos_token": {"content": "<s>"}, "eos_token": "<u>"})")));
  EXPECT_EQ(t->TokenToId("<s>"), 256);
  EXPECT_EQ(t->bos_id(), 256);
  EXPECT_EQ(t->eos_id(), 257);
  EXPECT_EQ(t->TokenToId("nothing"), -1);
  EXPECT_TRUE(t->IsSpecial(256));
  EXPECT_FALSE(t->IsSpecial(257));
  EXPECT_EQ(t->IdToToken(256), "<s>");
}

TEST(Tokenizer, SpecialTokensInPlainTextStayText) {
  DS_ASSERT_OK_AND_ASSIGN(const Loaded t, LoadFile(ByteLevelFile({})));
  EXPECT_EQ(*t->Encode("<s>"), Ids({256}));
  EncodeOptions plain;
  plain.parse_special = false;
  EXPECT_EQ(t->Encode("<s>", plain)->size(), 3u);
  // A token that is not special is part of the text's vocabulary.
  EXPECT_EQ(*t->Encode("<u>", plain), Ids({257}));
}

TEST(Tokenizer, PlainRangesGuardOnlyWhatTouchesThem) {
  DS_ASSERT_OK_AND_ASSIGN(const Loaded t, LoadFile(ByteLevelFile({})));
  const auto count = [&](absl::string_view text,
                         const std::vector<ByteRange>& plain) {
    const auto ids = t->EncodeWithPlainRanges(text, {}, plain);
    EXPECT_TRUE(ids.ok()) << ids.status();
    return std::count(ids->begin(), ids->end(), 256);
  };
  EXPECT_EQ(count("<s><s><s>", {}), 3);
  EXPECT_EQ(count("<s><s><s>", {{3, 6}}), 2);
  EXPECT_EQ(count("<s><s><s>", {{5, 7}}), 1);  // a byte of two of them
  EXPECT_EQ(count("<s><s><s>", {{3, 3}}), 3);  // empty
  EXPECT_EQ(count("<s><s><s>", {{0, 1}, {8, 9}}), 1);
  // Damage is repaired range by range, offsets move along.
  EXPECT_EQ(count("\xFF<s>\xFF<s>", {{5, 8}}), 1);
  DS_EXPECT_ERROR(t->EncodeWithPlainRanges("abc", {}, {{2, 4}}),
                  kInvalidArgument, "plain range [2, 4)");
  DS_EXPECT_ERROR(t->EncodeWithPlainRanges("abc", {}, {{1, 2}, {0, 1}}),
                  kInvalidArgument, "must be sorted");
}

TEST(Tokenizer, PlainRangesHoldForTokensOfNormalizedText) {
  json::Value file = ByteLevelFile({});
  file.Set("normalizer", Json(R"({"type": "NFC"})"));
  file.Find("added_tokens")->items()[0].Set("normalized", true);
  DS_ASSERT_OK_AND_ASSIGN(const Loaded t, LoadFile(file));
  const std::string text = "<s>e\xCC\x81<s>";  // NFC shortens it
  EXPECT_EQ(*t->Encode(text), Ids({256, 195, 169, 256}));
  const auto ids = t->EncodeWithPlainRanges(text, {}, {{3, 4}});
  EXPECT_EQ(std::count(ids->begin(), ids->end(), 256), 0);
  EXPECT_EQ(*t->EncodeWithPlainRanges("<s>e<s>", {}, {{3, 4}}),
            Ids({256, 'e', 256}));
}

TEST(Tokenizer, AddedTokensFollowTheirFlags) {
  json::Value file = ByteLevelFile({});
  json::Value word = AddedTokenJson("word", 258, false);
  word.Set("single_word", true);
  json::Value strip = AddedTokenJson("<m>", 259, false);
  strip.Set("lstrip", true);
  strip.Set("rstrip", true);
  file.Find("added_tokens")->Add(word);
  file.Find("added_tokens")->Add(strip);
  file.Find("added_tokens")->Add(AddedTokenJson("<m>x", 260, false));
  DS_ASSERT_OK_AND_ASSIGN(const Loaded t, LoadFile(file));
  EXPECT_EQ(*t->Encode("word"), Ids({258}));
  EXPECT_EQ(t->Encode("wordy")->size(), 5u);
  EXPECT_EQ(t->Encode("_word")->size(), 5u);
  EXPECT_EQ(t->Encode("word\xCC\x81")->size(), 6u);  // a mark is in the word
  EXPECT_EQ(*t->Encode(" \xE3\x80\x80<m>\t <m> "), Ids({259, 259}));
  EXPECT_EQ(*t->Encode("<m>x"), Ids({260}));  // the longest
}

TEST(Tokenizer, LoadGivesAStatusForEveryDamage) {
  // A small table with every kind of section.
  TokenizerTables tables;
  {
    json::Value file = Json(R"({
      "added_tokens": [
        {"id": 5, "content": "<s>", "special": true},
        {"id": 7, "content": "é", "special": false, "normalized": true}],
      "normalizer": {"type": "NFC"},
      "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": "a+|\\s"},
         "behavior": "MergedWithNext", "invert": false},
        {"type": "Split", "pattern": {"String": "é"},
         "behavior": "Removed", "invert": true},
        {"type": "Digits", "individual_digits": true},
        {"type": "ByteLevel", "add_prefix_space": true, "use_regex": false}]},
      "post_processor": {"type": "RobertaProcessing", "sep": ["<s>", 5],
        "cls": ["<s>", 5], "trim_offsets": true, "add_prefix_space": false},
      "decoder": {"type": "Sequence", "decoders": [
        {"type": "ByteLevel"}, {"type": "Fuse"}]},
      "model": {"type": "BPE", "unk_token": "b", "fuse_unk": true,
        "vocab": {"a": 0, "b": 1, "ab": 2, "Ġ": 3, "Ġa": 4},
        "merges": ["a b", "Ġ a"]}})");
    DS_ASSERT_OK_AND_ASSIGN(
        tables, ReadTokenizerJson(json::Write(file), json::Value()));
  }
  const auto run = [](const std::string& bytes) {
    const auto t = Tokenizer::Load(bytes);
    if (!t.ok()) {
      EXPECT_EQ(t.status().code(), absl::StatusCode::kDataLoss) << t.status();
      return false;
    }
    const auto ids = (*t)->Encode("ab a\xC3\xA9<s> 12 ab\xFF");
    if (ids.ok()) {
      EXPECT_TRUE((*t)->Decode(*ids, false).ok());
    }
    return true;
  };
  const std::string& good = tables.bytes;
  ASSERT_TRUE(run(good));
  for (size_t i = 0; i < good.size(); ++i) {
    EXPECT_FALSE(run(good.substr(0, i))) << "cut at " << i;
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ 1 << bit);
      run(bad);
    }
    std::string bad = good;
    bad[i] = static_cast<char>(0xFF);
    run(bad);
  }
  EXPECT_FALSE(run(good + "x"));
  std::string newer = good;
  newer[7] = 9;
  DS_EXPECT_ERROR(Tokenizer::Load(newer), kDataLoss, "format 9, this reads 2");
}

TEST(Tokenizer, TheSameFileGivesTheSameBytes) {
  const json::Value file = ByteLevelFile({{"a", "b"}});
  EXPECT_EQ(LoadFile(file)->tables.bytes, LoadFile(file)->tables.bytes);
}

TEST(StreamDecoder, HoldsBackUnfinishedCharacters) {
  DS_ASSERT_OK_AND_ASSIGN(const Loaded t, LoadFile(ByteLevelFile({})));
  DS_ASSERT_OK_AND_ASSIGN(const Ids ids, t->Encode("\xF0\x9F\x98\x80!"));
  StreamDecoder decoder(*t.tokenizer, true);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(*decoder.Add(ids[i]), "");
  EXPECT_EQ(*decoder.Add(ids[3]), "\xF0\x9F\x98\x80");
  EXPECT_EQ(*decoder.Add(ids[0]), "");
  EXPECT_EQ(*decoder.Finish(), "\xEF\xBF\xBD");
  DS_EXPECT_ERROR(decoder.Add(4711), kInvalidArgument, "outside");
}

TEST(EncodeChat, EncodesPiecesAsOneTextAndUsersCantTypeSpecials) {
  DS_ASSERT_OK_AND_ASSIGN(
      const Loaded t,
      LoadFile(ByteLevelFile({{"a", "b"}}),
               Json(R"({"bos_token": "<s>", "add_bos_token": true})")));
  const int32_t ab = t->TokenToId("ab");
  // A word goes on across the border; no BOS is added.
  EXPECT_EQ(*EncodeChat(*t.tokenizer, {{"a", false}, {"b", true}}), Ids({ab}));
  EXPECT_EQ(*EncodeChat(*t.tokenizer, {{"<s>", false}, {"ab", true}}),
            Ids({t->bos_id(), ab}));
  DS_ASSERT_OK_AND_ASSIGN(
      const Ids ids,
      EncodeChat(*t.tokenizer,
                 {{"<s>x<", false}, {"s><s>", true}, {"<s>", false}}));
  EXPECT_EQ(ids.front(), t->bos_id());
  EXPECT_EQ(ids.back(), t->bos_id());
  EXPECT_EQ(std::count(ids.begin(), ids.end(), t->bos_id()), 2);
  EXPECT_EQ(*t->Decode(ids, false), "<s>x<s><s><s>");
}

}  // namespace
}  // namespace deepslice
