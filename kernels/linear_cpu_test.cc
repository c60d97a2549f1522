// CpuLinear against sums in double, and its promises: the same bits whatever
// the batch and the threads, and not a byte read or written outside its
// operands.
#include "kernels/linear_cpu.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "hwy/targets.h"
#include "kernels/cpu.h"
#include "kernels/thread_pool.h"
#include "schema/base/dtype.h"
#include "schema/encoding.h"

namespace deepslice {
namespace {

constexpr Encoding kEncodings[] = {Encoding::kF32, Encoding::kF16,
                                   Encoding::kBF16, Encoding::kI8Row};

// Bytes that end where memory that may not be touched begins.
class GuardedBytes {
 public:
  explicit GuardedBytes(int64_t size) {
    const int64_t page = sysconf(_SC_PAGESIZE);
    const int64_t usable = (size + page - 1) / page * page;
    mapped_ = usable + page;
    base_ = static_cast<char*>(mmap(nullptr, mapped_, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_NE(base_, MAP_FAILED);
    EXPECT_EQ(mprotect(base_ + usable, page, PROT_NONE), 0);
    data_ = base_ + usable - size;
  }
  ~GuardedBytes() { munmap(base_, mapped_); }
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;

  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  int64_t mapped_;
  char* base_;
  char* data_;
};

int64_t BytesOf(Encoding e, int64_t count) {
  return count * EncodingBits(e) / 8;
}

// Writes values in [-1, 1] (int8: any) and returns them as doubles.
std::vector<double> FillEncoded(Encoding e, int64_t count, std::mt19937& random,
                                void* out) {
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  std::uniform_int_distribution<int> integer(-127, 127);
  std::vector<double> values(count);
  for (int64_t i = 0; i < count; ++i) {
    switch (e) {
      case Encoding::kF32: {
        const float f = uniform(random);
        static_cast<float*>(out)[i] = f;
        values[i] = f;
        break;
      }
      case Encoding::kF16: {
        const uint16_t h = FloatToF16(uniform(random));
        static_cast<uint16_t*>(out)[i] = h;
        values[i] = F16ToFloat(h);
        break;
      }
      case Encoding::kBF16: {
        const uint16_t h = FloatToBF16(uniform(random));
        static_cast<uint16_t*>(out)[i] = h;
        values[i] = BF16ToFloat(h);
        break;
      }
      default: {
        const int q = integer(random);
        static_cast<int8_t*>(out)[i] = static_cast<int8_t>(q);
        values[i] = q;
      }
    }
  }
  return values;
}

struct Options {
  int64_t rows, k, n;
  Encoding encoding = Encoding::kF32;
  bool has_bias = false;
  Encoding bias_encoding = Encoding::kF32;
  bool has_residual = false;
  bool residual_is_out = false;
  int threads = 1;
  uint32_t seed = 1;

  std::string Text() const {
    return absl::StrCat("rows ", rows, " k ", k, " n ", n, " ",
                        std::string(EncodingName(encoding)), " bias ", has_bias,
                        " (", std::string(EncodingName(bias_encoding)),
                        ") residual ", has_residual, " threads ", threads,
                        " seed ", seed);
  }
};

// Operands in memory that ends where they end.
struct Case {
  explicit Case(const Options& options)
      : o(options),
        x(o.rows * o.k * 4),
        w(BytesOf(o.encoding, o.n * o.k)),
        scales(o.n * 4),
        bias(BytesOf(o.bias_encoding, o.n)),
        residual(o.rows * o.n * 4),
        out(o.rows * o.n * 4) {
    std::mt19937 random(o.seed);
    x_values = FillEncoded(Encoding::kF32, o.rows * o.k, random, x.as<void>());
    w_values = FillEncoded(o.encoding, o.n * o.k, random, w.as<void>());
    scale_values = FillEncoded(Encoding::kF32, o.n, random, scales.as<void>());
    bias_values = FillEncoded(o.bias_encoding, o.n, random, bias.as<void>());
    residual_values =
        FillEncoded(Encoding::kF32, o.rows * o.n, random, residual.as<void>());
  }

  void Run() {
    CpuCall call;
    call.in[0] = {.data = x.as<void>(), .rows = o.rows, .cols = o.k};
    call.in[1] = {.data = w.as<void>(),
                  .encoding = o.encoding,
                  .scales = scales.as<float>(),
                  .rows = o.n,
                  .cols = o.k};
    if (o.has_bias) {
      call.in[2] = {.data = bias.as<void>(),
                    .encoding = o.bias_encoding,
                    .rows = 1,
                    .cols = o.n};
    }
    call.out = out.as<float>();
    std::fill_n(call.out, o.rows * o.n, NAN);
    if (o.has_residual) {
      call.in[3] = {.data = residual.as<void>(), .rows = o.rows, .cols = o.n};
      if (o.residual_is_out) {
        std::memcpy(call.out, residual.as<void>(), o.rows * o.n * 4);
        call.in[3].data = call.out;
      }
    }
    call.out_rows = o.rows;
    call.out_cols = o.n;
    ThreadPool pool(o.threads);
    call.pool = &pool;
    const int64_t bytes = LinearScratchBytes({.max_rows = o.rows,
                                              .in_cols = o.k,
                                              .out_cols = o.n,
                                              .weight_encoding = o.encoding,
                                              .num_threads = o.threads});
    EXPECT_EQ(bytes % 64, 0);
    const GuardedBytes scratch(bytes);
    std::memset(scratch.as<void>(), 0xff, bytes);  // NaN
    call.scratch = scratch.as<void>();
    CpuLinear(call);
  }

  // The result in double, and a bound of what float may differ from it: each of
  // at most k + 4 roundings errs by 2^-24 of a sum of magnitudes.
  double Expected(int64_t m, int64_t n, double* bound) const {
    double sum = 0, magnitude = 0;
    for (int64_t i = 0; i < o.k; ++i) {
      const double product = x_values[m * o.k + i] * w_values[n * o.k + i];
      sum += product;
      magnitude += std::abs(product);
    }
    if (o.encoding == Encoding::kI8Row) {
      sum *= scale_values[n];
      magnitude *= std::abs(scale_values[n]);
    }
    if (o.has_bias) {
      sum += bias_values[n];
      magnitude += std::abs(bias_values[n]);
    }
    if (o.has_residual) {
      sum += residual_values[m * o.n + n];
      magnitude += std::abs(residual_values[m * o.n + n]);
    }
    *bound = std::ldexp(magnitude * static_cast<double>(o.k + 4), -24);
    return sum;
  }

  void ExpectCorrect() const {
    for (int64_t m = 0; m < o.rows; ++m) {
      for (int64_t n = 0; n < o.n; ++n) {
        double bound;
        const double expected = Expected(m, n, &bound);
        const float found = out.as<float>()[m * o.n + n];
        ASSERT_LE(std::abs(found - expected), bound)
            << "out[" << m << ", " << n << "] is " << found << ", not "
            << expected << " within " << bound << "; " << o.Text();
      }
    }
  }

  Options o;
  GuardedBytes x, w, scales, bias, residual, out;
  std::vector<double> x_values, w_values, scale_values, bias_values,
      residual_values;
};

void RunAndCheck(const Options& options) {
  Case c(options);
  c.Run();
  c.ExpectCorrect();
}

// Each test runs with every instruction set that this machine has.
class CpuLinearTest : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override {
    hwy::SetSupportedTargetsForTest(GetParam());
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  void TearDown() override {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

std::vector<int64_t> Targets() {
  std::vector<int64_t> targets;
  // One bit each, better ones lower; the fallback is the highest.
  const int64_t supported = hwy::SupportedTargets();
  for (int bit = 0; bit < 63; ++bit) {
    const int64_t target = int64_t{1} << bit;
    if ((supported & target) != 0) targets.push_back(target);
  }
  return targets;
}

INSTANTIATE_TEST_SUITE_P(AllTargets, CpuLinearTest,
                         testing::ValuesIn(Targets()),
                         [](const testing::TestParamInfo<int64_t>& info) {
                           return std::string(hwy::TargetName(info.param));
                         });

TEST_P(CpuLinearTest, AgreesWithSumsInDoubleForOddShapes) {
  uint32_t seed = 0;
  for (const Encoding encoding : kEncodings) {
    for (const int64_t k : {1, 2, 7, 8, 10, 15, 16, 31, 33, 77, 172, 576}) {
      for (const int64_t n : {1, 3, 4, 6, 17, 131}) {
        for (const int64_t rows : {1, 2, 3, 4, 5, 7, 8, 13}) {
          ++seed;
          RunAndCheck({.rows = rows,
                       .k = k,
                       .n = n,
                       .encoding = encoding,
                       .has_bias = seed % 2 == 0,
                       .bias_encoding = kEncodings[seed / 2 % 3],
                       .has_residual = seed % 5 < 2,
                       .threads = static_cast<int>(1 + seed % 2),
                       .seed = seed});
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

// More than a block of k, a chunk of x, or both; odd everywhere.
TEST_P(CpuLinearTest, AgreesWithSumsInDoubleWhenBlocked) {
  struct Shape {
    int64_t rows, k, n;
  };
  uint32_t seed = 100;
  for (const Encoding encoding : kEncodings) {
    for (const Shape s :
         {Shape{5, 1537, 43}, Shape{11, 769, 26}, Shape{47, 771, 37},
          Shape{250, 601, 19}, Shape{19, 9001, 21}, Shape{2, 3001, 18}}) {
      ++seed;
      RunAndCheck({.rows = s.rows,
                   .k = s.k,
                   .n = s.n,
                   .encoding = encoding,
                   .has_bias = true,
                   .bias_encoding = Encoding::kBF16,
                   .has_residual = true,
                   .threads = 3,
                   .seed = seed});
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(CpuLinearTest, RowHasTheSameBitsInEveryBatchOnAnyThreads) {
  for (const Encoding encoding : kEncodings) {
    for (const int64_t k : {77, 576, 1609}) {
      constexpr int64_t kRows = 70, kN = 53;
      Options options = {.rows = kRows,
                         .k = k,
                         .n = kN,
                         .encoding = encoding,
                         .has_bias = true,
                         .has_residual = true};
      Case all(options);
      all.Run();
      for (const int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 16, 33}) {
        options.rows = rows;
        options.threads = static_cast<int>(1 + rows % 4);
        Case some(options);
        // The last rows of the large batch become the first of the small one.
        const int64_t first = kRows - rows;
        std::memcpy(some.x.as<float>(), all.x.as<float>() + first * k,
                    rows * k * 4);
        std::memcpy(some.residual.as<float>(),
                    all.residual.as<float>() + first * kN, rows * kN * 4);
        std::memcpy(some.w.as<char>(), all.w.as<char>(),
                    BytesOf(encoding, kN * k));
        std::memcpy(some.scales.as<float>(), all.scales.as<float>(), kN * 4);
        std::memcpy(some.bias.as<float>(), all.bias.as<float>(), kN * 4);
        some.Run();
        EXPECT_EQ(std::memcmp(some.out.as<float>(),
                              all.out.as<float>() + first * kN, rows * kN * 4),
                  0)
            << options.Text();
      }
    }
  }
}

TEST_P(CpuLinearTest, ResidualMayBeTheOutput) {
  for (const int64_t rows : {1, 3, 9, 40}) {
    RunAndCheck({.rows = rows,
                 .k = 172,
                 .n = 77,
                 .encoding = Encoding::kBF16,
                 .has_residual = true,
                 .residual_is_out = true,
                 .threads = 2});
  }
}

TEST_P(CpuLinearTest, EmptyOperandsAreLegal) {
  for (const Encoding encoding : kEncodings) {
    for (const int64_t rows : {0, 1, 5, 20}) {
      for (const int64_t n : {0, 1, 6, 13}) {
        RunAndCheck({.rows = rows,
                     .k = 0,
                     .n = n,
                     .encoding = encoding,
                     .has_bias = true,
                     .bias_encoding = Encoding::kF16,
                     .has_residual = true,
                     .threads = 2});
      }
      RunAndCheck({.rows = rows, .k = 10, .n = 0, .encoding = encoding});
    }
    RunAndCheck({.rows = 0, .k = 10, .n = 6, .encoding = encoding});
  }
}

TEST_P(CpuLinearTest, InfinityInOneRowOfWStaysThere) {
  for (const int64_t rows : {1, 4, 30}) {
    Case c({.rows = rows, .k = 21, .n = 9, .encoding = Encoding::kBF16});
    constexpr int64_t kBad = 5;
    std::fill_n(c.w.as<uint16_t>() + kBad * 21, 21, FloatToBF16(HUGE_VALF));
    c.Run();
    for (int64_t m = 0; m < rows; ++m) {
      for (int64_t n = 0; n < 9; ++n) {
        EXPECT_EQ(std::isfinite(c.out.as<float>()[m * 9 + n]), n != kBad)
            << "out[" << m << ", " << n << "], rows " << rows;
      }
    }
  }
}

// One product has no rounding but the last, so each stored value must come back
// exactly, subnormal numbers included.
TEST_P(CpuLinearTest, WidensEveryValueExactly) {
  for (const Encoding encoding :
       {Encoding::kF16, Encoding::kBF16, Encoding::kI8Row}) {
    const int64_t n = encoding == Encoding::kI8Row ? 256 : 65536;
    Case c({.rows = 1, .k = 1, .n = n, .encoding = encoding});
    c.x.as<float>()[0] = 1.0f;
    std::fill_n(c.scales.as<float>(), n, 1.0f);
    for (int64_t i = 0; i < n; ++i) {
      if (encoding == Encoding::kI8Row) {
        c.w.as<int8_t>()[i] = static_cast<int8_t>(i - 128);
      } else {
        c.w.as<uint16_t>()[i] = static_cast<uint16_t>(i);
      }
    }
    c.Run();
    for (int64_t i = 0; i < n; ++i) {
      const uint16_t bits = static_cast<uint16_t>(i);
      const float expected = encoding == Encoding::kI8Row ? i - 128.0f
                             : encoding == Encoding::kF16 ? F16ToFloat(bits)
                                                          : BF16ToFloat(bits);
      const float found = c.out.as<float>()[i];
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(found)) << i;
      } else {
        ASSERT_EQ(found, expected) << i;
      }
    }
  }
}

TEST_P(CpuLinearTest, ScratchIsSmallWhateverTheWeight) {
  CpuShape shape = {.max_rows = 512,
                    .in_cols = 1536,
                    .out_cols = 576,
                    .weight_encoding = Encoding::kBF16,
                    .num_threads = 2};
  const int64_t bytes = LinearScratchBytes(shape);
  EXPECT_LT(bytes, 2 << 20);
  shape.out_cols = 1 << 30;
  EXPECT_EQ(LinearScratchBytes(shape), bytes);
  shape.in_cols = 28672;
  EXPECT_LT(LinearScratchBytes(shape), 2 << 20);
}

// A step plans scratch for its most rows and then runs with any number of them.
TEST_P(CpuLinearTest, ScratchOfTheMostRowsServesFewer) {
  constexpr int64_t kMostRows = 512, kK = 1536, kN = 5;
  const int64_t planned = LinearScratchBytes(
      {.max_rows = kMostRows, .in_cols = kK, .out_cols = kN});
  const GuardedBytes scratch(planned);
  const std::vector<float> x(kMostRows * kK), w(kN * kK);
  std::vector<float> out(kMostRows * kN);
  for (const int64_t rows : {1, 41, 169, 170, 171, 172, 340, 341, 511, 512}) {
    CpuCall call;
    call.in[0] = {.data = x.data(), .rows = rows, .cols = kK};
    call.in[1] = {.data = w.data(), .rows = kN, .cols = kK};
    call.out = out.data();
    call.out_rows = rows;
    call.out_cols = kN;
    call.scratch = scratch.as<void>();
    CpuLinear(call);  // Beyond the planned bytes lies a page without access.
    EXPECT_LE(
        LinearScratchBytes({.max_rows = rows, .in_cols = kK, .out_cols = kN}),
        planned)
        << rows;
  }
}

}  // namespace
}  // namespace deepslice
