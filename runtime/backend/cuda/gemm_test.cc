#include "runtime/backend/cuda/gemm.h"

#include "gtest/gtest.h"
#include "runtime/backend/cuda/device.h"
#include "runtime/backend/cuda/gemm_tuner.h"
#include "runtime/testing/fake_gpu.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

// Matrices of small whole numbers, exact in every type, on the fake's device.
struct Operands {
  Operands(const GemmShape& shape, int64_t m, const GpuContext& gpu)
      : shape(shape), m(m) {
    const auto make = [&](int64_t count, DType type) {
      auto memory = DeviceMemory::Make(gpu, count * DTypeSize(type), "operand");
      EXPECT_TRUE(memory.ok());
      return *std::move(memory);
    };
    a = make(m * shape.a_stride, shape.in);
    w = make(shape.n * shape.k, shape.in);
    out = make(m * shape.out_stride, shape.out);
    residual = make(std::max<int64_t>(m * shape.residual_stride, 1), shape.out);
    for (int64_t i = 0; i < m * shape.a_stride; ++i)
      Set(a, shape.in, i, i % 7 - 3);
    for (int64_t i = 0; i < shape.n * shape.k; ++i) {
      Set(w, shape.in, i, i % 5 - 2);
    }
    for (int64_t i = 0; i < m * shape.residual_stride; ++i) {
      Set(residual, shape.out, i, i % 3);
    }
    for (int64_t i = 0; i < m * shape.out_stride; ++i) {
      Set(out, shape.out, i, 99);
    }
  }

  static void Set(const DeviceMemory& to, DType type, int64_t i, float value) {
    if (type == DType::kF32) {
      reinterpret_cast<float*>(to.data())[i] = value;
    } else {
      reinterpret_cast<uint16_t*>(to.data())[i] =
          type == DType::kF16 ? FloatToF16(value) : FloatToBF16(value);
    }
  }
  static float Get(const DeviceMemory& from, DType type, int64_t i) {
    if (type == DType::kF32) return reinterpret_cast<float*>(from.data())[i];
    const uint16_t half = reinterpret_cast<uint16_t*>(from.data())[i];
    return type == DType::kF16 ? F16ToFloat(half) : BF16ToFloat(half);
  }

  void ExpectProduct(int64_t rows) const {
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < shape.out_stride; ++j) {
        float sum = 99;  // untouched
        if (i < rows && j < shape.n) {
          sum = shape.residual_stride > 0
                    ? Get(residual, shape.out, i * shape.residual_stride + j)
                    : 0;
          for (int64_t x = 0; x < shape.k; ++x) {
            sum += Get(a, shape.in, i * shape.a_stride + x) *
                   Get(w, shape.in, j * shape.k + x);
          }
        }
        ASSERT_EQ(Get(out, shape.out, i * shape.out_stride + j), sum)
            << i << ", " << j;
      }
    }
  }

  GemmShape shape;
  int64_t m;
  DeviceMemory a, w, out, residual;
};

class GemmsTest : public testing::Test {
 protected:
  void SetUp() override {
    fake_.gemm_milliseconds = {3, 1};
    gpu_ = *GpuContext::Open(fake_.cuda(), 0);
    workspace_ = *DeviceMemory::Make(*gpu_, 4096, "workspace");
    stream_ = *GpuStream::Make(*gpu_);
    const GpuApis apis = fake_.apis();
    api_ = *apis.cublaslt;
    gemms_ = *Gemms::Create(api_, workspace_.data(), workspace_.bytes());
  }
  absl::Status Run(int i, const Operands& o, int64_t rows) {
    return gemms_->Run(i, rows, o.a.data(), o.w.data(), o.residual.data(),
                       o.out.data(), stream_.get());
  }

  FakeGpu fake_;
  CublasLtApi api_;
  std::unique_ptr<GpuContext> gpu_;
  DeviceMemory workspace_;
  GpuStream stream_;
  std::unique_ptr<Gemms> gemms_;
};

