// Files that are no tokenizer.json: sentencepiece models against sentencepiece,
// ranks against tiktoken, GGUF vocabularies against the files they come from.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "runtime/text/sentencepiece_proto.h"
#include "runtime/text/tokenizer.h"
#include "runtime/text/tokenizer_files.h"
#include "runtime/text/tokenizer_spec.h"
#include "runtime/text/tokenizer_tables.h"
#include "runtime/text/tokenizer_vectors.h"
#include "runtime/text/wire_reader.h"
#include "schema/base/file.h"
#include "schema/base/json.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

using Ids = std::vector<int32_t>;

std::string ReadOrDie(const std::string& path) {
  auto text = ReadFile(path, 1 << 26);
  EXPECT_TRUE(text.ok()) << text.status();
  return text.ok() ? *text : std::string();
}
json::Value JsonFile(const std::string& path) {
  auto value = json::Parse(ReadOrDie(path));
  EXPECT_TRUE(value.ok()) << value.status();
  return value.ok() ? *value : json::Value();
}
std::string ModelPath(absl::string_view name) {
  return JoinPath(JoinPath(DS_TEXT_TESTDATA, "models"), name);
}

Ids IdsOf(const json::Value& list) {
  Ids out;
  for (const json::Value& v : list.items()) {
    out.push_back(static_cast<int32_t>(v.as_int()));
  }
  return out;
}

std::unique_ptr<Tokenizer> Load(const absl::StatusOr<TokenizerTables>& tables) {
  EXPECT_TRUE(tables.ok()) << tables.status();
  if (!tables.ok()) return nullptr;
  auto t = Tokenizer::Load(tables->bytes);
  EXPECT_TRUE(t.ok()) << t.status();
  return t.ok() ? *std::move(t) : nullptr;
}

class SentencePieceGolden : public testing::TestWithParam<const char*> {};

TEST_P(SentencePieceGolden, GivesSentencePiecesIdsAndTexts) {
  const json::Value goldens =
      JsonFile(JoinPath(DS_TEXT_TESTDATA, "model_goldens.json"));
  const auto t = Load(ReadTokenizerSentencePiece(
      ReadOrDie(ModelPath(absl::StrCat(GetParam(), ".model"))), {}, ""));
  ASSERT_NE(t, nullptr);
  const auto& texts = goldens.Find("texts")->items();
  const auto& rows = goldens.Find("sentencepiece")->Find(GetParam())->items();
  ASSERT_EQ(texts.size(), rows.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    SCOPED_TRACE(json::Write(texts[i]));
    DS_ASSERT_OK_AND_ASSIGN(const Ids ids, t->Encode(texts[i].as_string()));
    EXPECT_EQ(ids, IdsOf(rows[i].items()[0]));
    EXPECT_EQ(*t->Decode(ids, true), rows[i].items()[1].as_string());
    StreamDecoder stream(*t, true);
    std::string streamed;
    for (int32_t id : ids) streamed += *stream.Add(id);
    EXPECT_EQ(streamed + *stream.Finish(), rows[i].items()[1].as_string());
  }
}

INSTANTIATE_TEST_SUITE_P(Models, SentencePieceGolden,
                         testing::Values("bpe", "bpe_user", "bpe_suffix",
                                         "unigram", "unigram_byte"));

class RanksGolden : public testing::TestWithParam<const char*> {};

TEST_P(RanksGolden, GivesTiktokensIds) {
  const json::Value goldens =
      JsonFile(JoinPath(DS_TEXT_TESTDATA, "model_goldens.json"));
  const auto t = Load(ReadTokenizerRanks(ReadOrDie(ModelPath("ranks.tiktoken")),
                                         GetParam(), {}));
  ASSERT_NE(t, nullptr);
  const auto& texts = goldens.Find("texts")->items();
  const auto& rows = goldens.Find("tiktoken")->Find(GetParam())->items();
  EncodeOptions plain;
  plain.add_special = false;
  plain.parse_special = false;
  for (size_t i = 0; i < texts.size(); ++i) {
    SCOPED_TRACE(json::Write(texts[i]));
    DS_ASSERT_OK_AND_ASSIGN(const Ids ids,
                            t->Encode(texts[i].as_string(), plain));
    EXPECT_EQ(ids, IdsOf(rows[i]));
    EXPECT_EQ(*t->Decode(ids, true), texts[i].as_string());
  }
}

