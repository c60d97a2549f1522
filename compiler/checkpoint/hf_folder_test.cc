#include "compiler/checkpoint/hf_folder.h"

#include <sys/stat.h>

#include <cmath>

#include "compiler/checkpoint/shard_index.h"
#include "compiler/checkpoint/test_files.h"
#include "schema/base/limits.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

constexpr absl::string_view kIndexName = "model.safetensors.index.json";

// A folder of two shards with tensors a and b, as one would download it.
class HfFolder : public testing::Test {
 protected:
  HfFolder() {
    folder_.Write("config.json", R"({"model_type":"llama","rate":Infinity})");
  }
  void WriteShards() {
    folder_.Write("model-00001-of-00002.safetensors",
                  OneTensor("a", "[3]", {1, 2, 3}));
    folder_.Write("model-00002-of-00002.safetensors",
                  OneTensor("b", "[2]", {4, 5}));
    folder_.Write(kIndexName, R"({"metadata":{"total_size":20},"weight_map":{)"
                              R"("a":"model-00001-of-00002.safetensors",)"
                              R"("b":"model-00002-of-00002.safetensors"}})");
  }
  absl::StatusOr<std::unique_ptr<Checkpoint>> Open(bool ignore_index = false) {
    return OpenCheckpoint(folder_.path(), {.ignore_index = ignore_index});
  }
  TempFolder folder_;
};

TEST_F(HfFolder, ReadsOneFileWithItsConfigs) {
  folder_.Write("model.safetensors",
                OneTensor("a", "[2,3]", {1, 2, 3, 4, 5, NAN}));
  folder_.Write("generation_config.json", R"({"eos_token_id":[2,7]})");
  folder_.Write("tokenizer.json", "{}");
  folder_.Write("tokenizer_config.json", R"({"chat_template":"hello"})");
  DS_ASSERT_OK_AND_ASSIGN(const auto c, Open());
  EXPECT_EQ(c->config().Find("model_type")->as_string(), "llama");
  EXPECT_EQ(c->generation_config().Find("eos_token_id")->items().size(), 2u);
  EXPECT_EQ(c->tokenizer_json_path(), folder_.Path("tokenizer.json"));
  EXPECT_EQ(c->chat_templates().text, "hello");
  EXPECT_TRUE(c->gguf_metadata().is_null());
  EXPECT_TRUE(c->notes().empty());
  ASSERT_EQ(c->files().size(), 1u);
  EXPECT_EQ(c->files()[0].path, folder_.Path("model.safetensors"));
  EXPECT_EQ(c->files()[0].size, c->file_bytes(0).size());

  EXPECT_EQ(c->Find("b"), nullptr);
  const TensorInfo* a = c->Find("a");
  ASSERT_NE(a, nullptr);
  float rows[3];
  DS_ASSERT_OK(c->ReadRows(*a, 1, 2, absl::MakeSpan(rows)));
  EXPECT_EQ(rows[0], 4);
  EXPECT_TRUE(std::isnan(rows[2]));
  EXPECT_EQ(c->RawRows(*a, 0, 1), FloatBytes({1, 2, 3}));
  EXPECT_EQ(c->RawRows(*a, 1, 3), "");
}

TEST_F(HfFolder, ReadRowsRefusesWrongRangesAndIntegers) {
  folder_.Write("model.safetensors",
                SafetensorsBytes(
                    R"({"i":{"dtype":"I32","shape":[2],"data_offsets":[0,8]},)"
                    R"("f":{"dtype":"F32","shape":[],"data_offsets":[8,12]}})",
                    std::string(12, '\0')));
  DS_ASSERT_OK_AND_ASSIGN(const auto c, Open());
  float out[2];
  DS_EXPECT_ERROR(c->ReadRows(*c->Find("i"), 0, 2, absl::MakeSpan(out)),
                  kInvalidArgument, "has type i32");
  const TensorInfo& f = *c->Find("f");
  DS_ASSERT_OK(c->ReadRows(f, 0, 1, absl::MakeSpan(out, 1)));
  DS_EXPECT_ERROR(c->ReadRows(f, 0, 2, absl::MakeSpan(out)), kInvalidArgument,
                  "rows 0 to 2 of 1");
  DS_EXPECT_ERROR(c->ReadRows(f, 0, 1, absl::MakeSpan(out)), kInvalidArgument,
                  "into 2 floats");
}

