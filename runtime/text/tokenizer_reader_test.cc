// tokenizer.json and GGUF metadata: what is read, and what is refused how.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "runtime/text/testing_tokenizers.h"
#include "runtime/text/tokenizer.h"
#include "runtime/text/tokenizer_tables.h"
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

// Pieces that a pre-tokenizer makes of a text, joined by "|": the model has
// every piece of up to four characters as a token.
std::string Cut(absl::string_view pre_tokenizer, const std::string& text) {
  json::Value vocab = json::Value::Object();
  json::Value merges = json::Value::Array();
  const std::string alphabet = "ab ,1";
  int64_t next = 0;
  for (char c : alphabet) vocab.Set(std::string(1, c), next++);
  std::vector<std::string> level;
  for (char c : alphabet) level.push_back(std::string(1, c));
  for (int n = 2; n <= 4; ++n) {
    std::vector<std::string> longer;
    for (const std::string& w : level) {
      for (char c : alphabet) {
        longer.push_back(w + c);
        vocab.Set(w + c, next++);
        json::Value pair = json::Value::Array();
        pair.Add(w);
        pair.Add(std::string(1, c));
        merges.Add(std::move(pair));
      }
    }
    level = std::move(longer);
  }
  json::Value model = json::Value::Object();
  model.Set("type", "BPE");
  model.Set("ignore_merges", true);
  model.Set("vocab", std::move(vocab));
  model.Set("merges", std::move(merges));
  json::Value file = json::Value::Object();
  file.Set("model", std::move(model));
  file.Set("pre_tokenizer", Json(pre_tokenizer));
  const auto t = LoadFile(file);
  EXPECT_TRUE(t.ok()) << t.status();
  if (!t.ok()) return "";
  std::string out;
  const auto ids = (*t)->Encode(text);
  EXPECT_TRUE(ids.ok()) << ids.status();
  for (int32_t id : *ids) {
    absl::StrAppend(&out, out.empty() ? "" : "|", (*t)->IdToToken(id));
  }
  return out;
}

std::string Split(absl::string_view pattern, absl::string_view behavior,
                  bool invert = false) {
  return absl::StrCat(R"({"type": "Split", "pattern": )", pattern,
                      R"(, "behavior": ")", behavior, R"(", "invert": )",
                      invert ? "true" : "false", "}");
}

TEST(ReadTokenizerJson, SplitHasFiveBehaviors) {
  for (const std::string& pattern :
       std::vector<std::string>{R"({"String": ","})", R"({"Regex": ","})"}) {
    const std::string text = "a,,b,";
    EXPECT_EQ(Cut(Split(pattern, "Removed"), text), "a|b");
    EXPECT_EQ(Cut(Split(pattern, "Isolated"), text), "a|,|,|b|,");
    EXPECT_EQ(Cut(Split(pattern, "MergedWithPrevious"), text), "a,|,|b,");
    EXPECT_EQ(Cut(Split(pattern, "MergedWithNext"), text), "a|,|,b|,");
    EXPECT_EQ(Cut(Split(pattern, "Contiguous"), text), "a|,,|b|,");
    EXPECT_EQ(Cut(Split(pattern, "Removed", true), text), ",|,|,");
    EXPECT_EQ(Cut(Split(pattern, "MergedWithPrevious", true), text),
              "a|,|,b|,");
  }
  // Empty matches cut between characters.
  EXPECT_EQ(Cut(Split(R"({"Regex": ",*"})", "Isolated"), "ab,a"), "a|b|,|a");
  EXPECT_EQ(Cut(Split(R"_({"Regex": "(?=,)"})_", "Isolated"), "ab,a"), "ab|,a");
}

TEST(ReadTokenizerJson, DigitsSplitAloneOrInRuns) {
  EXPECT_EQ(Cut(R"({"type": "Digits", "individual_digits": true})", "a11b"),
            "a|1|1|b");
  EXPECT_EQ(Cut(R"({"type": "Digits", "individual_digits": false})", "a11b"),
            "a|11|b");
}