INSTANTIATE_TEST_SUITE_P(Encodings, RanksGolden,
                         testing::Values("gpt2", "cl100k_base", "llama3",
                                         "qwen", "o200k_base"));

TEST(ReadTokenizerRanks, AddsTheEncodingsTokens) {
  const std::string ranks = ReadOrDie(ModelPath("ranks.tiktoken"));
  const auto llama = Load(ReadTokenizerRanks(ranks, "llama3", {}));
  EXPECT_EQ(llama->vocab_size(), 800 + 256);
  EXPECT_EQ(llama->TokenToId("<|begin_of_text|>"), 800);
  EXPECT_EQ(llama->TokenToId("<|eot_id|>"), 809);
  EXPECT_EQ(llama->TokenToId("<|reserved_special_token_247|>"), 1055);
  EXPECT_EQ(*llama->Encode("<|eot_id|>"), Ids({800, 809}));
  const auto declared = Load(ReadTokenizerRanks(
      ranks, "qwen",
      *json::Parse(R"({"added_tokens_decoder": {"800": {"content": "<x>",
                      "special": true}}, "eos_token": "<x>"})")));
  EXPECT_EQ(*declared->Encode("<x>"), Ids({800}));
  EXPECT_EQ(declared->eos_id(), 800);
  EXPECT_EQ(declared->vocab_size(), 801);
}

TEST(ReadTokenizerRanks, RefusesDamageByLine) {
  const std::string ranks = ReadOrDie(ModelPath("ranks.tiktoken"));
  DS_EXPECT_ERROR(ReadTokenizerRanks(ranks, "", {}), kInvalidArgument,
                  "nothing says by which pattern");
  DS_EXPECT_ERROR(ReadTokenizerRanks(ranks, "magic", {}), kInvalidArgument,
                  "the pattern \"magic\" is not known; known are gpt2");
  DS_EXPECT_ERROR(ReadTokenizerRanks("IQ== 0\n!!! 1\n", "gpt2", {}),
                  kInvalidArgument, "line 2: must be a token in base64");
  DS_EXPECT_ERROR(ReadTokenizerRanks("IQ== 0\nIQ== 1\n", "gpt2", {}),
                  kInvalidArgument, "line 2: token \"!\" has two ids");
  DS_EXPECT_ERROR(ReadTokenizerRanks("IQ== 0\nIg== 0\n", "gpt2", {}),
                  kInvalidArgument, "have the same id 0");
  DS_EXPECT_ERROR(ReadTokenizerRanks("IQ== 0\n", "gpt2", {}), kInvalidArgument,
                  "255 of the 256 bytes have no rank");
  DS_EXPECT_ERROR(ReadTokenizerRanks("", "gpt2", {}), kInvalidArgument,
                  "holds no ranks");
}

