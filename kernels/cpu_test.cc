// The CPU kernels without state against the references, over odd shapes.
#include "kernels/cpu.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/kernel_testing.h"
#include "kernels/reference.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

constexpr int64_t kRows[] = {0, 1, 3, 17};
constexpr int64_t kCols[] = {10, 77, 576};
constexpr Encoding kFloats[] = {Encoding::kF32, Encoding::kF16,
                                Encoding::kBF16};
// One unit in the last place of a float, as a part of the value.
constexpr double kUlp = 1.2e-7;

Attr IntAttr(int64_t i) {
  Attr a;
  a.i = i;
  return a;
}
Attr FloatAttr(double f) {
  Attr a;
  a.f = f;
  return a;
}

struct Tolerance {
  double relative;
  double absolute;
};

// Runs the kernel with 1 and 3 threads, into a buffer of its own and, when
// `in_place`, over the first operand.
void ExpectValues(OpKind kind, const std::vector<const TestOperand*>& operands,
                  const std::vector<Attr>& attrs, const RefTensor& want,
                  Tolerance tolerance, const std::string& what, uint32_t seed,
                  bool in_place) {
  static auto* const one = new ThreadPool(1);
  static auto* const three = new ThreadPool(3);
  for (ThreadPool* pool : {one, three}) {
    const int threads = pool->num_threads();
    CpuShape shape;
    shape.max_rows = operands[0]->rows();
    shape.in_cols = operands[0]->cols();
    shape.out_cols = want.cols();
    shape.attrs = attrs.data();
    shape.num_threads = threads;
    TestScratch scratch(CpuScratchBytes(kind, shape));
    CpuCall call;
    for (size_t i = 0; i < operands.size(); ++i) {
      if (operands[i] != nullptr) call.in[i] = operands[i]->cpu();
    }
    GuardedOutput out(static_cast<int64_t>(want.data.size()));
    call.out = out.data();
    call.out_rows = want.rows();
    call.out_cols = want.cols();
    call.attrs = attrs.data();
    call.pool = pool;
    call.scratch = scratch.data();
    const std::string name = absl::StrCat(GetOp(kind).spelling, " ", what, ", ",
                                          threads, " threads");
    FindCpuKernel(kind)(call);
    EXPECT_TRUE(Close(out.values(), want, tolerance.relative,
                      tolerance.absolute, name, seed));
    EXPECT_TRUE(out.intact()) << name << ": wrote beyond its output";
    EXPECT_TRUE(scratch.intact()) << name << ": wrote beyond its scratch";
    if (!in_place) continue;
    const std::vector<float> before = out.values();
    std::copy_n(call.in[0].f32(), before.size(), out.data());
    call.in[0].data = out.data();
    FindCpuKernel(kind)(call);
    EXPECT_EQ(out.values(), before) << name << ": differs in place";
  }
}

// The same with every instruction set, against the reference.
void ExpectSame(OpKind kind, const std::vector<const TestOperand*>& operands,
                const std::vector<Attr>& attrs, Tolerance tolerance,
                const std::string& what, uint32_t seed, bool in_place) {
  RefCall ref;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i] != nullptr) ref.operands[i] = &operands[i]->truth();
  }
  ref.attrs = attrs.data();
  RefTensor want;
  DS_ASSERT_OK(RunReference(kind, ref, &want));
  ForEachTarget([&](const std::string& target) {
    ExpectValues(kind, operands, attrs, want, tolerance,
                 absl::StrCat(what, ", ", target), seed, in_place);
  });
}

std::string Shape(int64_t rows, int64_t cols, Encoding e) {
  return absl::StrCat("[", rows, ", ", cols, "] ",
                      std::string(EncodingName(e)));
}

// Calls f(rows, cols, encoding, rng, seed, name) for all combinations.
template <typename F>
void ForShapes(F f) {
  uint32_t seed = 1;
  for (int64_t rows : kRows) {
    for (int64_t cols : kCols) {
      for (Encoding e : kFloats) {
        std::mt19937 rng(++seed);
        f(rows, cols, e, &rng, seed, Shape(rows, cols, e));
      }
    }
  }
}