TEST(ReadTokenizerJson, SequencesRunInOrder) {
  EXPECT_EQ(Cut(absl::StrCat(R"({"type": "Sequence", "pretokenizers": [)",
                             Split(R"({"String": " "})", "MergedWithNext"), ",",
                             Split(R"({"String": ","})", "Isolated"), "]}"),
                "a b,b a"),
            "a| b|,|b| a");
}

TEST(ReadTokenizerJson, AByteLevelStepThatIsNotLastRewritesTheText) {
  json::Value file = ByteLevelFile({{"Ġ", "a"}, {"Ġa", "b"}});
  file.Set("pre_tokenizer", Json(R"({"type": "Sequence", "pretokenizers": [
      {"type": "ByteLevel", "use_regex": false, "add_prefix_space": true},
      {"type": "Split", "pattern": {"Regex": "Ġ"},
       "behavior": "MergedWithNext"}]})"));
  DS_ASSERT_OK_AND_ASSIGN(const Loaded t, LoadFile(file));
  const int32_t word = t->TokenToId("Ġab");
  EXPECT_EQ(*t->Encode("ab ab"), Ids({word, word}));
  EXPECT_EQ(*t->Decode({word, word}, true), " ab ab");
}

TEST(ReadTokenizerJson, PrefixSpaceIsAddedWhereThereIsNone) {
  json::Value file = ByteLevelFile({{"Ġ", "a"}});
  file.Set("pre_tokenizer", Json(R"({"type": "ByteLevel"})"));
  DS_ASSERT_OK_AND_ASSIGN(const Loaded t, LoadFile(file));
  EXPECT_EQ(*t->Encode("a"), *t->Encode(" a"));
  EXPECT_EQ(*t->Encode("<u>a"), Ids({t->TokenToId("<u>"), t->TokenToId("Ġa")}));
  EXPECT_EQ(*t->Encode(""), Ids());
}

TEST(ReadTokenizerJson, NormalizersAreTheFourForms) {
  for (const auto& [form, text] :
       std::vector<std::pair<std::string, std::string>>{
           {"NFC", "\xC3\xA9\xEF\xAC\x81"},  // é, fi ligature
           {"NFD", "e\xCC\x81\xEF\xAC\x81"},
           {"NFKC",
            "\xC3\xA9"
            "fi"},
           {"NFKD",
            "e\xCC\x81"
            "fi"}}) {
    json::Value file = ByteLevelFile({});
    file.Set(
        "normalizer",
        Json(absl::StrCat(R"({"type": "Sequence", "normalizers": [{"type": ")",
                          form, "\"}]}")));
    DS_ASSERT_OK_AND_ASSIGN(const Loaded t, LoadFile(file));
    EXPECT_EQ(*t->Decode(*t->Encode("e\xCC\x81\xEF\xAC\x81"), true), text);
  }
  // Marks are put in order, however many there are.
  json::Value file = ByteLevelFile({});
  file.Set("normalizer", Json(R"({"type": "NFC"})"));
  DS_ASSERT_OK_AND_ASSIGN(const Loaded t, LoadFile(file));
  EXPECT_EQ(*t->Decode(*t->Encode("s\xCC\x87\xCC\xA3"), true), "\xE1\xB9\xA9");
  std::string marks = "x";
  for (int i = 0; i < 100000; ++i) marks += "\xCC\x87\xCC\xA3";
  EXPECT_EQ(t->Encode(marks)->size(), 1u + 400000);
}

TEST(ReadTokenizerJson, MergesMayBeTextOrPairs) {
  json::Value file = ByteLevelFile({{"a", "b"}, {"ab", "c"}});
  const std::string pairs = LoadFile(file)->tables.bytes;
  file.Find("model")->Set("merges", Json(R"(["a b", "ab c"])"));
  EXPECT_EQ(LoadFile(file)->tables.bytes, pairs);
}