TEST(ReadTokenizerSentencePiece, FollowsTheClassOfTheConfig) {
  const std::string bytes = ReadOrDie(ModelPath("bpe.model"));
  const auto load = [&](absl::string_view config, absl::string_view type) {
    return Load(ReadTokenizerSentencePiece(bytes, *json::Parse(config), type));
  };
  const auto bare = load("{}", "");
  const auto llama = load("{}", "llama");
  const Ids hello = *bare->Encode("hello");
  Ids with_bos = hello;
  with_bos.insert(with_bos.begin(), llama->bos_id());
  EXPECT_EQ(*llama->Encode("hello"), with_bos);
  // sentencepiece itself reads no control tokens in a text.
  EXPECT_GT(bare->Encode("</s>")->size(), 2u);
  EXPECT_EQ(*llama->Encode("</s>"), Ids({1, 2}));
  EXPECT_EQ(*llama->Decode({1, 2}, true), "");
  EXPECT_EQ(*llama->Decode(*llama->Encode(" a  b "), true), " a  b ");
  // Legacy: every stretch starts with a space; else the first one alone.
  const auto modern = load(
      R"({"tokenizer_class": "LlamaTokenizer", "legacy": false,
          "add_bos_token": false, "add_eos_token": true})",
      "");
  EXPECT_EQ(*modern->Encode("hello"), [&] {
    Ids ids = hello;
    ids.push_back(2);
    return ids;
  }());
  EXPECT_NE(llama->Encode("<s>hello")->size(), 0u);
  EncodeOptions no_special;
  no_special.add_special = false;
  const Ids stretch = *modern->Encode("</s>hello", no_special);
  EXPECT_EQ(stretch[0], 2);
  EXPECT_NE(Ids(stretch.begin() + 1, stretch.end()), hello);
  Ids after = *llama->Encode("</s>hello", no_special);
  EXPECT_EQ(Ids(after.begin() + 1, after.end()), hello);
  // Tokens that the config declares, and T5's own.
  const auto declared = load(
      R"({"tokenizer_class": "LlamaTokenizer", "added_tokens_decoder": {
          "0": {"content": "<unk>", "special": true},
          "700": {"content": "<|im_start|>", "special": true}}})",
      "");
  EXPECT_EQ(declared->vocab_size(), 701);
  EXPECT_EQ(*declared->Encode("<|im_start|>"), Ids({1, 700}));
  const auto t5 = Load(ReadTokenizerSentencePiece(
      ReadOrDie(ModelPath("unigram.model")), {}, "t5"));
  EXPECT_EQ(t5->vocab_size(), 400);
  EXPECT_EQ(t5->TokenToId("<extra_id_0>"), 399);
  EXPECT_EQ(t5->Encode("the")->back(), 1);
  DS_EXPECT_ERROR(
      ReadTokenizerSentencePiece(
          bytes, *json::Parse(R"({"tokenizer_class": "XLMRobertaTokenizer"})"),
          ""),
      kUnimplemented, "tokenizer_class \"XLMRobertaTokenizer\"");
}

// A message of wire-format fields.
std::string Varint(uint64_t v) {
  std::string out;
  for (; v >= 0x80; v >>= 7) out.push_back(static_cast<char>(v | 0x80));
  out.push_back(static_cast<char>(v));
  return out;
}
std::string Bytes(int field, const std::string& bytes) {
  return Varint(field << 3 | 2) + Varint(bytes.size()) + bytes;
}
std::string Number(int field, uint64_t v) {
  return Varint(field << 3) + Varint(v);
}
std::string Piece(const std::string& text, int type) {
  return Bytes(1, Bytes(1, text) + Number(3, type));
}