TEST_F(HfFolder, ReadsShardsByTheIndex) {
  WriteShards();
  DS_ASSERT_OK_AND_ASSIGN(const auto c, Open());
  ASSERT_EQ(c->tensors().size(), 2u);
  EXPECT_EQ(c->tensors()[1].name, "b");
  float b[2];
  DS_ASSERT_OK(c->ReadRows(c->tensors()[1], 0, 2, absl::MakeSpan(b)));
  EXPECT_EQ(b[1], 5);
  EXPECT_TRUE(c->notes().empty());
}

TEST_F(HfFolder, NotesWhatIsIgnoredOncePerKind) {
  WriteShards();
  folder_.Write("stray.safetensors", "no header");
  folder_.Write("stray2.safetensors", "");
  folder_.Write("pytorch_model.bin", "");
  folder_.Write("training_args.bin", "");
  DS_ASSERT_OK_AND_ASSIGN(const auto c, Open());
  ASSERT_EQ(c->notes().size(), 2u);
  EXPECT_EQ(c->notes()[0],
            folder_.path() +
                ": \"stray.safetensors\", \"stray2.safetensors\" "
                "are ignored: they are no part of the model");
  EXPECT_EQ(c->notes()[1], folder_.path() +
                               ": \"pytorch_model.bin\" is ignored: the "
                               "safetensors files are read");
}

TEST_F(HfFolder, SingleFileWinsOverAnIndexOfOthers) {
  WriteShards();
  folder_.Write("model.safetensors", OneTensor("c", "[1]", {9}));
  DS_ASSERT_OK_AND_ASSIGN(const auto c, Open());
  EXPECT_NE(c->Find("c"), nullptr);
  EXPECT_EQ(c->tensors().size(), 1u);
  ASSERT_EQ(c->notes().size(), 2u);
  EXPECT_NE(c->notes()[0].find("index.json is ignored"), std::string::npos);
}

TEST_F(HfFolder, IndexThatNamesTheSingleFileDecides) {
  folder_.Write("model.safetensors", OneTensor("a", "[1]", {9}));
  folder_.Write("extra.safetensors", OneTensor("b", "[1]", {8}));
  folder_.Write(kIndexName, R"({"weight_map":{"a":"model.safetensors",)"
                            R"("b":"extra.safetensors"}})");
  DS_ASSERT_OK_AND_ASSIGN(const auto c, Open());
  EXPECT_EQ(c->tensors().size(), 2u);
}

TEST_F(HfFolder, IgnoreIndexReadsWhatIsThere) {
  WriteShards();
  folder_.Write(kIndexName, R"({"weight_map":{"a":"x-1-of-3.safetensors"}})");
  DS_EXPECT_ERROR(Open(), kNotFound, "--ignore-index reads them without it");
  DS_ASSERT_OK_AND_ASSIGN(const auto c, Open(/*ignore_index=*/true));
  EXPECT_EQ(c->tensors().size(), 2u);
  unlink(folder_.Path("model-00001-of-00002.safetensors").c_str());
  DS_ASSERT_OK_AND_ASSIGN(const auto part, Open(/*ignore_index=*/true));
  ASSERT_EQ(part->notes().size(), 1u);
  EXPECT_NE(part->notes()[0].find("model-00001-of-00002.safetensors\" is not"),
            std::string::npos);
  DS_EXPECT_ERROR(Open(), kNotFound, "download the missing files");
}

