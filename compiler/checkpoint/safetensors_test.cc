#include "compiler/checkpoint/safetensors.h"

#include <memory>

#include "absl/strings/str_replace.h"
#include "compiler/checkpoint/test_files.h"
#include "schema/base/limits.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

absl::StatusOr<SafetensorsHeader> Read(absl::string_view bytes) {
  return ReadSafetensorsHeader(bytes, "m.safetensors");
}
absl::StatusOr<SafetensorsHeader> Read(absl::string_view header,
                                       size_t data_bytes) {
  return Read(SafetensorsBytes(header, std::string(data_bytes, '\1')));
}

constexpr absl::string_view kTwo =
    R"({"__metadata__":{"format":"pt"},)"
    R"("b":{"dtype":"BF16","shape":[3,2],"data_offsets":[20,32]},)"
    R"("a":{"dtype":"F32","shape":[5],"data_offsets":[0,20]}})";

TEST(Safetensors, ReadsTensorsInTheOrderOfTheData) {
  DS_ASSERT_OK_AND_ASSIGN(const SafetensorsHeader h, Read(kTwo, 32));
  ASSERT_EQ(h.tensors.size(), 2u);
  EXPECT_EQ(h.tensors[0].name, "a");
  EXPECT_EQ(h.tensors[0].dtype, DType::kF32);
  EXPECT_EQ(h.tensors[0].offset, 8 + kTwo.size());
  EXPECT_EQ(h.tensors[1].name, "b");
  EXPECT_EQ(h.tensors[1].shape, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(h.tensors[1].offset, 8 + kTwo.size() + 20);
  EXPECT_EQ(h.tensors[1].bytes, 12u);
  ASSERT_EQ(h.metadata.size(), 1u);
  EXPECT_EQ(h.metadata[0].second, "pt");
}

TEST(Safetensors, AcceptsEmptyTensorsScalarsAndTrailingSpaces) {
  DS_ASSERT_OK_AND_ASSIGN(
      const SafetensorsHeader h,
      Read(R"({"e":{"dtype":"F32","shape":[0,4],"data_offsets":[4,4]},)"
           R"("s":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
           R"("x":{"dtype":"I64","shape":[0],"data_offsets":[0,0]}}   )",
           4));
  EXPECT_EQ(h.tensors.size(), 3u);
  DS_ASSERT_OK(Read(R"({"__metadata__":{}})", 0));
  DS_ASSERT_OK(Read("{}", 0));
}

TEST(Safetensors, DimsBesideAZeroMustFitToo) {
  const auto shape = [](absl::string_view dims) {
    return Read(absl::StrCat(R"({"a":{"dtype":"F32","shape":)", dims,
                             R"(,"data_offsets":[0,0]}})"),
                0);
  };
  DS_ASSERT_OK(shape("[0,1152921504606846976]"));  // 2^60
  DS_EXPECT_ERROR(shape("[0,1152921504606846976,4]"), kInvalidArgument,
                  "overflows 64 bits");
  DS_EXPECT_ERROR(shape("[1152921504606846976,0,4]"), kInvalidArgument,
                  "overflows 64 bits");
}

TEST(Safetensors, SkipsKeysOfLaterFormats) {
  DS_ASSERT_OK(Read(R"({"a":{"dtype":"U8","new":[{"x":1}],"shape":[2],)"
                    R"("data_offsets":[0,2]}})",
                    2));
}

TEST(Safetensors, KnowsEveryTypeOfTheFormat) {
  for (const auto& [name, size] : {std::pair<const char*, int>{"F64", 8},
                                   {"F32", 4},
                                   {"F16", 2},
                                   {"BF16", 2},
                                   {"I64", 8},
                                   {"I32", 4},
                                   {"I16", 2},
                                   {"I8", 1},
                                   {"U64", 8},
                                   {"U32", 4},
                                   {"U16", 2},
                                   {"U8", 1},
                                   {"BOOL", 1}}) {
    const std::string header = absl::StrReplaceAll(
        R"({"a":{"dtype":"T","shape":[3],"data_offsets":[0,N]}})",
        {{"T", name}, {"N", absl::StrCat(3 * size)}});
    EXPECT_TRUE(Read(header, 3 * size).ok()) << name;
  }
  for (const char* name : {"F8_E4M3", "F8_E5M2", "F4", "C64"}) {
    DS_EXPECT_ERROR(
        Read(absl::StrCat(R"({"a":{"dtype":")", name,
                          R"(","shape":[3],"data_offsets":[0,3]}})"),
             3),
        kUnimplemented, "is a known type that is not supported");
  }
}