TEST(ReadTokenizerSentencePiece, RefusesWhatSentencePieceRefuses) {
  const auto refused = [](const std::string& bytes, absl::StatusCode code,
                          absl::string_view part) {
    const auto t = ReadTokenizerSentencePiece(bytes, {}, "");
    EXPECT_TRUE(HasStatus(t.status(), code, part)) << t.status();
  };
  const std::string unk = Piece("<unk>", 2), a = Piece("a", 1);
  const auto bad = absl::StatusCode::kInvalidArgument;
  refused("", bad, "holds no pieces");
  refused(a, bad, "no piece has type 2");
  refused(unk + Piece("<u2>", 2), bad, "is a second unknown piece");
  refused(unk + a + a, bad, "piece 2 (\"a\") is there twice");
  refused(unk + Piece("", 1), bad, "piece 1 (\"\") is empty");
  refused(unk + Piece("\xFF", 1), bad, "is not UTF-8");
  refused(unk + Piece("a", 9), bad, "piece 1 has type 9");
  refused(unk + Piece("<0x41>", 6), bad, "byte_fallback is not set");
  refused(unk + Bytes(2, Number(35, 1)), bad, "there are 0 byte pieces");
  refused(unk + Piece("<0xGG>", 6) + Bytes(2, Number(35, 1)), bad,
          "must be <0x00> to <0xFF>");
  refused(unk + a + Bytes(2, Number(3, 3)), absl::StatusCode::kUnimplemented,
          "model_type is 3 (word)");
  refused(unk + a + Bytes(5, Bytes(2, "abcd")),
          absl::StatusCode::kUnimplemented, "denormalizer_spec");
  refused(unk + a + Bytes(3, Bytes(2, "abcdefgh")), bad,
          "normalizer_spec.precompiled_charsmap: the compiled character map");
  const auto cut = absl::StatusCode::kDataLoss;
  refused(unk + "\x0A", cut, "byte 12: the file ends inside a number");
  refused(unk + "\x0A\x7F", cut, "field 1 has 127 bytes, 0 are left");
  refused(std::string(10, '\xFF') + "\x01", cut, "more than 64 bits");
  refused(std::string("\x07", 1), cut, "field number 0");
  refused("\x0B", cut, "wire type 3");
  refused(Number(1, 5), cut, "field 1 has wire type 0; must be 2");
}

TEST(ReadTokenizerSentencePiece, GivesAStatusForEveryDamage) {
  const std::string good = ReadOrDie(ModelPath("bpe_user.model"));
  for (size_t i = 0; i < good.size(); i += 7) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << i % 8));
    const auto t = ReadTokenizerSentencePiece(bad, {}, "");
    if (t.ok()) {
      const auto loaded = Tokenizer::Load(t->bytes);
      ASSERT_TRUE(loaded.ok()) << loaded.status();
      ASSERT_TRUE((*loaded)->Encode("and the LORD <usr>").ok());
    }
    ReadTokenizerSentencePiece(good.substr(0, i), {}, "").IgnoreError();
  }
}

// The metadata of a GGUF file for a sentencepiece model.
json::Value GgufOfPieces(absl::string_view kind, absl::string_view file) {
  auto model = ParseSentencePieceModel(ReadOrDie(ModelPath(file)));
  EXPECT_TRUE(model.ok()) << model.status();
  json::Value m = json::Value::Object();
  m.Set("tokenizer.ggml.model", kind);
  json::Value tokens = json::Value::Array(), types = json::Value::Array();
  json::Value scores = json::Value::Array(), map = json::Value::Array();
  for (const auto& p : model->pieces) {
    tokens.Add(p.text);
    types.Add(static_cast<int64_t>(p.type));
    scores.Add(static_cast<double>(p.score));
  }
  for (char c : model->charsmap) {
    map.Add(int64_t{static_cast<uint8_t>(c)});
  }
  m.Set("tokenizer.ggml.tokens", std::move(tokens));
  m.Set("tokenizer.ggml.token_type", std::move(types));
  m.Set("tokenizer.ggml.scores", std::move(scores));
  if (!model->charsmap.empty()) {
    m.Set("tokenizer.ggml.precompiled_charsmap", std::move(map));
  }
  return m;
}

// The same vocabulary by both ways gives the same ids for every golden text.
void ExpectSameIds(const Tokenizer& a, const Tokenizer& b) {
  const json::Value goldens =
      JsonFile(JoinPath(DS_TEXT_TESTDATA, "model_goldens.json"));
  for (const json::Value& text : goldens.Find("texts")->items()) {
    DS_ASSERT_OK_AND_ASSIGN(const Ids x, a.Encode(text.as_string()));
    DS_ASSERT_OK_AND_ASSIGN(const Ids y, b.Encode(text.as_string()));
    EXPECT_EQ(x, y) << json::Write(text);
    EXPECT_EQ(*a.Decode(x, true), *b.Decode(y, true)) << json::Write(text);
  }
}