TEST_F(HfFolder, ShardAndTensorMistakesHaveTheirOwnMessages) {
  WriteShards();
  const auto index = [&](absl::string_view map) {
    folder_.Write(kIndexName, absl::StrCat("{\"weight_map\":{", map, "}}"));
    return Open().status();
  };
  constexpr absl::string_view kA = R"("a":"model-00001-of-00002.safetensors")";
  constexpr absl::string_view kB = R"("b":"model-00002-of-00002.safetensors")";
  DS_EXPECT_ERROR(index(absl::StrCat(kA, R"(,"b":"model-9.safetensors")")),
                  kNotFound, "names 2 shards, 1 of them not");
  DS_EXPECT_ERROR(
      index(absl::StrCat(kA, ",", kB,
                         R"(,"c":"model-00001-of-00002.safetensors")")),
      kDataLoss, "neither it nor another shard holds that tensor");
  DS_EXPECT_ERROR(
      index(absl::StrCat(kB, R"(,"a":"model-00002-of-00002.safetensors")")),
      kInvalidArgument,
      "names other parts of the family but not "
      "\"model-00001-of-00002.safetensors\"");
  folder_.Write("c.safetensors", OneTensor("c", "[1]", {6}));
  DS_EXPECT_ERROR(index(absl::StrCat(kA, ",", kB, R"(,"c":"model-00001)",
                                     R"(-of-00002.safetensors","d":)",
                                     R"("c.safetensors")")),
                  kInvalidArgument, "but it is in \"c.safetensors\"");
  DS_EXPECT_ERROR(index(R"("a":"c.safetensors","c":"c.safetensors")"),
                  kDataLoss, "tensor \"a\"");
  folder_.Write("model-00002-of-00002.safetensors",
                OneTensor("z", "[2]", {4, 5}));
  DS_EXPECT_ERROR(Open(), kDataLoss, "tensor \"a\"");
  DS_EXPECT_ERROR(
      index(absl::StrCat(kA, R"(,"c":"c.safetensors",)",
                         R"("zz":"model-00002-of-00002.safetensors")")),
      kDataLoss, "tensor \"zz\"");
}

TEST_F(HfFolder, TensorLeftOutOfTheIndexIsRefused) {
  folder_.Write("x.safetensors",
                SafetensorsBytes(
                    R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                    R"("b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                    "xy"));
  folder_.Write(kIndexName, R"({"weight_map":{"a":"x.safetensors"}})");
  DS_EXPECT_ERROR(Open(), kInvalidArgument,
                  "x.safetensors: tensor \"b\": is not listed in");
  DS_ASSERT_OK(Open(/*ignore_index=*/true));
}

TEST_F(HfFolder, EqualDoublesAreNotedAndUnequalOnesRefused) {
  folder_.Write("x.safetensors", OneTensor("a", "[2]", {1, 2}));
  folder_.Write("y.safetensors", OneTensor("a", "[2]", {1, 2}));
  DS_ASSERT_OK_AND_ASSIGN(const auto c, Open(/*ignore_index=*/true));
  EXPECT_EQ(c->tensors().size(), 1u);
  ASSERT_EQ(c->notes().size(), 1u);
  EXPECT_NE(
      c->notes()[0].find("1 tensor in two shards with equal values: \"a\""),
      std::string::npos);
  folder_.Write("y.safetensors", OneTensor("a", "[1,2]", {1, 2}));
  DS_EXPECT_ERROR(Open(true), kInvalidArgument, "with different values");
  folder_.Write("y.safetensors", OneTensor("a", "[2]", {1, 3}));
  DS_EXPECT_ERROR(Open(true), kInvalidArgument,
                  "is in \"x.safetensors\" and in \"y.safetensors\"");
}

TEST_F(HfFolder, NoWeightsNamesWhatIsThereInstead) {
  DS_EXPECT_ERROR(Open(), kNotFound, "no weights");
  folder_.Write("m.gguf", "");
  DS_EXPECT_ERROR(Open(), kNotFound, "give that file's own path");
  folder_.Write("pytorch_model.bin", "");
  DS_EXPECT_ERROR(Open(), kInvalidArgument, "pytorch_model.bin: start of file");
  unlink(folder_.Path("pytorch_model.bin").c_str());
  folder_.Write("other.safetensors", "");
  DS_EXPECT_ERROR(Open(), kNotFound, "name the file that is the model");
}

