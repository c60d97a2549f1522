#include "compiler/checkpoint/gguf.h"

#include <memory>

#include "compiler/checkpoint/test_files.h"
#include "schema/base/limits.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

absl::StatusOr<GgufFile> Read(absl::string_view bytes) {
  return ReadGguf(bytes, "m.gguf");
}
absl::StatusOr<GgufFile> Read(const GgufBuilder& b) { return Read(b.Build()); }

// The type numbers of metadata values.
constexpr uint32_t kBool = 7, kString = 8, kArray = 9, kU64 = 10;
const std::string kFloats(24, '\1');  // [2, 3] of F32

TEST(Gguf, ReadsMetadataAndTensorsOfBothVersions) {
  for (uint32_t version : {2, 3}) {
    GgufBuilder b;
    b.version = version;
    b.U32("n", 7).Text("s", "x").Key("yes", kBool, Bytes<uint8_t>(1));
    b.Key("i8", 1, Bytes<int8_t>(-3)).Key("u64", kU64, Bytes(uint64_t{8}));
    b.F32("f", 0.5).Key("d", 12, Bytes(0.25)).U32s("a", {4, 5, 6});
    b.Tensor("t", {3, 2}, 0, kFloats);
    b.Tensor("q", {64, 5}, 3, std::string(5 * 2 * 20, '\0'));
    DS_ASSERT_OK_AND_ASSIGN(const GgufFile f, Read(b));
    EXPECT_EQ(json::Write(f.metadata),
              R"({"n":7,"s":"x","yes":true,"i8":-3,)"
              R"("u64":8,"f":0.5,"d":0.25,"a":[4,5,6]})");
    ASSERT_EQ(f.tensors.size(), 2u);
    EXPECT_EQ(f.tensors[0].shape, (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(f.tensors[0].bytes, 24u);
    EXPECT_EQ(f.tensors[0].offset % 32, 0u);
    EXPECT_EQ(f.tensors[1].storage, Storage::kQ4_1);
    EXPECT_EQ(f.tensors[1].shape, (std::vector<int64_t>{5, 64}));
    EXPECT_EQ(f.tensors[1].bytes, 200u);
    EXPECT_EQ(f.tensors[1].offset, f.tensors[0].offset + 32);
  }
}

TEST(Gguf, IntegersBeyondSignedOnesAreDoubles) {
  DS_ASSERT_OK_AND_ASSIGN(
      const GgufFile f,
      Read(GgufBuilder().Key("u64", kU64, Bytes(~uint64_t{0}))));
  EXPECT_FALSE(f.metadata.Find("u64")->is_int());
  EXPECT_EQ(f.metadata.Find("u64")->as_double(), 0x1p64);
}

TEST(Gguf, NamesOldFormatsVersionsAndByteOrder) {
  DS_EXPECT_ERROR(Read("tjgg\1\0\0\0"), kUnimplemented, "GGJT file of before");
  DS_EXPECT_ERROR(Read("lmgg"), kUnimplemented, "GGML file of before");
  DS_EXPECT_ERROR(Read("abcd...."), kInvalidArgument,
                  "found \"abcd\"; a GGUF file starts with \"GGUF\"");
  DS_EXPECT_ERROR(Read(""), kInvalidArgument, "found \"\"");
  DS_EXPECT_ERROR(Read("PK\x03\x04"), kInvalidArgument, "a PyTorch zip");
  DS_EXPECT_ERROR(Read("version https://git-lfs"), kDataLoss, "git lfs pull");
  GgufBuilder b;
  for (uint32_t version : {0, 1, 4}) {
    b.version = version;
    DS_EXPECT_ERROR(Read(b), kUnimplemented, "versions 2 and 3 are read");
  }
  b.version = 3 << 24;
  DS_EXPECT_ERROR(Read(b), kUnimplemented, "big-endian");
}

TEST(Gguf, CountsMustFitTheFile) {
  const auto counts = [](uint64_t tensors, uint64_t pairs) {
    return absl::StrCat("GGUF", Bytes<uint32_t>(3), Bytes(tensors),
                        Bytes(pairs), std::string(100, '\0'));
  };
  DS_EXPECT_ERROR(Read(counts(uint64_t{1} << 63, 0)), kDataLoss,
                  "tensor count: found 9223372036854775808");
  DS_EXPECT_ERROR(Read(counts(0, uint64_t{1} << 63)), kDataLoss,
                  "key count: found 9223372036854775808");
}

TEST(Gguf, KeysAreUniqueNamedText) {
  DS_EXPECT_ERROR(Read(GgufBuilder().U32("", 1)), kInvalidArgument,
                  "key 0: is empty");
  DS_EXPECT_ERROR(Read(GgufBuilder().U32("a", 1).U32("a", 2)), kInvalidArgument,
                  "duplicate key \"a\"");
  DS_EXPECT_ERROR(Read(GgufBuilder().U32("\xff", 1)), kInvalidArgument,
                  "is not UTF-8");
  DS_ASSERT_OK(Read(GgufBuilder().U32(std::string(65535, 'k'), 1)));
  DS_EXPECT_ERROR(Read(GgufBuilder().U32(std::string(65536, 'k'), 1)),
                  kInvalidArgument, "a string of 65536 bytes; at most 65535");
}

TEST(Gguf, ValuesAreChecked) {
  const auto value = [](uint32_t type, absl::string_view bytes) {
    return Read(GgufBuilder().Key("k", type, bytes)).status();
  };
  DS_EXPECT_ERROR(value(13, "12345678"), kInvalidArgument,
                  "value type 13; must be 0 to 12");
  DS_EXPECT_ERROR(value(kBool, "\2"), kInvalidArgument,
                  "a boolean of value 2; must be 0 or 1");
  DS_EXPECT_ERROR(value(kString, Bytes<uint64_t>(1000)), kDataLoss,
                  "a string of 1000 bytes; only");
  DS_EXPECT_ERROR(value(kString, Bytes<uint64_t>(limits::kGgufStringBytes + 1)),
                  kInvalidArgument, "at most 16777216");
  const auto array = [&](uint32_t type, uint64_t count) {
    return value(kArray, Bytes(type) + Bytes(count));
  };
  DS_EXPECT_ERROR(array(9, 1), kUnimplemented, "an array of arrays");
  DS_EXPECT_ERROR(array(255, 1), kInvalidArgument, "array element type 255");
  DS_EXPECT_ERROR(array(4, uint64_t{1} << 61), kResourceExhausted,
                  "an array of 2305843009213693952 items");
  DS_EXPECT_ERROR(array(4, 1000), kDataLoss, "an array of 1000 items; only");
  for (const uint32_t type : {0, 1}) {  // u8, i8
    DS_ASSERT_OK_AND_ASSIGN(
        const GgufFile f,
        Read(GgufBuilder().Key("k", kArray,
                               Bytes(type) + Bytes<uint64_t>(3) +
                                   std::string("\0\xff"
                                               "a",
                                               3))));
    EXPECT_EQ(f.metadata.Find("k")->as_string(), std::string("\0\xff"
                                                             "a",
                                                             3));
  }
}

TEST(Gguf, AlignmentIsAPowerOfTwo) {
  GgufBuilder good;
  good.alignment = 64;
  good.U32("general.alignment", 64).Tensor("t", {3, 2}, 0, kFloats);
  DS_ASSERT_OK(Read(good));
  for (uint32_t bad : {0u, 3u, 4u, 48u, 1u << 17, 1u << 31}) {
    DS_EXPECT_ERROR(Read(GgufBuilder().U32("general.alignment", bad)),
                    kInvalidArgument, "must be a power of two from 8 to 65536");
  }
  DS_EXPECT_ERROR(Read(GgufBuilder().Text("general.alignment", "32")),
                  kInvalidArgument, "found a string");
}

TEST(Gguf, DimsAreChecked) {
  const auto dims = [](const std::vector<uint64_t>& d, uint32_t type = 0) {
    return Read(GgufBuilder().Tensor("t", d, type, kFloats)).status();
  };
  DS_EXPECT_ERROR(dims({}), kInvalidArgument, "0 dims; must be 1 to 4");
  DS_EXPECT_ERROR(dims({1, 1, 1, 1, 1}), kInvalidArgument, "5 dims");
  DS_EXPECT_ERROR(dims({3, 0}), kInvalidArgument, "dim 1 is 0");
  DS_EXPECT_ERROR(dims({~uint64_t{0}}), kInvalidArgument,
                  "dim 0 is 18446744073709551615");
  DS_EXPECT_ERROR(dims({uint64_t{1} << 32, uint64_t{1} << 32}),
                  kInvalidArgument, "beyond 64 bits");
  DS_EXPECT_ERROR(dims({uint64_t{1} << 45}), kInvalidArgument,
                  "a tensor has at most");
  DS_EXPECT_ERROR(dims({48, 2}, 8), kInvalidArgument,
                  "a row of 48 elements; must be a multiple of the block of "
                  "32");
  DS_EXPECT_ERROR(dims({128, 2}, 14), kInvalidArgument, "the block of 256");
}

TEST(Gguf, TypesAreNamed) {
  const auto type = [](uint32_t t) {
    return Read(GgufBuilder().Tensor("t", {256}, t, kFloats)).status();
  };
  DS_EXPECT_ERROR(type(4), kInvalidArgument, "(Q4_2) was removed");
  DS_EXPECT_ERROR(type(16), kUnimplemented,
                  "(IQ2_XXS) is not supported; supported: F32, F16,");
  DS_EXPECT_ERROR(type(9), kUnimplemented, "(Q8_1) is not supported");
  DS_EXPECT_ERROR(type(99), kInvalidArgument, "type 99 has no meaning");
}

TEST(Gguf, TensorsLieApartInsideTheFile) {
  DS_EXPECT_ERROR(Read(GgufBuilder().Tensor("t", {3, 2}, 0, kFloats, 8)),
                  kInvalidArgument, "must be a multiple of the alignment 32");
  DS_EXPECT_ERROR(Read(GgufBuilder().Tensor("t", {3, 2}, 0, kFloats, 1 << 20)),
                  kDataLoss, "end beyond the file");
  DS_EXPECT_ERROR(Read(GgufBuilder()
                           .Tensor("a", {3, 2}, 0, kFloats)
                           .Tensor("b", {3, 2}, 0, kFloats, 0)),
                  kInvalidArgument, "tensors \"a\" and \"b\" overlap");
  DS_EXPECT_ERROR(Read(GgufBuilder()
                           .Tensor("a", {3, 2}, 0, kFloats)
                           .Tensor("a", {3, 2}, 0, kFloats)),
                  kInvalidArgument, "duplicate tensor name \"a\"");
  std::string cut = GgufBuilder().Tensor("t", {3, 2}, 0, kFloats).Build();
  cut.pop_back();
  DS_EXPECT_ERROR(Read(cut), kDataLoss, "which has 23 bytes of data");
}

}  // namespace
}  // namespace deepslice
