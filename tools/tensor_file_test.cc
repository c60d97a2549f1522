#include "tools/tensor_file.h"

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

std::string Path(absl::string_view name) {
  return JoinPath(testing::TempDir(), absl::StrCat("tensor_file_", name));
}

std::string Bytes(absl::string_view header, absl::string_view data) {
  std::string out(8, '\0');
  const uint64_t size = header.size();
  std::memcpy(out.data(), &size, 8);
  return absl::StrCat(out, header, data);
}

absl::StatusOr<TensorFile> OpenBytes(absl::string_view bytes) {
  const std::string path = Path("in");
  EXPECT_TRUE(WriteFile(path, bytes).ok());
  return TensorFile::Open(path);
}

TEST(TensorFile, ReadsIntegersOfEachWidth) {
  std::string data;
  for (const int64_t v : {int64_t{5}, int64_t{-7}, int64_t{130}}) {
    data.append(reinterpret_cast<const char*>(&v), 8);
  }
  for (const int32_t v : {1, 2}) {
    data.append(reinterpret_cast<const char*>(&v), 4);
  }
  data += std::string("\x01\x00\xff", 3);
  DS_ASSERT_OK_AND_ASSIGN(
      const TensorFile file,
      OpenBytes(
          Bytes(R"({"__metadata__":{"a":"b"},)"
                R"("x":{"dtype":"I64","shape":[1,3],"data_offsets":[0,24]},)"
                R"("y":{"dtype":"I32","shape":[2],"data_offsets":[24,32]},)"
                R"("m":{"dtype":"U8","shape":[3],"data_offsets":[32,35]}} )",
                data)));
  ASSERT_EQ(file.tensors().size(), 3u);
  const FileTensor* x = file.Find("x");
  ASSERT_NE(x, nullptr);
  EXPECT_EQ(x->shape, (std::vector<int64_t>{1, 3}));
  DS_ASSERT_OK_AND_ASSIGN(auto xs, ReadIntegers(*x));
  EXPECT_EQ(xs, (std::vector<int32_t>{5, -7, 130}));
  DS_ASSERT_OK_AND_ASSIGN(auto ys, ReadIntegers(*file.Find("y")));
  EXPECT_EQ(ys, (std::vector<int32_t>{1, 2}));
  DS_ASSERT_OK_AND_ASSIGN(auto ms, ReadIntegers(*file.Find("m")));
  EXPECT_EQ(ms, (std::vector<int32_t>{1, 0, 255}));
  EXPECT_EQ(file.Find("z"), nullptr);
}

TEST(TensorFile, RefusesDamageWithTheTensorsName) {
  const auto one = [](absl::string_view entry, absl::string_view data) {
    return OpenBytes(Bytes(absl::StrCat(R"({"x":)", entry, "}"), data));
  };
  DS_EXPECT_ERROR(OpenBytes("abc"), kInvalidArgument, "3 bytes are no");
  DS_EXPECT_ERROR(OpenBytes(std::string(8, '\xff')), kInvalidArgument,
                  "header is 18446744073709551615 bytes long");
  DS_EXPECT_ERROR(OpenBytes(Bytes("[]", "")), kInvalidArgument, "no object");
  DS_EXPECT_ERROR(OpenBytes(Bytes("{", "")), kInvalidArgument, "header");
  DS_EXPECT_ERROR(one("{}", ""), kInvalidArgument, "tensor \"x\": needs");
  DS_EXPECT_ERROR(
      one(R"({"dtype":"I65","shape":[1],"data_offsets":[0,8]})", "12345678"),
      kInvalidArgument, "dtype \"I65\" is none");
  DS_EXPECT_ERROR(
      one(R"({"dtype":"I64","shape":[2],"data_offsets":[0,8]})", "12345678"),
      kInvalidArgument, "has 8 bytes; its shape needs 16");
  DS_EXPECT_ERROR(
      one(R"({"dtype":"I64","shape":[1],"data_offsets":[0,8]})", "1234567"),
      kInvalidArgument, "not within the 7 bytes");
  DS_EXPECT_ERROR(
      one(R"({"dtype":"I64","shape":[1],"data_offsets":[8,0]})", "12345678"),
      kInvalidArgument, "not within");
  DS_EXPECT_ERROR(one(R"({"dtype":"I64","shape":[4611686018427387904,4],)"
                      R"("data_offsets":[0,8]})",
                      "12345678"),
                  kInvalidArgument, "no list of sizes");
}

TEST(ReadIntegers, RefusesFloatsAndWideValues) {
  FileTensor t = {.name = "x", .dtype = DType::kF32, .shape = {1}};
  t.data = absl::string_view("\0\0\0\0", 4);
  DS_EXPECT_ERROR(ReadIntegers(t), kInvalidArgument, "\"x\" is F32");
  t.dtype = DType::kI64;
  t.data = absl::string_view("\0\0\0\0\1\0\0\0", 8);
  DS_EXPECT_ERROR(ReadIntegers(t), kInvalidArgument, "element 0 is 4294967296");
}

TEST(TensorWriter, WritesWhatTensorFileReads) {
  const std::string path = Path("out");
  DS_ASSERT_OK_AND_ASSIGN(auto writer,
                          TensorWriter::Create(path, {{"logits", {2, 3}}}));
  EXPECT_STREQ(TensorWriter::UnfinishedPath(), (path + ".part").c_str());
  const float row[3] = {1.5f, -2.0f, 3.25f};
  DS_ASSERT_OK(writer->AppendZeros(3));
  DS_ASSERT_OK(writer->Append(row, 3));
  DS_ASSERT_OK(writer->Finish());
  EXPECT_EQ(TensorWriter::UnfinishedPath(), nullptr);
  DS_ASSERT_OK_AND_ASSIGN(const TensorFile file, TensorFile::Open(path));
  const FileTensor* t = file.Find("logits");
  ASSERT_NE(t, nullptr);
  EXPECT_EQ(t->shape, (std::vector<int64_t>{2, 3}));
  float values[6];
  ASSERT_EQ(t->data.size(), sizeof(values));
  std::memcpy(values, t->data.data(), sizeof(values));
  EXPECT_EQ(std::vector<float>(values, values + 6),
            (std::vector<float>{0, 0, 0, 1.5f, -2.0f, 3.25f}));
}

TEST(TensorWriter, LeavesNothingWithoutFinish) {
  const std::string path = Path("unfinished");
  {
    DS_ASSERT_OK_AND_ASSIGN(auto writer,
                            TensorWriter::Create(path, {{"logits", {4}}}));
    EXPECT_TRUE(FileExists(path + ".part"));
  }
  EXPECT_FALSE(FileExists(path + ".part"));
  EXPECT_FALSE(FileExists(path));
  DS_EXPECT_ERROR(TensorWriter::Create("/no/such/dir/x", {{"a", {1}}}),
                  kInvalidArgument, "/no/such/dir/x: cannot be written");
}

}  // namespace
}  // namespace deepslice