TEST(ReadTokenizerGguf, PiecesAreThoseOfTheModelFile) {
  const auto llama =
      Load(ReadTokenizerGguf(GgufOfPieces("llama", "bpe.model")));
  const auto file = Load(ReadTokenizerSentencePiece(
      ReadOrDie(ModelPath("bpe.model")), {}, "llama"));
  ASSERT_NE(llama, nullptr);
  ExpectSameIds(*llama, *file);
  const auto t5 = Load(ReadTokenizerGguf(GgufOfPieces("t5", "unigram.model")));
  const auto t5_file = Load(
      ReadTokenizerSentencePiece(ReadOrDie(ModelPath("unigram.model")),
                                 *json::Parse(R"({"extra_ids": 0})"), "t5"));
  ASSERT_NE(t5, nullptr);
  ExpectSameIds(*t5, *t5_file);
  json::Value m = GgufOfPieces("llama", "bpe.model");
  m.members().pop_back();
  m.Set("tokenizer.ggml.add_space_prefix", false);
  DS_EXPECT_ERROR(ReadTokenizerGguf(m), kInvalidArgument,
                  "tokenizer.ggml.scores: is missing");
}

// The metadata for a golden tokenizer.json.
json::Value GgufOfJson(absl::string_view name, absl::string_view kind,
                       absl::string_view pre) {
  const json::Value file = JsonFile(
      JoinPath(JoinPath(DS_GOLDEN_TOKENIZERS, name), "tokenizer.json"));
  const json::Value& model = *file.Find("model");
  std::vector<std::string> texts;
  std::vector<int64_t> types;
  const auto place = [&](const std::string& text, int64_t id, int64_t type) {
    if (texts.size() <= static_cast<size_t>(id)) {
      texts.resize(id + 1);
      types.resize(id + 1, 5);
    }
    texts[id] = text;
    types[id] = type;
  };
  for (const auto& [text, id] : model.Find("vocab")->members()) {
    place(kind != "bert"                 ? text
          : absl::StartsWith(text, "##") ? text.substr(2)
                                         : "\u2581" + text,
          id.as_int(), 1);
  }
  for (const json::Value& t : file.Find("added_tokens")->items()) {
    place(t.Find("content")->as_string(), t.Find("id")->as_int(),
          t.Find("special")->as_bool() ? 3 : 4);
  }
  json::Value m = json::Value::Object();
  m.Set("tokenizer.ggml.model", kind);
  m.Set("tokenizer.ggml.pre", pre);
  json::Value tokens = json::Value::Array(), kinds = json::Value::Array();
  for (size_t i = 0; i < texts.size(); ++i) {
    tokens.Add(texts[i]);
    kinds.Add(types[i]);
  }
  m.Set("tokenizer.ggml.tokens", std::move(tokens));
  m.Set("tokenizer.ggml.token_type", std::move(kinds));
  if (kind == "gpt2") {
    json::Value merges = json::Value::Array();
    for (const json::Value& pair : model.Find("merges")->items()) {
      merges.Add(absl::StrCat(pair.items()[0].as_string(), " ",
                              pair.items()[1].as_string()));
    }
    m.Set("tokenizer.ggml.merges", std::move(merges));
  }
  return m;
}