TEST_F(HfFolder, ConfigMustBeAnObjectBesideTheWeights) {
  const std::string file =
      folder_.Write("m.safetensors", OneTensor("a", "[1]", {1}));
  DS_ASSERT_OK(OpenCheckpoint(file));
  folder_.Write("config.json", "[]");
  DS_EXPECT_ERROR(OpenCheckpoint(file), kInvalidArgument,
                  "config.json: holds an array; must be an object");
  folder_.Write("config.json", "version https://git-lfs.github.com/spec/v1");
  DS_EXPECT_ERROR(OpenCheckpoint(file), kDataLoss, "git lfs pull");
  unlink(folder_.Path("config.json").c_str());
  DS_EXPECT_ERROR(OpenCheckpoint(file), kNotFound, "config.json: no such file");
}

TEST_F(HfFolder, OnePartOfAFamilyIsNoModel) {
  WriteShards();
  DS_EXPECT_ERROR(
      OpenCheckpoint(folder_.Path("model-00002-of-00002.safetensors")),
      kInvalidArgument, "is part 2 of 2 of a model; give its folder");
}

TEST_F(HfFolder, ChatTemplateComesFromFileThenStringThenDefaultOfAList) {
  folder_.Write("model.safetensors", OneTensor("a", "[1]", {1}));
  folder_.Write("tokenizer_config.json",
                R"({"chat_template":[{"name":"tool_use","template":"T"},)"
                R"({"name":"default","template":"D"}]})");
  const auto named = (*Open())->chat_templates();
  EXPECT_EQ(named.text, "D");
  ASSERT_EQ(named.named.size(), 1u);
  EXPECT_EQ(named.named[0],
            std::make_pair(std::string("tool_use"), std::string("T")));
  folder_.Write("tokenizer_config.json",
                R"({"chat_template":[{"name":"rag","template":"R"}]})");
  DS_ASSERT_OK_AND_ASSIGN(const auto none, Open());
  EXPECT_EQ(none->chat_templates().text, "");
  ASSERT_EQ(none->notes().size(), 1u);
  folder_.Write("chat_template.jinja", "J");
  EXPECT_EQ((*Open())->chat_templates().text, "J");
  ASSERT_EQ(mkdir(folder_.Path("additional_chat_templates").c_str(), 0755), 0);
  folder_.Write("additional_chat_templates/rag.jinja", "R2");
  folder_.Write("additional_chat_templates/a.jinja", "A");
  folder_.Write("additional_chat_templates/README.md", "no template");
  const auto files = (*Open())->chat_templates();
  EXPECT_EQ(files.text, "J");
  ASSERT_EQ(files.named.size(), 2u);
  EXPECT_EQ(files.named[0].first + files.named[0].second, "aA");
  EXPECT_EQ(files.named[1].first + files.named[1].second, "ragR2");
  folder_.Write("chat_template.jinja",
                std::string(limits::kTemplateBytes, 'j'));
  DS_ASSERT_OK(Open());
  folder_.Write("chat_template.jinja",
                std::string(limits::kTemplateBytes + 1, 'j'));
  DS_EXPECT_ERROR(Open(), kResourceExhausted, "1048577 bytes");
  unlink(folder_.Path("chat_template.jinja").c_str());
  folder_.Write("tokenizer_config.json", R"({"chat_template":7})");
  DS_EXPECT_ERROR(Open(), kInvalidArgument, "chat_template: found an integer");
}

TEST_F(HfFolder, LfsPointersInPlaceOfFilesAreNamed) {
  constexpr absl::string_view kPointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n";
  folder_.Write("model.safetensors", OneTensor("a", "[1]", {1}));
  folder_.Write("tokenizer.json", kPointer);
  DS_EXPECT_ERROR(Open(), kDataLoss, "tokenizer.json: start of file");
  unlink(folder_.Path("tokenizer.json").c_str());
  folder_.Write("model.safetensors", kPointer);
  DS_EXPECT_ERROR(Open(), kDataLoss, "model.safetensors: start of file");
}

