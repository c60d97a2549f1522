#include "compiler/emit_weight.h"

#include <cmath>

#include "compiler/dtype_option.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

TEST(QuantizeRow, ErrorIsAtMostHalfAStep) {
  std::vector<float> w;
  for (int i = 0; i < 577; ++i) w.push_back(std::sin(i * 0.37f) * (i % 11));
  const float scale = RowScale(w.data(), w.size());
  std::vector<int8_t> q(w.size());
  QuantizeRow(w.data(), w.size(), scale, q.data());
  int largest = 0;
  for (size_t i = 0; i < w.size(); ++i) {
    EXPECT_LE(std::fabs(q[i] * scale - w[i]), scale * 0.5001f) << i;
    largest = std::max(largest, std::abs(static_cast<int>(q[i])));
  }
  EXPECT_EQ(largest, 127);
}

TEST(QuantizeRow, ZeroRowHasScaleOneAndZeros) {
  const std::vector<float> w(10, 0.0f);
  EXPECT_EQ(RowScale(w.data(), 10), 1.0f);
  std::vector<int8_t> q(10, 5);
  QuantizeRow(w.data(), 10, 1.0f, q.data());
  for (const int8_t v : q) EXPECT_EQ(v, 0);
}

TEST(QuantizeRow, RowTooSmallForANormalScaleIsZeros) {
  for (const float amax : {1e-45f, 1.9e-43f, 1e-40f, 1.4e-36f}) {
    const float w[] = {amax, -amax, 0};
    const float scale = RowScale(w, 3);
    EXPECT_EQ(scale, 1.0f) << amax;
    int8_t q[3] = {5, 5, 5};
    QuantizeRow(w, 3, scale, q);
    for (const int8_t v : q) EXPECT_EQ(v, 0) << amax;
  }
  const float w[] = {1.6e-36f, -0.4e-36f};
  int8_t q[2];
  QuantizeRow(w, 2, RowScale(w, 2), q);
  EXPECT_EQ(q[0], 127);
  EXPECT_EQ(q[1], -32);
}

TEST(QuantizeRow, RoundsTiesToEven) {
  const float w[] = {0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 126.5f, -126.5f};
  int8_t q[7];
  QuantizeRow(w, 7, 1.0f, q);
  const int8_t want[] = {0, 2, 2, 0, -2, 126, -126};
  for (int i = 0; i < 7; ++i) EXPECT_EQ(q[i], want[i]) << i;
}

TEST(RowScale, IsInfiniteForWhatInt8CannotHold) {
  const float nan[] = {1, NAN, 2};
  const float inf[] = {1, 2, -INFINITY};
  EXPECT_TRUE(std::isinf(RowScale(nan, 3)));
  EXPECT_TRUE(std::isinf(RowScale(inf, 3)));
}

TEST(ChooseStorage, TakesEveryAlias) {
  for (const char* name : {"fp32", "float", "Float32", "torch.float"}) {
    DS_ASSERT_OK_AND_ASSIGN(const StorageChoice c,
                            ChooseStorage(name, DType::kBF16));
    EXPECT_EQ(StorageName(c), "fp32") << name;
  }
  for (const char* name : {"half", "fp16", "float16", "torch.half"}) {
    DS_ASSERT_OK_AND_ASSIGN(const StorageChoice c,
                            ChooseStorage(name, DType::kBF16));
    EXPECT_EQ(StorageName(c), "fp16") << name;
  }
  DS_ASSERT_OK_AND_ASSIGN(const StorageChoice own,
                          ChooseStorage("auto", DType::kBF16));
  EXPECT_EQ(StorageName(own), "bf16");
  DS_ASSERT_OK_AND_ASSIGN(const StorageChoice q,
                          ChooseStorage("torch.int8", DType::kBF16));
  EXPECT_EQ(q.weights, Encoding::kI8Row);
  EXPECT_EQ(q.base, Encoding::kBF16);
  DS_EXPECT_ERROR(ChooseStorage("fp8", DType::kF32), kInvalidArgument,
                  "--dtype fp8: allowed are auto, fp32");
}

}  // namespace
}  // namespace deepslice