TEST(CpuEmbed, ReadsEveryTable) {
  uint32_t seed = 100;
  for (int64_t tokens : kRows) {
    for (int64_t cols : kCols) {
      for (Encoding e : {Encoding::kF32, Encoding::kF16, Encoding::kBF16,
                         Encoding::kI8Row}) {
        std::mt19937 rng(++seed);
        // This rank has rows 40..84 of a vocabulary of 131.
        const TestOperand table = TestOperand::Random(&rng, 45, cols, e);
        std::vector<int32_t> ids(tokens);
        for (int32_t& id : ids) id = static_cast<int32_t>(rng() % 131);
        if (tokens > 2) ids = std::vector<int32_t>(tokens, 40);
        if (tokens > 2) ids[1] = 84, ids[2] = 85;
        const TestOperand id_operand = TestOperand::Ints(ids);
        ExpectSame(OpKind::kEmbed, {&id_operand, &table}, {IntAttr(40)},
                   {kUlp, 0}, Shape(tokens, cols, e), seed, false);
      }
    }
  }
}

TEST(CpuAddBias, MatchesReference) {
  ForShapes([](int64_t rows, int64_t cols, Encoding e, std::mt19937* rng,
               uint32_t seed, const std::string& name) {
    const TestOperand x = TestOperand::Random(rng, rows, cols);
    const TestOperand bias = TestOperand::Random(rng, -1, cols, e);
    ExpectSame(OpKind::kAddBias, {&x, &bias}, {}, {kUlp, 1e-12}, name, seed,
               true);
  });
}

TEST(CpuAdd, MatchesReference) {
  ForShapes([](int64_t rows, int64_t cols, Encoding e, std::mt19937* rng,
               uint32_t seed, const std::string& name) {
    const TestOperand x = TestOperand::Random(rng, rows, cols);
    const TestOperand y = TestOperand::Random(rng, rows, cols);
    const TestOperand bias = TestOperand::Random(rng, -1, cols, e);
    ExpectSame(OpKind::kAdd, {&x, &y, nullptr}, {}, {kUlp, 0}, name, seed,
               true);
    // Two roundings, each of a value below 16.
    ExpectSame(OpKind::kAdd, {&x, &y, &bias}, {}, {kUlp, 16 * kUlp},
               absl::StrCat(name, " with bias"), seed, true);
  });
}

TEST(CpuMul, MatchesReference) {
  ForShapes([](int64_t rows, int64_t cols, Encoding, std::mt19937* rng,
               uint32_t seed, const std::string& name) {
    const TestOperand x = TestOperand::Random(rng, rows, cols);
    const TestOperand y = TestOperand::Random(rng, rows, cols);
    ExpectSame(OpKind::kMul, {&x, &y}, {}, {kUlp, 0}, name, seed, true);
  });
}

TEST(CpuRmsNorm, MatchesReference) {
  ForShapes([](int64_t rows, int64_t cols, Encoding e, std::mt19937* rng,
               uint32_t seed, const std::string& name) {
    // Large values: 1000^2 * cols must not lose digits.
    const TestOperand x =
        TestOperand::Random(rng, rows, cols, Encoding::kF32, 1000);
    const TestOperand scale = TestOperand::Random(rng, -1, cols, e);
    ExpectSame(OpKind::kRmsNorm, {&x, &scale}, {FloatAttr(1e-5)}, {4 * kUlp, 0},
               name, seed, true);
  });
}

TEST(CpuRmsNorm, EpsDecidesWhenTheRowIsZero) {
  const TestOperand x = TestOperand::Floats(1, 3, {0, 0, 0});
  std::mt19937 rng(5);
  const TestOperand scale = TestOperand::Random(&rng, -1, 3);
  ExpectSame(OpKind::kRmsNorm, {&x, &scale}, {FloatAttr(1e-6)}, {0, 0}, "zero",
             5, true);
}