TEST(ReadTokenizerJson, IgnoreMergesTakesWordsOfTheVocabularyWhole) {
  json::Value file = ByteLevelFile({{"a", "b"}});
  file.Find("model")->Find("vocab")->Set("xyz", 300);
  EXPECT_EQ(LoadFile(file)->tokenizer->Encode("xyz")->size(), 3u);
  file.Find("model")->Set("ignore_merges", true);
  DS_ASSERT_OK_AND_ASSIGN(const Loaded t, LoadFile(file));
  EXPECT_EQ(*t->Encode("xyz"), Ids({300}));
  // Ids 259 to 299 have no token: they decode to nothing.
  EXPECT_EQ(*t->Decode({299, 300}, false), "xyz");
  ASSERT_EQ(t.tables.notes.size(), 1u);
  EXPECT_NE(t.tables.notes[0].find("41 ids of the vocabulary have no token"),
            std::string::npos)
      << t.tables.notes[0];
}

TEST(ReadTokenizerJson, UnknownCharactersBecomeTheUnknownToken) {
  json::Value file = Json(R"({"model": {"type": "BPE", "unk_token": "?",
      "fuse_unk": true, "vocab": {"a": 0, "?": 1}, "merges": []}})");
  EXPECT_EQ(*LoadFile(file)->tokenizer->Encode("axxaé"), Ids({0, 1, 0, 1}));
  file.Find("model")->Set("fuse_unk", false);
  EXPECT_EQ(*LoadFile(file)->tokenizer->Encode("axxa"), Ids({0, 1, 1, 0}));
  file.Find("model")->Set("unk_token", nullptr);
  DS_ASSERT_OK_AND_ASSIGN(const Loaded t, LoadFile(file));
  EXPECT_EQ(*t->Encode("axxa"), Ids({0, 0}));
  // Without a decoder tokens are joined by spaces, streamed or not.
  EXPECT_EQ(*t->Decode({0, 1, 0}, true), "a ? a");
  StreamDecoder stream(*t.tokenizer, true);
  EXPECT_EQ(*stream.Add(0), "a");
  EXPECT_EQ(*stream.Add(1), " ?");
}

TEST(ReadTokenizerJson, PostProcessorsPutIdsAround) {
  json::Value file = ByteLevelFile({});
  file.Set("post_processor", Json(R"({"type": "Sequence", "processors": [
      {"type": "ByteLevel"},
      {"type": "TemplateProcessing",
       "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                  {"Sequence": {"id": "A", "type_id": 0}},
                  {"SpecialToken": {"id": "<u>", "type_id": 0}}],
       "pair": [], "special_tokens": {
         "<s>": {"id": "<s>", "ids": [256], "tokens": ["<s>"]},
         "<u>": {"id": "<u>", "ids": [257, 0], "tokens": ["<u>", "x"]}}},
      {"type": "BertProcessing", "sep": ["!", 0], "cls": ["x", 1]}]})"));
  DS_ASSERT_OK_AND_ASSIGN(const Loaded t, LoadFile(file));
  EXPECT_EQ(*t->Encode(""), Ids({1, 256, 257, 0, 0}));
  EncodeOptions bare;
  bare.add_special = false;
  EXPECT_EQ(*t->Encode("", bare), Ids());
}

TEST(ReadTokenizerJson, TheConfigChoosesBosAndEos) {
  json::Value file = ByteLevelFile({});
  const auto ids = [&](absl::string_view config) {
    return *LoadFile(file, Json(config))->tokenizer->Encode("");
  };
  EXPECT_EQ(ids(R"({"bos_token": "<s>"})"), Ids());
  EXPECT_EQ(ids(R"({"bos_token": "<s>", "add_bos_token": true,
                    "eos_token": "<u>", "add_eos_token": true})"),
            Ids({256, 257}));
  file.Set("post_processor",
           Json(R"({"type": "BertProcessing", "sep": ["<u>", 257],
                    "cls": ["<s>", 256]})"));
  // Never a second one, and none where the config says so.
  EXPECT_EQ(ids(R"({"bos_token": "<s>", "add_bos_token": true})"),
            Ids({256, 257}));
  EXPECT_EQ(ids(R"({"bos_token": "<s>", "add_bos_token": false,
                    "eos_token": "<u>", "add_eos_token": false})"),
            Ids());
  DS_EXPECT_ERROR(LoadFile(file, Json(R"({"bos_token": 5})")), kInvalidArgument,
                  "tokenizer_config.json: bos_token: is an integer");
}

