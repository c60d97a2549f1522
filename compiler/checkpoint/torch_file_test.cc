#include "compiler/checkpoint/torch_file.h"

#include <cmath>
#include <cstdlib>
#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compiler/checkpoint/dequantize.h"
#include "compiler/checkpoint/loaded_checkpoint.h"
#include "compiler/checkpoint/torch_test_files.h"
#include "gtest/gtest.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

using pickle::Kind;
using pickle::Value;

std::string TestData(absl::string_view name) {
  return JoinPath(JoinPath(std::getenv("DS_CHECKPOINT_TESTDATA"), "torch"),
                  name);
}

// A file's bytes, and what is in them.
struct Opened {
  explicit Opened(std::string content) : bytes(std::move(content)) {
    auto opened = TorchFile::Open(bytes, "m.pt");
    status = opened.status();
    if (!opened.ok()) return;
    file = *std::move(opened);
    auto listed = file->ListTensors(file->root());
    status = listed.status();
    if (listed.ok()) tensors = *std::move(listed);
  }
  const TensorInfo* Find(absl::string_view name) const {
    for (const TensorInfo& t : tensors.tensors) {
      if (t.name == name) return &t;
    }
    return nullptr;
  }

  std::string bytes;
  std::unique_ptr<TorchFile> file;
  absl::Status status;
  TorchTensors tensors;
};

// Every element as a float, in row-major order; integers too.
std::vector<float> Elements(const Opened& o, const TensorInfo& t) {
  TensorInfo one = t;
  CheckpointParts parts;
  parts.sources.push_back({"m.pt", o.bytes, {}});
  const auto checkpoint = MakeCheckpoint(std::move(parts));
  std::vector<float> out(t.num_elements());
  if (IsFloat(t.dtype)) {
    EXPECT_TRUE(checkpoint->ReadRows(t, 0, t.rows(), absl::MakeSpan(out)).ok());
    return out;
  }
  const auto* data =
      reinterpret_cast<const uint8_t*>(o.bytes.data()) + t.offset;
  for (size_t i = 0; i < out.size(); ++i) {
    int64_t v = 0;
    const int64_t size = DTypeSize(t.dtype);
    std::memcpy(&v, data + i * size, size);
    const bool is_signed = t.dtype == DType::kI8 || t.dtype == DType::kI16 ||
                           t.dtype == DType::kI32;
    if (is_signed) v = v << (64 - 8 * size) >> (64 - 8 * size);
    out[i] = static_cast<float>(v);
  }
  return out;
}