TEST(CpuHeadNorm, MatchesReference) {
  ForShapes([](int64_t rows, int64_t cols, Encoding e, std::mt19937* rng,
               uint32_t seed, const std::string& name) {
    const int64_t heads = 3;
    const TestOperand x = TestOperand::Random(rng, rows, heads * cols);
    for (const int64_t width : {cols, heads * cols}) {
      const TestOperand scale = TestOperand::Random(rng, -1, width, e);
      const TestOperand bias = TestOperand::Random(rng, -1, width, e);
      for (const NormKind kind : {NormKind::kRms, NormKind::kLayer}) {
        const std::vector<Attr> attrs = {IntAttr(static_cast<int64_t>(kind)),
                                         IntAttr(heads), IntAttr(cols),
                                         FloatAttr(1e-5)};
        // A norm of one element is its sign, or 0.
        const double error = cols == 1 ? 1e-4 : 4 * kUlp;
        ExpectSame(OpKind::kHeadNorm, {&x, &scale, nullptr}, attrs,
                   {error, error}, name, seed, true);
        ExpectSame(OpKind::kHeadNorm, {&x, &scale, &bias}, attrs,
                   {error, 4 * error}, absl::StrCat(name, " with bias"), seed,
                   true);
      }
    }
  });
}

TEST(CpuRmsNormOver, OfAllPartsIsTheNormOfTheWhole) {
  ForShapes([](int64_t rows, int64_t cols, Encoding e, std::mt19937* rng,
               uint32_t seed, const std::string& name) {
    const TestOperand x = TestOperand::Random(rng, rows, cols);
    const TestOperand scale = TestOperand::Random(rng, -1, cols, e);
    const int64_t begin = cols / 3, end = cols - cols / 4;
    ExpectSame(OpKind::kSumSquares, {&x}, {IntAttr(begin), IntAttr(end)},
               {2 * kUlp, 0}, name, seed, false);
    std::vector<float> sums(rows, 3.5f);
    const TestOperand s = TestOperand::Floats(rows, 1, sums);
    ExpectSame(OpKind::kRmsNormOver, {&x, &s, &scale},
               {IntAttr(2 * cols), FloatAttr(1e-5)}, {4 * kUlp, 0}, name, seed,
               true);
  });
}

TEST(CpuHeadLinear, MatchesReference) {
  ForShapes([](int64_t rows, int64_t cols, Encoding e, std::mt19937* rng,
               uint32_t seed, const std::string& name) {
    const int64_t heads = 3, to = 7;
    const double error = 2e-6 * std::sqrt(static_cast<double>(cols));
    const TestOperand x = TestOperand::Random(rng, rows, heads * cols);
    const TestOperand w = TestOperand::Random(rng, heads * to, cols, e);
    ExpectSame(OpKind::kHeadLinear, {&x, &w}, {IntAttr(heads), IntAttr(0)},
               {error, error}, name, seed, false);
    const TestOperand turned = TestOperand::Random(rng, heads * cols, to, e);
    ExpectSame(OpKind::kHeadLinear, {&x, &turned}, {IntAttr(heads), IntAttr(1)},
               {error, error}, absl::StrCat(name, " transposed"), seed, false);
  });
}

TEST(CpuConcatHeads, MatchesReference) {
  ForShapes([](int64_t rows, int64_t cols, Encoding, std::mt19937* rng,
               uint32_t seed, const std::string& name) {
    const TestOperand a = TestOperand::Random(rng, rows, 3 * cols);
    const TestOperand b = TestOperand::Random(rng, rows, 3 * 5);
    ExpectSame(OpKind::kConcatHeads, {&a, &b}, {IntAttr(3)}, {0, 0}, name, seed,
               false);
  });
}

TEST(CpuScaleAndSoftcap, MatchReference) {
  ForShapes([](int64_t rows, int64_t cols, Encoding, std::mt19937* rng,
               uint32_t seed, const std::string& name) {
    const TestOperand x =
        TestOperand::Random(rng, rows, cols, Encoding::kF32, 20);
    ExpectSame(OpKind::kScale, {&x}, {FloatAttr(0.22)}, {2 * kUlp, 0}, name,
               seed, true);
    ExpectSame(OpKind::kSoftcap, {&x}, {FloatAttr(30)}, {2e-6, 1e-12}, name,
               seed, true);
  });
}