TEST(ReadTokenizerJson, RefusesUnknownComponentsByNameAndPath) {
  const auto refused = [](absl::string_view key, absl::string_view value,
                          absl::string_view part) {
    json::Value file = ByteLevelFile({});
    file.Set(key, Json(value));
    const auto t = LoadFile(file);
    DS_EXPECT_ERROR(t, kUnimplemented, part);
  };
  refused("normalizer", R"({"type": "Magic"})",
          "normalizer: type \"Magic\" is not supported; supported are Bert");
  refused("pre_tokenizer",
          R"({"type": "Sequence", "pretokenizers": [{"type": "Digits"},
              {"type": "Magic"}]})",
          "pre_tokenizer.pretokenizers[1]: type \"Magic\"");
  refused("pre_tokenizer", R"({"type": "ByteLevel", "magic": 1})",
          "pre_tokenizer.magic: this option is not known");
  refused("pre_tokenizer", Split(R"({"Regex": "\\bx"})", "Isolated"),
          "pre_tokenizer.pattern.Regex: pattern");
  refused("post_processor", R"({"type": "Magic"})", "post_processor: type");
  refused(
      "post_processor",
      R"({"type": "TemplateProcessing", "single": [], "special_tokens": {}})",
      "post_processor.single: the template has no sequence A");
  refused("decoder", R"({"type": "Magic"})", "decoder: type \"Magic\"");
  refused("model", R"({"type": "Magic", "vocab": []})",
          "model.type: model \"Magic\"");
  refused("model", R"({"type": "Unigram", "magic": 1})", "model.magic: this");
  refused("model", R"({"type": "WordLevel", "magic": 1})", "model.magic: this");
  refused("model", R"({"type": "BPE", "dropout": 0.1})", "model.dropout");
  refused("surprise", "1", "surprise: this option");
}

TEST(ReadTokenizerJson, RefusesDamageWithThePath) {
  const auto refused = [](absl::string_view model_member,
                          absl::string_view value, absl::string_view part) {
    json::Value file = ByteLevelFile({{"a", "b"}});
    file.Find("model")->Set(model_member, Json(value));
    DS_EXPECT_ERROR(LoadFile(file), kInvalidArgument, part);
  };
  refused("vocab", R"({"a": 0, "b": 0})", "have the same id 0");
  refused("vocab", R"({"a": -1})", "token \"a\" has id -1; ids are 0 to");
  refused("vocab", R"({"a": 16777216})", "has id 16777216");
  refused("vocab", R"({"a": 1.5})", "model.vocab.a: is no integer");
  refused("vocab", R"([])", "model.vocab: is an array; must be an object");
  refused("merges", R"([["a", "zz"]])",
          "merge 0 (\"a\", \"zz\"): \"zz\" is no");
  refused("merges", R"([["b", "b"]])", "\"bb\" is no token");
  refused("merges", R"(["a"])", "model.merges[0]: must be two tokens");
  refused("merges", R"(["a b c"])", "model.merges[0]: must be two tokens");
  refused("merges", R"([["a", "b", "c"]])", "must be two tokens");
  refused("merges", R"([["a", 1]])", "must be two tokens");
  refused("unk_token", R"("zz")", "model.unk_token: \"zz\" is no token");
  refused("fuse_unk", R"(1)", "model.fuse_unk: is an integer");
  DS_EXPECT_ERROR(ReadTokenizerJson("{", {}), kInvalidArgument,
                  "tokenizer.json: line 1");
  DS_EXPECT_ERROR(ReadTokenizerJson("[]", {}), kInvalidArgument,
                  "must be an object");
  DS_EXPECT_ERROR(ReadTokenizerJson("{}", {}), kInvalidArgument,
                  "model: is missing");
  DS_EXPECT_ERROR(ReadTokenizerJson(R"({"model": {"\ud800": 1}})", {}),
                  kInvalidArgument, "tokenizer.json: line 1");
}