TEST(ReadTokenizerGguf, VocabulariesGiveTheGoldenIdsOfTheirJson) {
  struct Case {
    const char* name;
    const char* kind;
    const char* pre;
    int64_t bos;
  };
  for (const Case& c : {Case{"llama3", "gpt2", "llama-bpe", 0},
                        Case{"qwen2", "gpt2", "qwen2", -1},
                        Case{"smollm", "gpt2", "smollm", -1},
                        Case{"bert_uncased", "bert", "", -1},
                        Case{"bert_cased", "bert", "", -1}}) {
    SCOPED_TRACE(c.name);
    json::Value m = GgufOfJson(c.name, c.kind, c.pre);
    if (c.bos >= 0) m.Set("tokenizer.ggml.bos_token_id", c.bos);
    if (std::string(c.kind) == "bert") {
      m.Set("tokenizer.ggml.unknown_token_id", 1);
      m.Set("tokenizer.ggml.cls_token_id", 2);
      m.Set("tokenizer.ggml.seperator_token_id", 3);
    }
    const auto t = Load(ReadTokenizerGguf(m));
    ASSERT_NE(t, nullptr);
    const json::Value golden = JsonFile(
        JoinPath(JoinPath(DS_GOLDEN_TOKENIZERS, c.name), "golden.json"));
    for (const json::Value& row : golden.items()) {
      const std::string& text = row.Find("text")->as_string();
      DS_ASSERT_OK_AND_ASSIGN(const Ids ids, t->Encode(text));
      EXPECT_EQ(ids, IdsOf(*row.Find("ids"))) << json::Write(text);
      EXPECT_EQ(*t->Decode(ids, true), row.Find("decoded")->as_string());
    }
  }
}

TEST(ReadTokenizerGguf, RwkvTakesTheLongestToken) {
  json::Value m = json::Value::Object();
  m.Set("tokenizer.ggml.model", "rwkv");
  m.Set("tokenizer.ggml.tokens",
        *json::Parse(R"(["<s>", "a", "ab", "abc", "b", "\\n", "\\xe4",
                         "\\xe4\\xbd\\xa0", "\\\\", "\\xff"])"));
  m.Set("tokenizer.ggml.token_type",
        *json::Parse("[3, 1, 1, 1, 1, 1, 1, 1, 1, 1]"));
  const auto t = Load(ReadTokenizerGguf(m));
  ASSERT_NE(t, nullptr);
  EXPECT_EQ(*t->Encode("abcabab\n\u4F60\\"), Ids({3, 2, 2, 5, 7, 8}));
  EXPECT_EQ(*t->Encode("<s>a"), Ids({0, 1}));
  EXPECT_EQ(*t->Decode({3, 5, 7, 8, 6}, true), "abc\n\u4F60\\\uFFFD");
  DS_EXPECT_ERROR(t->Encode("z"), kFailedPrecondition,
                  "no token for \"z\" and names no unknown token");
  m.Find("tokenizer.ggml.tokens")->items()[5] = "\\x4";
  DS_EXPECT_ERROR(ReadTokenizerGguf(m), kInvalidArgument,
                  "token 5: has \\x without two hexadecimal digits");
}

TEST(ReadTokenizerGguf, AFileWithoutVocabularyHasNoTokenizer) {
  json::Value m = json::Value::Object();
  m.Set("tokenizer.ggml.model", "none");
  DS_ASSERT_OK_AND_ASSIGN(const TokenizerTables tables, ReadTokenizerGguf(m));
  EXPECT_EQ(tables.bytes, "");
  EXPECT_EQ(tables.notes.size(), 1u);
}

TEST(TokenizerVectors, AreMadeAndCheckedForEveryKind) {
  for (absl::string_view name :
       {"bert_uncased", "clip", "gpt2", "llama2", "t5_unigram"}) {
    SCOPED_TRACE(name);
    DS_ASSERT_OK_AND_ASSIGN(
        TokenizerTables tables,
        ReadTokenizerFiles(JoinPath(DS_GOLDEN_TOKENIZERS, name), {}));
    int checked = -1;
    DS_ASSERT_OK(CheckTokenizerVectors(tables.bytes, &checked));
    EXPECT_EQ(checked, 0);
    DS_ASSERT_OK(AddTokenizerVectors(&tables));
    DS_ASSERT_OK(CheckTokenizerVectors(tables.bytes, &checked));
    EXPECT_EQ(checked, kTokenizerVectors);
    // The same again gives the same bytes.
    std::string once = tables.bytes;
    DS_ASSERT_OK(AddTokenizerVectors(&tables));
    EXPECT_EQ(tables.bytes, once);
    // The last id of the last vector, changed.
    once[once.size() - 4] = static_cast<char>(once[once.size() - 4] ^ 1);
    DS_EXPECT_ERROR(CheckTokenizerVectors(once, &checked), kDataLoss,
                    "tokenizer vector 63");
  }
}

