#include "compiler/checkpoint/torch_weights.h"

#include "absl/strings/match.h"
#include "compiler/checkpoint/torch_test_files.h"
#include "gtest/gtest.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

// Two floats at `offset` of a storage of six: 0, 1, 2, 3, 4, 5.
std::string Two(int32_t offset) {
  return PickleTensor("0", 6, offset, {2}, {1});
}
std::string File(const std::string& pickle) {
  return TorchZip(pickle, {FloatBytes({0, 1, 2, 3, 4, 5})});
}
std::string Dict(
    const std::vector<std::pair<std::string, std::string>>& pairs) {
  const std::string whole = PickleDict(pairs);
  return whole.substr(2, whole.size() - 3);  // without PROTO and STOP
}

TEST(TorchWeights, UnwrapsTheStateDictAndSaysSo) {
  const std::string model = Dict({{"a", Two(0)}, {"b", Two(2)}});
  for (const char* key :
       {"state_dict", "model_state_dict", "model", "module"}) {
    const std::string file = File(
        PickleDict({{"epoch", "K\x03"}, {key, model}, {"optimizer", "}"}}));
    DS_ASSERT_OK_AND_ASSIGN(const TorchWeights w, ReadTorchWeights(file, "m"));
    ASSERT_EQ(w.tensors.size(), 2u);
    EXPECT_EQ(w.tensors[0].name, "a");
    ASSERT_EQ(w.notes.size(), 1u);
    EXPECT_EQ(w.notes[0], absl::StrCat("m: the weights are those under \"", key,
                                       "\"; ignored beside them: \"epoch\", "
                                       "\"optimizer\""));
  }
  // A dict with tensors is taken as it is.
  const std::string flat = File(PickleDict({{"model", model}, {"c", Two(4)}}));
  DS_ASSERT_OK_AND_ASSIGN(const TorchWeights w, ReadTorchWeights(flat, "m"));
  EXPECT_EQ(w.tensors.size(), 3u);
  EXPECT_EQ(w.tensors[0].name, "model.a");
}

TEST(TorchWeights, TakesThePrefixesOfWrappersOff) {
  const std::string file = File(PickleDict(
      {{"module._orig_mod.a", Two(0)}, {"module._orig_mod.b", Two(2)}}));
  DS_ASSERT_OK_AND_ASSIGN(const TorchWeights w, ReadTorchWeights(file, "m"));
  EXPECT_EQ(w.tensors[0].name, "a");
  EXPECT_EQ(w.tensors[0].stored_name, "module._orig_mod.a");
  EXPECT_EQ(w.notes.size(), 2u);
  const std::string some =
      File(PickleDict({{"module.a", Two(0)}, {"b", Two(2)}}));
  DS_ASSERT_OK_AND_ASSIGN(const TorchWeights kept, ReadTorchWeights(some, "m"));
  EXPECT_EQ(kept.tensors[0].name, "module.a");
}

TEST(TorchWeights, SaysWhatIsNoTensor) {
  const std::string file = File(
      PickleDict({{"a", Two(0)},
                  {"args", PickleGlobal("argparse", "Namespace") + ")\x81"},
                  {"step", "K\x07"}}));
  DS_ASSERT_OK_AND_ASSIGN(const TorchWeights w, ReadTorchWeights(file, "m"));
  ASSERT_EQ(w.notes.size(), 1u);
  EXPECT_EQ(w.notes[0],
            "m: 1 value is no tensor and is ignored: \"args\" (an object of "
            "\"argparse.Namespace\")");
  DS_EXPECT_ERROR(ReadTorchWeights(File("\x80\x02K\x07."), "m"),
                  kInvalidArgument, "holds 7; must be a dict of tensors");
  DS_EXPECT_ERROR(ReadTorchWeights(File(PickleDict({{"a", "N"}})), "m"),
                  kInvalidArgument, "without tensors");
}

// A model of PyTorch's files in a folder.
class TorchFolder : public testing::Test {
 protected:
  TorchFolder() { folder_.Write("config.json", R"({"model_type":"llama"})"); }
  absl::StatusOr<std::unique_ptr<Checkpoint>> Open(bool ignore_index = false) {
    return OpenCheckpoint(folder_.path(), {.ignore_index = ignore_index});
  }
  // Shards with a and t, a transposed view, and b.
  void WriteShards() {
    folder_.Write(
        "pytorch_model-00001-of-00002.bin",
        File(PickleDict(
            {{"a", Two(1)}, {"t", PickleTensor("0", 6, 0, {3, 2}, {1, 3})}})));
    folder_.Write("pytorch_model-00002-of-00002.bin",
                  File(PickleDict({{"b", Two(4)}})));
    folder_.Write("pytorch_model.bin.index.json",
                  R"({"metadata":{"total_size":40},"weight_map":{)"
                  R"("a":"pytorch_model-00001-of-00002.bin",)"
                  R"("t":"pytorch_model-00001-of-00002.bin",)"
                  R"("b":"pytorch_model-00002-of-00002.bin"}})");
  }
  std::vector<float> Rows(const Checkpoint& c, absl::string_view name,
                          int64_t begin, int64_t end) {
    const TensorInfo* t = c.Find(name);
    EXPECT_NE(t, nullptr);
    std::vector<float> out((end - begin) * t->row_elements());
    EXPECT_TRUE(c.ReadRows(*t, begin, end, absl::MakeSpan(out)).ok());
    return out;
  }
  TempFolder folder_;
};