TEST(ReadTokenizerJson, ChecksAddedTokens) {
  const auto with = [](const json::Value& token) {
    json::Value file = ByteLevelFile({});
    file.Find("added_tokens")->Add(token);
    return LoadFile(file);
  };
  DS_EXPECT_ERROR(with(AddedTokenJson("<x>", 256, true)), kInvalidArgument,
                  "added_tokens[2]: tokens \"<s>\" and \"<x>\" have the same");
  DS_EXPECT_ERROR(with(AddedTokenJson("<s>", 400, true)), kInvalidArgument,
                  "token \"<s>\" has two ids, 256 and 400");
  DS_EXPECT_ERROR(with(AddedTokenJson("<s>", 256, true)), kInvalidArgument,
                  "is listed twice");
  DS_EXPECT_ERROR(with(AddedTokenJson(std::string(5000, 'x'), 400, true)),
                  kInvalidArgument, "has 5000 bytes");
  DS_ASSERT_OK_AND_ASSIGN(const Loaded t, with(AddedTokenJson("", 400, true)));
  EXPECT_NE(t.tables.notes[0].find("added_tokens[2]: an empty"),
            std::string::npos);
}

json::Value GgufMetadata(absl::string_view pre) {
  json::Value m = json::Value::Object();
  m.Set("tokenizer.ggml.model", "gpt2");
  m.Set("tokenizer.ggml.pre", pre);
  json::Value tokens = json::Value::Array(), types = json::Value::Array();
  const auto add = [&](absl::string_view text, int type) {
    tokens.Add(text);
    types.Add(type);
  };
  add("<bos>", 3);
  const json::Value file = ByteLevelFile({{"a", "b"}});
  for (const auto& [text, id] : file.Find("model")->Find("vocab")->members()) {
    add(text, 1);
  }
  add("<user>", 4);
  add("[PAD]", 5);
  m.Set("tokenizer.ggml.tokens", std::move(tokens));
  m.Set("tokenizer.ggml.token_type", std::move(types));
  m.Set("tokenizer.ggml.merges", Json(R"(["a b"])"));
  m.Set("tokenizer.ggml.bos_token_id", 0);
  return m;
}

absl::StatusOr<Loaded> LoadGguf(const json::Value& metadata) {
  DS_ASSIGN_OR_RETURN(TokenizerTables tables, ReadTokenizerGguf(metadata));
  return Load(std::move(tables));
}

TEST(ReadTokenizerGguf, ReadsTokensByTheirTypes) {
  DS_ASSERT_OK_AND_ASSIGN(const Loaded t, LoadGguf(GgufMetadata("smollm")));
  EXPECT_EQ(t->vocab_size(), 260);
  EXPECT_EQ(t->bos_id(), 0);
  EXPECT_EQ(t->eos_id(), -1);
  const int32_t ab = t->TokenToId("ab");
  EXPECT_EQ(*t->Encode("<bos>ab<user>"), Ids({0, ab, t->TokenToId("<user>")}));
  EXPECT_TRUE(t->IsSpecial(0));
  EXPECT_FALSE(t->IsSpecial(t->TokenToId("<user>")));
  EXPECT_EQ(t->Encode("[PAD]")->size(), 5u);  // unused: not matched
  EXPECT_EQ(*t->Decode({0, ab, 259}, true), "ab");
}