// Damage of every kind's tables ends in a status or in a tokenizer that works.
TEST(TokenizerTables, SurviveDamageOfEveryKind) {
  std::vector<std::string> tables;
  for (absl::string_view name : {"bpe_user", "bpe_suffix", "unigram"}) {
    const auto t = ReadTokenizerSentencePiece(
        ReadOrDie(ModelPath(absl::StrCat(name, ".model"))), {},
        name == "unigram" ? "t5" : "");
    ASSERT_TRUE(t.ok()) << t.status();
    tables.push_back(t->bytes);
  }
  for (absl::string_view name : {"bert_cased", "clip", "t5_unigram"}) {
    const auto t = ReadTokenizerFiles(JoinPath(DS_GOLDEN_TOKENIZERS, name), {});
    ASSERT_TRUE(t.ok()) << t.status();
    tables.push_back(t->bytes);
  }
  uint64_t state = 99;
  const auto next = [&state] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state >> 33);
  };
  int loaded = 0;
  for (const std::string& good : tables) {
    for (int i = 0; i < 300; ++i) {
      std::string bad = good;
      // Most of the options lie at the end, behind the vocabulary.
      const size_t from = i % 2 == 0 ? 0 : bad.size() - bad.size() / 16;
      for (uint32_t n = 1 + next() % 3; n > 0; --n) {
        bad[from + next() % (bad.size() - from)] =
            static_cast<char>(next() % 2 == 0 ? next() : 0xFF);
      }
      const auto t = Tokenizer::Load(bad);
      if (!t.ok()) {
        EXPECT_EQ(t.status().code(), absl::StatusCode::kDataLoss) << t.status();
        continue;
      }
      ++loaded;
      const auto ids = (*t)->Encode("and the LORD <usr> said\xFF unto ab c!");
      if (ids.ok()) (*t)->Decode(*ids, false).IgnoreError();
    }
  }
  EXPECT_GT(loaded, 100);
}

TEST(TokenizerTables, RefusesMergesThatCantBeTakenBack) {
  TokenizerSpec spec;
  spec.sentencepiece = true;
  spec.AddToken("<unk>", kTokenNamed);
  spec.AddToken("a", kTokenInModel | kTokenUnused);
  spec.unk_id = 0;
  spec.merges = {{1, 1, 1}};
  DS_EXPECT_ERROR(ParseTokenizer(SerializeTokenizer(spec)), kDataLoss,
                  "merge 0 gives token 1, which is not its parts");
}

TEST(TokenizerFiles, AreTakenFromAFileOrAFolder) {
  EXPECT_EQ(FindTokenizerFile(ModelPath("")), "");
  DS_EXPECT_ERROR(ReadTokenizerFiles(ModelPath(""), {}), kNotFound,
                  "holds no tokenizer.json");
  DS_EXPECT_ERROR(ReadTokenizerFiles(ModelPath("none"), {}), kNotFound, "none");
  // The name "ranks" is no encoding's.
  DS_EXPECT_ERROR(ReadTokenizerFiles(ModelPath("ranks.tiktoken"), {}),
                  kInvalidArgument, "the pattern \"ranks\" is not known");
  const auto ranks = Load(
      ReadTokenizerFiles(ModelPath("ranks.tiktoken"), {.pattern = "llama3"}));
  EXPECT_EQ(ranks->vocab_size(), 1056);
  const auto pieces = Load(ReadTokenizerFiles(ModelPath("bpe.model"), {}));
  EXPECT_EQ(pieces->vocab_size(), 700);
}

}  // namespace
}  // namespace deepslice