TEST(TorchFile, ReadsWhatTorchSaveWrote) {
  DS_ASSERT_OK_AND_ASSIGN(const std::string golden,
                          ReadFile(TestData("torch.golden"), 1 << 20));
  std::map<std::string, std::unique_ptr<Opened>> files;
  int lines = 0;
  for (const absl::string_view line :
       absl::StrSplit(golden, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    std::unique_ptr<Opened>& o = files[words[0]];
    if (o == nullptr) {
      DS_ASSERT_OK_AND_ASSIGN(std::string bytes,
                              ReadFile(TestData(words[0]), 1 << 20));
      o = std::make_unique<Opened>(std::move(bytes));
      DS_ASSERT_OK(o->status);
    }
    const TensorInfo* t = o->Find(words[1]);
    ASSERT_NE(t, nullptr) << line;
    const std::string shape = absl::StrJoin(t->shape, "x");
    EXPECT_EQ(shape.empty() ? "scalar" : shape, words[3]) << line;
    ++lines;
    if (words.size() > 4 && words[4] == "unreadable") {
      EXPECT_FALSE(t->unreadable.empty()) << line;
      continue;
    }
    EXPECT_EQ(t->unreadable, "") << line;
    std::vector<float> want;
    for (size_t i = 4; i < words.size(); ++i) {
      float v = 0;
      ASSERT_TRUE(absl::SimpleAtof(words[i], &v));
      want.push_back(v);
    }
    EXPECT_EQ(Elements(*o, *t), want) << line;
  }
  EXPECT_EQ(files.size(), 12u);
  EXPECT_GT(lines, 80);
}

TEST(TorchFile, GivesTheWholeTree) {
  for (const char* name :
       {"training.pt", "training_legacy.pt", "training_protocol3.pt"}) {
    DS_ASSERT_OK_AND_ASSIGN(std::string bytes,
                            ReadFile(TestData(name), 1 << 20));
    const Opened o(std::move(bytes));
    DS_ASSERT_OK(o.status);
    const Value& root = o.file->root();
    const Value* args = root.Find("args");
    ASSERT_NE(args, nullptr);
    EXPECT_EQ(args->Name(), "argparse.Namespace");
    EXPECT_EQ(args->Attribute("num_layers")->as_int(), 2);
    EXPECT_EQ(args->Attribute("params_dtype")->Name(), "torch.bfloat16");
    EXPECT_EQ(args->Attribute("eps")->as_float(), 1e-5);
    EXPECT_EQ(args->Attribute("name")->bytes(), "gpt");
    EXPECT_TRUE(args->Attribute("swiglu")->as_bool());
    EXPECT_TRUE(args->Attribute("none")->is_none());
    EXPECT_EQ(root.Find("iteration")->as_int(), 7);
    EXPECT_EQ(root.Find("big")->kind(), Kind::kBigInt);
    EXPECT_EQ(root.Find("object")->Attribute("rank")->as_int(), 3);
    EXPECT_EQ(root.Find("bytes")->kind(), Kind::kBytes);
    EXPECT_EQ(root.Find("size")->Describe(), "a tuple of 2");
    // What is no tensor is told: the namespace, the object.
    EXPECT_EQ(o.tensors.num_others, 2);
    EXPECT_EQ(o.tensors.others[0],
              "\"args\" (an object of \"argparse.Namespace\")");
    DS_ASSERT_OK_AND_ASSIGN(
        const TensorInfo t,
        o.file->Tensor(*root.Find("model")->Find("n")->Find("w")));
    EXPECT_EQ(t.shape, std::vector<int64_t>{3});
  }
}

TEST(TorchFile, TiedTensorsShareTheirBytes) {
  DS_ASSERT_OK_AND_ASSIGN(std::string bytes,
                          ReadFile(TestData("parameters.pt"), 1 << 20));
  const Opened o(std::move(bytes));
  DS_ASSERT_OK(o.status);
  EXPECT_EQ(o.Find("a")->offset, o.Find("b")->offset);
  EXPECT_EQ(o.Find("a")->strides.size(), 0u);
}

std::string Zip(const std::string& tensor, size_t floats = 6) {
  return TorchZip(PickleDict({{"w", tensor}}), {std::string(floats * 4, '\1')});
}

TEST(TorchFile, RefusesTensorsThatTheFileDoesNotHold) {
  const auto status = [](const std::string& tensor, size_t floats = 6) {
    return Opened(Zip(tensor, floats)).status;
  };
  DS_ASSERT_OK(status(PickleTensor("0", 6, 0, {2, 3}, {3, 1})));
  DS_ASSERT_OK(status(PickleTensor("0", 6, 2, {0, 9}, {9, 1})));
  DS_EXPECT_ERROR(status(PickleTensor("1", 6, 0, {6}, {1})), kDataLoss,
                  "m.pt: tensor \"w\": storage \"1\": is not in the file");
  DS_EXPECT_ERROR(status(PickleTensor("0", 7, 0, {6}, {1})), kInvalidArgument,
                  "has 24 bytes in the file; 7 elements of 4 bytes");
  DS_EXPECT_ERROR(status(PickleTensor("0", 6, 1, {2, 3}, {3, 1})),
                  kInvalidArgument,
                  "reaches element 6; its storage \"0\" has 6");
  DS_EXPECT_ERROR(status(PickleTensor("0", 6, 0, {3, 3}, {2, 1})),
                  kInvalidArgument, "reaches element 6");
  DS_EXPECT_ERROR(status(PickleTensor("0", 6, 0, {2, 3}, {2, 1})),
                  kUnimplemented, "strides: [2, 1] with shape [2, 3] overlap");
  DS_EXPECT_ERROR(
      status(PickleTensor("0", 6, 0, {1 << 30, 1 << 30, 1 << 30}, {0, 0, 0})),
      kInvalidArgument, "overflows 64 bits");
  DS_EXPECT_ERROR(status(PickleTensor("0", 6, 0, {1 << 30, 1 << 30}, {0, 0})),
                  kInvalidArgument, "a tensor has at most");
  DS_EXPECT_ERROR(
      status(PickleTensor("0", 6, 0, {2, 2}, {INT32_MAX, INT32_MAX})),
      kInvalidArgument, "reaches element 4294967294");
  DS_EXPECT_ERROR(status(PickleTensor("0", 6, 0, {1, 1, 1, 1, 1, 1, 1, 1, 1},
                                      {1, 1, 1, 1, 1, 1, 1, 1, 1})),
                  kUnimplemented, "has 9 dims");
  const Opened odd(Zip(PickleTensor("0", 6, 0, {6}, {1}, "OddStorage")));
  DS_ASSERT_OK(odd.status);
  EXPECT_EQ(odd.Find("w")->unreadable.find("class of a storage: found "
                                           "\"torch.OddStorage\""),
            0u);
}

TEST(TorchFile, RefusesNamesTwiceAndValuesInThemselves) {
  const std::string t = PickleTensor("0", 6, 0, {6}, {1});
  const auto status = [](const std::string& pickle) {
    return Opened(TorchZip(pickle, {std::string(24, '\1')})).status;
  };
  DS_EXPECT_ERROR(status(PickleDict({{"a", t}, {"a", t}})), kInvalidArgument,
                  "tensor \"a\": is there twice");
  DS_EXPECT_ERROR(
      status(PickleDict({{"a", "}" + PickleText("b") + t + "s"}, {"a.b", t}})),
      kInvalidArgument, "tensor \"a.b\": is there twice");
  DS_EXPECT_ERROR(status("\x80\x02]q\x01(h\x01h\x01"
                         "e."),
                  kResourceExhausted, "or in itself");
}

TEST(TorchFile, NamesWhatAFileReallyIs) {
  const auto status = [](const std::string& bytes) {
    return Opened(bytes).status;
  };
  DS_EXPECT_ERROR(status(""), kInvalidArgument, "start of file: found \"\"");
  DS_EXPECT_ERROR(status("\x80\x02}."), kInvalidArgument,
                  "is a pickle of a dict of 0, but none that torch.save");
  DS_EXPECT_ERROR(
      status(std::string("\x80\x02", 2) + PickleGlobal("os", "system") + ")R."),
      kInvalidArgument, "names \"os.system\"");
  DS_EXPECT_ERROR(status(OneTensor("a", "[1]", {1})), kInvalidArgument,
                  "looks like a safetensors file");
  DS_EXPECT_ERROR(status("version https://git-lfs.github.com/spec/v1\n"),
                  kDataLoss, "git lfs pull");
  DS_EXPECT_ERROR(status("GGUFxxxx"), kInvalidArgument, "this is a GGUF file");
  std::string tar(600, 'x');
  tar.replace(257, 5, "ustar");
  DS_EXPECT_ERROR(status(tar), kUnimplemented, "is a tar");
  DS_EXPECT_ERROR(status(ZipBuilder().Add("a.txt", "x").Build()),
                  kInvalidArgument, "not one of torch.save");
  const std::string empty = PickleDict({});
  DS_EXPECT_ERROR(status(ZipBuilder()
                             .Add("a/data.pkl", empty)
                             .Add("b/data.pkl", empty)
                             .Build()),
                  kInvalidArgument, "\"a/data.pkl\" and \"b/data.pkl\"");
  DS_EXPECT_ERROR(status(ZipBuilder()
                             .Add("a/data.pkl", empty)
                             .Add("a/constants.pkl", empty)
                             .Build()),
                  kUnimplemented, "TorchScript");
  DS_EXPECT_ERROR(status(ZipBuilder()
                             .Add("a/data.pkl", empty)
                             .Add("a/byteorder", "big")
                             .Build()),
                  kUnimplemented, "big-endian");
  DS_EXPECT_ERROR(status(TorchZip(empty + "x", {})), kInvalidArgument,
                  "1 bytes follow the pickle");
  // Another pickle of the archive, and an archive in a string.
  const std::string evil = PickleGlobal("os", "system") + "0N.";
  DS_EXPECT_ERROR(status(ZipBuilder()
                             .Add("a/data.pkl", empty)
                             .Add("a/more.pkl", evil)
                             .Build()),
                  kInvalidArgument, "names \"os.system\"");
  const std::string inner = TorchZip(evil, {});
  DS_EXPECT_ERROR(
      status(TorchZip(
          PickleDict({{"extra", absl::StrCat("B", Bytes<uint32_t>(inner.size()),
                                             inner)}}),
          {})),
      kInvalidArgument, "names \"os.system\"");
}

TEST(TorchFile, LegacyFilesAreCheckedToTheirEnd) {
  DS_ASSERT_OK_AND_ASSIGN(const std::string file,
                          ReadFile(TestData("views_legacy.pt"), 1 << 20));
  DS_ASSERT_OK(Opened(file).status);
  for (size_t n = 0; n < file.size(); ++n) {
    EXPECT_FALSE(Opened(file.substr(0, n)).status.ok()) << n;
  }
  DS_EXPECT_ERROR(Opened(file + "x").status, kInvalidArgument,
                  "1 bytes follow the last storage");
  std::string big = file;
  const size_t at = big.find("little_endian");
  ASSERT_NE(at, std::string::npos);
  big[big.find('\x88', at)] = '\x89';
  DS_EXPECT_ERROR(Opened(big).status, kUnimplemented, "big-endian");
}

}  // namespace
}  // namespace deepslice