TEST(Safetensors, BoundsNamesAndRank) {
  const auto header = [](size_t name_bytes, absl::string_view shape) {
    return absl::StrCat("{\"", std::string(name_bytes, 'n'),
                        R"(":{"dtype":"U8","shape":)", shape,
                        R"(,"data_offsets":[0,1]}})");
  };
  DS_ASSERT_OK(Read(header(limits::kTensorNameBytes, "[1]"), 1));
  DS_EXPECT_ERROR(Read(header(limits::kTensorNameBytes + 1, "[1]"), 1),
                  kResourceExhausted, "4097 bytes; at most 4096");
  DS_ASSERT_OK(Read(header(1, "[1,1,1,1,1,1,1,1]"), 1));
  DS_EXPECT_ERROR(Read(header(1, "[1,1,1,1,1,1,1,1,1]"), 1), kUnimplemented,
                  "shape: has 9 dims; at most 8 are supported");
}

TEST(Safetensors, BoundsTheHeaderBeforeReadingIt) {
  std::string bytes = SafetensorsBytes("{}", "");
  const uint64_t most = limits::kSafetensorsHeaderBytes;
  std::memcpy(bytes.data(), &most, 8);
  DS_EXPECT_ERROR(Read(bytes), kDataLoss, "found 100000000; only 2 bytes");
  const uint64_t beyond = most + 1;
  std::memcpy(bytes.data(), &beyond, 8);
  DS_EXPECT_ERROR(Read(bytes), kInvalidArgument,
                  "found 100000001; at most 100000000");
}

TEST(Safetensors, NamesWhatAFileReallyIs) {
  for (const auto& [start, name] :
       {std::pair<std::string, const char*>{"PK\x03\x04xxxxxxxxxxxx",
                                            "a PyTorch zip"},
        {std::string("\x80\x02\x8a\x0alxxxxxxxxxxx"), "a Python pickle"},
        {std::string("\x80\x04\x95xxxxxxxxxxxx"), "a Python pickle"},
        {"GGUFxxxxxxxxxxx", "a GGUF file"},
        {"<!DOCTYPE html>", "an HTML page"}}) {
    DS_EXPECT_ERROR(Read(start), kInvalidArgument, name);
  }
  DS_EXPECT_ERROR(Read("version https://git-lfs.github.com/spec/v1\noid"),
                  kDataLoss, "git lfs pull");
}

// Every mutation gives a status or a header whose tensors lie in the file.
void ExpectSound(const std::string& bytes) {
  // An allocation of the exact size, so that the sanitizer sees any overrun.
  const auto copy = std::make_unique<char[]>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), copy.get());
  const auto h = Read(absl::string_view(copy.get(), bytes.size()));
  if (!h.ok()) {
    ASSERT_EQ(h.status().message().find('\n'), std::string::npos);
    return;
  }
  for (const TensorInfo& t : h->tensors) {
    ASSERT_LE(t.offset, bytes.size());
    ASSERT_LE(t.bytes, bytes.size() - t.offset);
    ASSERT_EQ(t.num_elements() * DTypeSize(t.dtype),
              static_cast<int64_t>(t.bytes));
  }
}

TEST(Safetensors, SurvivesEveryTruncation) {
  const std::string file = SafetensorsBytes(kTwo, std::string(32, '\1'));
  for (size_t n = 0; n < file.size(); ++n) {
    ExpectSound(file.substr(0, n));
    EXPECT_FALSE(Read(file.substr(0, n)).ok()) << n;
  }
}

TEST(Safetensors, SurvivesEveryByteInEveryPlaceOfTheHeader) {
  const std::string file = SafetensorsBytes(kTwo, std::string(32, '\1'));
  for (size_t i = 0; i < 8 + kTwo.size(); ++i) {
    std::string bad = file;
    for (int b = 0; b < 256; ++b) {
      bad[i] = static_cast<char>(b);
      ExpectSound(bad);
    }
  }
}

}  // namespace
}  // namespace deepslice