TEST(CpuLayerNorm, MatchesReference) {
  ForShapes([](int64_t rows, int64_t cols, Encoding e, std::mt19937* rng,
               uint32_t seed, const std::string& name) {
    const TestOperand x = TestOperand::Random(rng, rows, cols);
    const TestOperand scale = TestOperand::Random(rng, -1, cols, e);
    // Another type than scale's.
    const Encoding other =
        e == Encoding::kF32 ? Encoding::kBF16 : Encoding::kF32;
    const TestOperand bias = TestOperand::Random(rng, -1, cols, other);
    ExpectSame(OpKind::kLayerNorm, {&x, &scale, nullptr}, {FloatAttr(1e-5)},
               {4 * kUlp, 4 * kUlp}, name, seed, true);
    ExpectSame(OpKind::kLayerNorm, {&x, &scale, &bias}, {FloatAttr(1e-5)},
               {4 * kUlp, 16 * kUlp}, absl::StrCat(name, " with bias"), seed,
               true);
  });
}

TEST(CpuLayerNorm, KeepsASmallVarianceAroundALargeMean) {
  std::vector<float> values(577);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = 4096.0f + 0.25f * static_cast<float>(i % 3);
  }
  const TestOperand x = TestOperand::Floats(1, 577, values);
  std::mt19937 rng(6);
  const TestOperand scale = TestOperand::Random(&rng, -1, 577);
  // The mean is rounded to float: half of 2^-11 against a deviation of 0.2.
  ExpectSame(OpKind::kLayerNorm, {&x, &scale, nullptr}, {FloatAttr(1e-6)},
             {1e-5, 4e-3}, "large mean", 6, true);
}

struct RopeCase {
  int64_t heads, head_dim, rotary_dim;
};

TEST(CpuRope, MatchesReference) {
  uint32_t seed = 200;
  for (RopeCase c : {RopeCase{6, 10, 10},
                     {3, 64, 64},
                     {2, 80, 32},
                     {1, 24, 6},
                     {5, 16, 0},
                     {0, 64, 64}}) {
    for (RopeStyle style : {RopeStyle::kHalf, RopeStyle::kInterleaved}) {
      for (int64_t tokens : kRows) {
        for (Encoding e : kFloats) {
          std::mt19937 rng(++seed);
          const TestOperand x =
              TestOperand::Random(&rng, tokens, c.heads * c.head_dim);
          std::vector<int32_t> p(tokens);
          for (int32_t& position : p) position = rng() % 300;
          const TestOperand positions = TestOperand::Ints(p);
          const TestOperand freqs =
              TestOperand::Random(&rng, -1, c.rotary_dim / 2, e, 0.3f);
          // The angle, up to 300, is rounded to float: 1.5e-5 radians.
          ExpectSame(
              OpKind::kRope, {&x, &positions, &freqs},
              {IntAttr(c.heads), IntAttr(c.head_dim), IntAttr(c.rotary_dim),
               IntAttr(static_cast<int64_t>(style)), FloatAttr(1.5)},
              {0, 3e-4},
              absl::StrCat(c.heads, " heads of ", c.head_dim, ", ", tokens,
                           " tokens"),
              seed, true);
        }
      }
    }
  }
}

TEST(CpuRope, StretchesByTheLengthOfThePrompt) {
  // Sequences of prompts 4, 12 and 9, around long_from 9.
  const TestOperand horizons = TestOperand::Ints({4, 12, 9});
  const TestOperand slots = TestOperand::Ints({0, 0, 1, 1, 2, 2});
  const TestOperand positions = TestOperand::Ints({3, 11, 0, 12, 8, 9});
  std::mt19937 rng(11);
  for (const int64_t rotary : {2, 4, 10, 34}) {
    const TestOperand x =
        TestOperand::Random(&rng, 6, 3 * 36, Encoding::kF32, 1);
    const TestOperand freqs =
        TestOperand::Random(&rng, -1, rotary / 2, Encoding::kF32, 0.3f);
    ExpectSame(OpKind::kRope,
               {&x, &positions, &freqs, nullptr, &slots, &horizons},
               {IntAttr(3), IntAttr(36), IntAttr(rotary), IntAttr(0),
                FloatAttr(1), IntAttr(9), FloatAttr(2.5)},
               {0, 1e-5}, absl::StrCat("rotary ", rotary), 11, false);
  }
}