TEST(ReadTokenizerGguf, NamesStandForPipelines) {
  const auto size = [](absl::string_view pre, absl::string_view text) {
    json::Value m = GgufMetadata(pre);
    m.Set("tokenizer.ggml.add_bos_token", false);
    m.Find("tokenizer.ggml.tokens")->Add("11");
    m.Find("tokenizer.ggml.token_type")->Add(1);
    m.Find("tokenizer.ggml.merges")->Add("1 1");
    const auto t = LoadGguf(m);
    EXPECT_TRUE(t.ok()) << t.status();
    return t.ok() ? (*t)->Encode(text)->size() : 0;
  };
  EXPECT_EQ(size("gpt-2", "1111"), 2u);
  EXPECT_EQ(size("smollm", "1111"), 4u);     // digits alone
  EXPECT_EQ(size("llama-bpe", "1111"), 3u);  // 111|1
  EXPECT_EQ(size("qwen2", "1111"), 4u);
  EXPECT_EQ(size("qwen2", "e\xCC\x81"), 2u);  // NFC
  EXPECT_EQ(size("llama-bpe", "e\xCC\x81"), 3u);
}

TEST(ReadTokenizerGguf, AddsBosAsTheFileOrTheNameSays) {
  EXPECT_EQ(*LoadGguf(GgufMetadata("gpt-2"))->tokenizer->Encode(""), Ids());
  EXPECT_EQ(*LoadGguf(GgufMetadata("llama-bpe"))->tokenizer->Encode(""),
            Ids({0}));
  json::Value m = GgufMetadata("gpt-2");
  m.Set("tokenizer.ggml.add_bos_token", true);
  EXPECT_EQ(*LoadGguf(m)->tokenizer->Encode(""), Ids({0}));
  m.Set("tokenizer.ggml.add_eos_token", true);
  DS_EXPECT_ERROR(LoadGguf(m), kInvalidArgument,
                  "tokenizer.ggml.add_eos_token: is set, but");
}

TEST(ReadTokenizerGguf, RefusesWhatItCantRead) {
  DS_EXPECT_ERROR(LoadGguf(GgufMetadata("default")), kUnimplemented,
                  "pre-tokenizer \"default\" is not known; known are gpt-2");
  const auto with = [](absl::string_view key, json::Value v) {
    json::Value m = GgufMetadata("gpt-2");
    m.Set(absl::StrCat("tokenizer.ggml.", key), std::move(v));
    return LoadGguf(m);
  };
  DS_EXPECT_ERROR(with("model", "plamo2"), kUnimplemented,
                  "vocabulary kind \"plamo2\" is not supported; supported are");
  DS_EXPECT_ERROR(with("pre", nullptr), kUnimplemented, "is not known");
  DS_EXPECT_ERROR(with("token_type", Json("[1]")), kInvalidArgument,
                  "token_type: has 1 entries; tokens has 260");
  DS_EXPECT_ERROR(with("merges", Json(R"(["ab"])")), kInvalidArgument,
                  "merges: entry 0 (\"ab\") must be two tokens");
  DS_EXPECT_ERROR(with("merges", Json(R"(["a zz"])")), kInvalidArgument,
                  "\"zz\" is no token");
  DS_EXPECT_ERROR(with("bos_token_id", 260), kInvalidArgument,
                  "bos_token_id: is 260");
  DS_EXPECT_ERROR(with("eos_token_id", "x"), kInvalidArgument, "eos_token_id");
  DS_EXPECT_ERROR(with("tokens", Json("[]")), kInvalidArgument, "is empty");
  json::Value odd = GgufMetadata("gpt-2");
  odd.Find("tokenizer.ggml.token_type")->items()[5] = 6;
  DS_EXPECT_ERROR(LoadGguf(odd), kInvalidArgument, "token 5 has type 6");
  odd = GgufMetadata("gpt-2");
  odd.Find("tokenizer.ggml.tokens")->items()[5] = "\xFF";
  DS_EXPECT_ERROR(LoadGguf(odd), kInvalidArgument, "is not UTF-8");
}

}  // namespace
}  // namespace deepslice