TEST_F(GemmsTest, ProductsAreRowMajorAtAnyStride) {
  const GemmShape shapes[] = {
      {.n = 7, .k = 5, .a_stride = 5, .out_stride = 7},
      {.n = 7,
       .k = 5,
       .in = DType::kBF16,
       .out = DType::kF32,
       .a_stride = 9,
       .out_stride = 8},
      {.n = 3,
       .k = 11,
       .in = DType::kF16,
       .out = DType::kF16,
       .a_stride = 12,
       .out_stride = 5,
       .residual_stride = 4},
  };
  for (const GemmShape& shape : shapes) {
    const Operands o(shape, 6, *gpu_);
    const auto i = gemms_->Add(shape);
    ASSERT_TRUE(i.ok()) << i.status();
    EXPECT_EQ(*gemms_->Add(shape), *i);
    DS_ASSERT_OK(Run(*i, o, 4));
    o.ExpectProduct(4);
    DS_ASSERT_OK(Run(*i, o, 6));
    o.ExpectProduct(6);
  }
  EXPECT_EQ(gemms_->size(), 3);
}

TEST_F(GemmsTest, AnAlgorithmThatRefusesAHeightIsReplacedForIt) {
  const GemmShape shape = {.n = 7, .k = 5, .a_stride = 5, .out_stride = 7};
  const Operands o(shape, 6, *gpu_);
  const int i = *gemms_->Add(shape);
  gemms_->Choose(i, GemmClassOf(6), {.data = {1}});
  fake_.Fail("Matmul", kCublasNotSupported, 0, 1);
  DS_ASSERT_OK(Run(i, o, 6));
  EXPECT_EQ(fake_.products.back().algo, 0u);
  o.ExpectProduct(6);
  DS_ASSERT_OK(Run(i, o, 6));
  EXPECT_EQ(fake_.products.back().algo, 0u);
  DS_ASSERT_OK(Run(i, o, 5));
  EXPECT_EQ(fake_.products.back().algo, 1u);
}

TEST_F(GemmsTest, SaysWhichProductHasNoAlgorithm) {
  const GemmShape shape = {.n = 7, .k = 5, .a_stride = 5, .out_stride = 7};
  const Operands o(shape, 6, *gpu_);
  const int i = *gemms_->Add(shape);
  fake_.gemm_milliseconds.clear();
  const absl::Status s = Run(i, o, 6);
  EXPECT_EQ(s.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(s.message(),
            "cuBLASLt has no algorithm for 16 rows by 7x5 f32 f32 a 5 out 7 "
            "residual 0; compile for another --dtype, or update cuBLAS");
  EXPECT_EQ(gemms_->Add({.n = 1, .k = 1, .in = DType::kI8}).status().code(),
            absl::StatusCode::kUnimplemented);
}

TEST_F(GemmsTest, TuningTriesOnlyHeightsThatTheRunHas) {
  const GemmShape shape = {.n = 7, .k = 5, .a_stride = 5, .out_stride = 7};
  const Operands o(shape, 70, *gpu_);
  const int i = *gemms_->Add(shape);
  const GemmSample sample = {.problem = i,
                             .most_rows = 70,
                             .a = o.a.data(),
                             .out = o.out.data(),
                             .weights = {o.w.data()}};
  std::vector<int64_t> rows;
  TuneOptions options;
  options.seconds = 100;
  options.report = [&](const GemmShape&, int64_t m, double first, double best) {
    rows.push_back(m);
    EXPECT_EQ(first, 3000);
    EXPECT_EQ(best, 1000);
  };
  DS_ASSERT_OK(
      TuneGemms(*gpu_, {sample}, options, stream_.get(), gemms_.get()));
  EXPECT_EQ(rows, (std::vector<int64_t>{70, 64, 16}));
  rows.clear();
  DS_ASSERT_OK(
      TuneGemms(*gpu_, {sample}, options, stream_.get(), gemms_.get()));
  EXPECT_TRUE(rows.empty());
  options.again = true;
  DS_ASSERT_OK(
      TuneGemms(*gpu_, {sample}, options, stream_.get(), gemms_.get()));
  EXPECT_EQ(rows.size(), 3u);
}

TEST(GemmCachePath, NamesStayInsideTheFolder) {
  EXPECT_EQ(GemmCachePath("/c", "../a b", "NVIDIA H200", 130100),
            "/c/deepslice/_.._a_b/NVIDIA_H200-130100");
  EXPECT_EQ(GemmCachePath("", "id", "gpu", 1), "");
}

}  // namespace
}  // namespace deepslice