TEST(CpuRope, StaysAccurateAtLongContexts) {
  // x = (1, 0): the output is the cosine and the sine of the float angle.
  const std::vector<float> freqs = {1.0f, 0.77f, 0.1f, 1e-4f, 0.5f};
  std::mt19937 rng(7);
  ThreadPool pool(1);
  for (int64_t i = 0; i < 3000; ++i) {
    const int32_t position =
        i < 10 ? (1 << 17) - static_cast<int32_t>(i)
               : static_cast<int32_t>(rng() % ((1 << 17) + 1));
    std::vector<float> x(10, 0.0f);
    std::fill_n(x.begin(), 5, 1.0f);
    const std::vector<Attr> attrs = {IntAttr(1), IntAttr(10), IntAttr(10),
                                     IntAttr(0), FloatAttr(1)};
    CpuShape shape;
    shape.attrs = attrs.data();
    TestScratch scratch(CpuScratchBytes(OpKind::kRope, shape));
    CpuCall call;
    call.in[0] = {x.data(), Encoding::kF32, nullptr, 1, 10};
    call.in[1] = {&position, Encoding::kF32, nullptr, 1, 1};
    call.in[2] = {freqs.data(), Encoding::kF32, nullptr, 1, 5};
    call.out = x.data();
    call.out_rows = 1;
    call.out_cols = 10;
    call.attrs = attrs.data();
    call.pool = &pool;
    call.scratch = scratch.data();
    CpuRope(call);
    for (int64_t f = 0; f < 5; ++f) {
      const float angle = static_cast<float>(position) * freqs[f];
      ASSERT_NEAR(x[f], std::cos(static_cast<double>(angle)), 2e-7)
          << "position " << position << ", freq " << freqs[f];
      ASSERT_NEAR(x[f + 5], std::sin(static_cast<double>(angle)), 2e-7)
          << "position " << position << ", freq " << freqs[f];
    }
  }
}

constexpr Act kActs[] = {Act::kSilu, Act::kGelu,      Act::kGeluTanh,
                         Act::kRelu, Act::kQuickGelu, Act::kTanh,
                         Act::kRelu2};

TEST(CpuActivation, MatchesReference) {
  for (Act act : kActs) {
    ForShapes([act](int64_t rows, int64_t cols, Encoding, std::mt19937* rng,
                    uint32_t seed, const std::string& name) {
      const TestOperand x =
          TestOperand::Random(rng, rows, cols, Encoding::kF32, 3);
      ExpectSame(OpKind::kActivation, {&x},
                 {IntAttr(static_cast<int64_t>(act))}, {2e-6, 1e-12},
                 absl::StrCat(static_cast<int>(act), " ", name), seed, true);
    });
  }
}

TEST(CpuActivation, IsAccurateFromTailToTail) {
  std::vector<float> values;
  for (int i = -8700; i <= 8700; ++i) {
    values.push_back(static_cast<float>(i) * 0.01f);
  }
  const TestOperand x =
      TestOperand::Floats(1, static_cast<int64_t>(values.size()), values);
  for (Act act : kActs) {
    // Relative far into the tails: exp(-x) of a rounded x is off by |x| ulps.
    // Absolute where e^88 is taken for more.
    ExpectSame(OpKind::kActivation, {&x}, {IntAttr(static_cast<int64_t>(act))},
               {3e-5, 1e-36}, absl::StrCat("act ", static_cast<int>(act)), 0,
               false);
  }
}

TEST(CpuActivation, InfinitiesAndNanStayVisible) {
  const float inf = HUGE_VALF;
  ThreadPool pool(1);
  for (Act act : kActs) {
    const std::vector<float> x = {inf, 300.0f, -300.0f, -1e30f, std::nanf("")};
    std::vector<float> y(5);
    const Attr attr = IntAttr(static_cast<int64_t>(act));
    CpuCall call;
    call.in[0] = {x.data(), Encoding::kF32, nullptr, 1, 5};
    call.out = y.data();
    call.out_rows = 1;
    call.out_cols = 5;
    call.attrs = &attr;
    call.pool = &pool;
    CpuActivation(call);
    const bool tanh = act == Act::kTanh, squared = act == Act::kRelu2;
    const float left = tanh ? -1 : 0;
    EXPECT_EQ(y[0], tanh ? 1 : inf) << static_cast<int>(act);
    EXPECT_EQ(y[1], tanh      ? 1
                    : squared ? 90000.0f
                              : 300.0f)
        << static_cast<int>(act);
    EXPECT_NEAR(y[2], left, 1e-30) << static_cast<int>(act);
    EXPECT_NEAR(y[3], left, 1e-7) << static_cast<int>(act);
    EXPECT_TRUE(std::isnan(y[4])) << static_cast<int>(act) << ": " << y[4];
  }
}