TEST(OpenCheckpoint, NamesPathsThatAreNoCheckpoint) {
  TempFolder folder;
  DS_EXPECT_ERROR(OpenCheckpoint(folder.Path("none")), kNotFound,
                  "no such file or folder");
  DS_EXPECT_ERROR(OpenCheckpoint(folder.Write("x.onnx", "..")), kUnimplemented,
                  "a kind of file that is not read");
}

TEST(ShardIndex, ReadsNumbersOfShardNames) {
  const auto n = ParseShardNumber("model-00002-of-00005.safetensors");
  ASSERT_TRUE(n.has_value());
  EXPECT_EQ(n->part, 2);
  EXPECT_EQ(n->parts, 5);
  EXPECT_EQ(ParseShardNumber("pytorch_model-00001-of-00002.bin")->family,
            "pytorch_model-*-of-00002");
  for (const char* bad :
       {"model.safetensors", "model-1-of-2.onnx", "model-x-of-2.safetensors",
        "1-of-2.safetensors", "model-+1-of-2.safetensors",
        "model-1-of-99999999999999999999.safetensors"}) {
    EXPECT_FALSE(ParseShardNumber(bad).has_value()) << bad;
  }
}

TEST(ShardIndex, FindsTheFirstMissingPart) {
  EXPECT_EQ(FindMissingPart({"m-00001-of-00003.safetensors",
                             "m-00003-of-00003.safetensors", "x.safetensors"}),
            "m-00002-of-00003.safetensors");
  EXPECT_EQ(FindMissingPart({"m-0-of-2.safetensors", "m-1-of-2.safetensors"}),
            "")
      << "some writers count from 0";
  EXPECT_EQ(FindMissingPart({"m-1-of-9223372036854775807.safetensors"}),
            "m-2-of-9223372036854775807.safetensors");
  // A model may be there in both formats.
  EXPECT_EQ(FindMissingPart({"m-1-of-2.safetensors", "m-2-of-2.safetensors",
                             "m-1-of-2.bin"}),
            "m-2-of-2.bin");
}

TEST(ShardIndex, RefusesBrokenText) {
  const auto read = [](absl::string_view text) {
    return ReadShardIndex(text, "i.json").status();
  };
  DS_EXPECT_ERROR(read("{\"weight_map\":{\"a\":\"x.safete"), kInvalidArgument,
                  "a string without an end");
  DS_EXPECT_ERROR(read("{}"), kInvalidArgument, "has no \"weight_map\"");
  DS_EXPECT_ERROR(read("{\"weight_map\":{}}"), kInvalidArgument, "is empty");
  DS_EXPECT_ERROR(read("{\"weight_map\":[]}"), kInvalidArgument,
                  "found an array; must be an object");
  DS_EXPECT_ERROR(read("{\"weight_map\":{\"a\":1}}"), kInvalidArgument,
                  "tensor \"a\": found 1; must be a file name");
  DS_EXPECT_ERROR(read("{\"weight_map\":{\"a\":\"../x.safetensors\"}}"),
                  kInvalidArgument, "is no path inside the folder");
  DS_EXPECT_ERROR(read("{\"weight_map\":{\"a\":\"x.bin\"}}"), kInvalidArgument,
                  "is no .safetensors file");
  DS_EXPECT_ERROR(ReadShardIndex("{\"weight_map\":{\"a\":\"x.safetensors\"}}",
                                 "i.json", WeightFiles::kTorch),
                  kInvalidArgument, "is no .bin, .pt or .pth file");
  DS_EXPECT_ERROR(read("{\"weight_map\":{\"a\":\"x.safetensors\","
                       "\"a\":\"y.safetensors\"}}"),
                  kInvalidArgument, "duplicate tensor name \"a\"");
  DS_EXPECT_ERROR(read("{\"\xff\":1}"), kInvalidArgument, "is not UTF-8");
}

}  // namespace
}  // namespace deepslice