TEST_F(TorchFolder, ReadsShardsAndViews) {
  WriteShards();
  for (const bool ignore_index : {false, true}) {
    DS_ASSERT_OK_AND_ASSIGN(const auto c, Open(ignore_index));
    EXPECT_TRUE(c->notes().empty());
    EXPECT_EQ(Rows(*c, "a", 0, 2), (std::vector<float>{1, 2}));
    EXPECT_EQ(Rows(*c, "b", 0, 2), (std::vector<float>{4, 5}));
    EXPECT_EQ(Rows(*c, "t", 0, 3), (std::vector<float>{0, 3, 1, 4, 2, 5}));
    EXPECT_EQ(Rows(*c, "t", 1, 2), (std::vector<float>{1, 4}));
    // Bytes are given where they lie in order only.
    EXPECT_EQ(c->RawRows(*c->Find("a"), 0, 2), FloatBytes({1, 2}));
    EXPECT_EQ(c->RawRows(*c->Find("t"), 0, 1), "");
  }
}

TEST_F(TorchFolder, IndexAndShardsMustAgree) {
  WriteShards();
  unlink(folder_.Path("pytorch_model-00002-of-00002.bin").c_str());
  DS_EXPECT_ERROR(Open(), kNotFound, "download the missing files");
}

TEST_F(TorchFolder, SafetensorsArePreferred) {
  WriteShards();
  folder_.Write("model.safetensors", OneTensor("a", "[1]", {7}));
  DS_ASSERT_OK_AND_ASSIGN(const auto c, Open());
  EXPECT_EQ(c->tensors().size(), 1u);
  ASSERT_EQ(c->notes().size(), 1u);
  EXPECT_TRUE(
      absl::StrContains(c->notes()[0], "the safetensors files are read"));
}

TEST_F(TorchFolder, OneFileOrOneOfAnotherName) {
  folder_.Write("pytorch_model.bin", File(PickleDict({{"a", Two(0)}})));
  folder_.Write("adapter_model.safetensors", "");
  DS_ASSERT_OK_AND_ASSIGN(const auto c, Open());
  EXPECT_EQ(c->tensors().size(), 1u);
  ASSERT_EQ(c->notes().size(), 1u);
  EXPECT_TRUE(absl::StrContains(c->notes()[0], "the PyTorch files are read"));
  for (const char* name : {"x.pt", "y.pth", "best", "model.ckpt"}) {
    const std::string path =
        folder_.Write(name, File(PickleDict({{"c", Two(0)}})));
    DS_ASSERT_OK_AND_ASSIGN(const auto one, OpenCheckpoint(path));
    EXPECT_NE(one->Find("c"), nullptr);
  }
  DS_EXPECT_ERROR(
      OpenCheckpoint(folder_.Write("pytorch_model-00001-of-00002.bin", "")),
      kInvalidArgument, "is part 1 of 2 of a model");
}

TEST_F(TorchFolder, TheSameTensorInTwoShardsIsComparedByItsElements) {
  const auto write = [&](const std::string& second) {
    folder_.Write(
        "pytorch_model-1.bin",
        File(PickleDict({{"a", PickleTensor("0", 6, 0, {3, 2}, {1, 3})}})));
    folder_.Write("pytorch_model-2.bin", second);
  };
  const std::string dense =
      PickleDict({{"a", PickleTensor("0", 6, 0, {3, 2}, {2, 1})}});
  write(TorchZip(dense, {FloatBytes({0, 3, 1, 4, 2, 5})}));
  DS_ASSERT_OK_AND_ASSIGN(const auto c, Open(/*ignore_index=*/true));
  EXPECT_EQ(c->tensors().size(), 1u);
  write(TorchZip(dense, {FloatBytes({0, 1, 2, 3, 4, 5})}));
  DS_EXPECT_ERROR(Open(true), kInvalidArgument, "with different values");
}

TEST_F(TorchFolder, UnreadableTensorsAreRefusedOnceTheyAreNeeded) {
  folder_.Write(
      "pytorch_model.bin",
      File(PickleDict(
          {{"a", Two(0)},
           {"meta",
            PickleGlobal("torch._utils", "_rebuild_meta_tensor_no_storage") +
                "(" + PickleGlobal("torch", "float32") + PickleInts({2, 3}) +
                PickleInts({3, 1}) + "\x89tR"}})));
  DS_ASSERT_OK_AND_ASSIGN(const auto c, Open());
  const TensorInfo* t = c->Find("meta");
  EXPECT_EQ(t->shape, (std::vector<int64_t>{2, 3}));
  float out[6];
  DS_EXPECT_ERROR(c->ReadRows(*t, 0, 2, absl::MakeSpan(out)), kUnimplemented,
                  "tensor \"meta\": is on the meta device");
  EXPECT_EQ(c->RawRows(*t, 0, 2), "");
}

}  // namespace
}  // namespace deepslice