TEST(CpuGatedAct, MatchesReference) {
  for (Act act : kActs) {
    ForShapes([act](int64_t rows, int64_t cols, Encoding, std::mt19937* rng,
                    uint32_t seed, const std::string& name) {
      const TestOperand x =
          TestOperand::Random(rng, rows, 2 * cols, Encoding::kF32, 3);
      ExpectSame(OpKind::kGatedAct, {&x}, {IntAttr(static_cast<int64_t>(act))},
                 {2e-6, 1e-11}, name, seed, false);
    });
  }
}

TEST(CpuGatherRows, MatchesReference) {
  uint32_t seed = 300;
  for (int64_t wanted : kRows) {
    for (int64_t cols : kCols) {
      std::mt19937 rng(++seed);
      const TestOperand x = TestOperand::Random(&rng, 13, cols);
      std::vector<int32_t> r(wanted);
      for (int32_t& row : r) row = static_cast<int32_t>(rng() % 13);
      const TestOperand rows = TestOperand::Ints(r);
      ExpectSame(OpKind::kGatherRows, {&x, &rows}, {}, {0, 0},
                 absl::StrCat(wanted, " of ", cols), seed, false);
    }
  }
}

TEST(CpuCheck, NamesTheOperandAndWhatIsAllowed) {
  const Encoding good[] = {Encoding::kF32, Encoding::kI8Row};
  DS_ASSERT_OK(CpuCheck(OpKind::kEmbed, good, 2));
  const Encoding group[] = {Encoding::kF32, Encoding::kI4Group};
  DS_EXPECT_ERROR(CpuCheck(OpKind::kEmbed, group, 2), kUnimplemented,
                  "embed: table: i4_group; the CPU kernel takes f32, f16, bf16 "
                  "or i8_row");
  const Encoding scale[] = {Encoding::kF32, Encoding::kI8Row};
  DS_EXPECT_ERROR(CpuCheck(OpKind::kRmsNorm, scale, 2), kUnimplemented,
                  "rms_norm: scale: i8_row; the CPU kernel takes f32, f16 or");
  const Encoding half[] = {Encoding::kF16};
  DS_EXPECT_ERROR(CpuCheck(OpKind::kActivation, half, 1), kUnimplemented,
                  "activation: x: f16; the CPU kernel takes f32");
  DS_EXPECT_ERROR(CpuCheck(OpKind::kAllReduce, half, 1), kUnimplemented,
                  "all_reduce: has no CPU kernel");
}

TEST(CpuCheck, TakesTheEncodingOfAStateLast) {
  std::vector<Encoding> e(operand::QkvAttention::kCount, Encoding::kF32);
  e.push_back(Encoding::kBF16);
  DS_ASSERT_OK(CpuCheck(OpKind::kQkvAttention, e.data(), e.size()));
  e.back() = Encoding::kI8Row;
  DS_EXPECT_ERROR(CpuCheck(OpKind::kQkvAttention, e.data(), e.size()),
                  kUnimplemented, "qkv_attention: state: i8_row");
  DS_EXPECT_ERROR(CpuCheck(OpKind::kMul, e.data(), 3), kUnimplemented,
                  "mul: 3 operands; takes 2");
}

TEST(FindCpuKernel, KnowsEveryOpButCollectives) {
  for (const OpDef& op : AllOps()) {
    EXPECT_EQ(FindCpuKernel(op.kind) == nullptr,
              op.effect == Effect::kCollective)
        << std::string(op.spelling);
  }
}

TEST(CpuTargetName, IsKnown) {
  EXPECT_NE(std::string(CpuTargetName()), "Unknown");
}

}  // namespace
}  // namespace deepslice
