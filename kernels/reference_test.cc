// The references against values computed by hand.
#include "kernels/reference.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

Attr I(int64_t i) {
  Attr a;
  a.i = i;
  return a;
}
Attr F(double f) {
  Attr a;
  a.f = f;
  return a;
}

// Operands in table order; nullptr is an absent one.
absl::Status RunOp(OpKind kind, const std::vector<const RefTensor*>& operands,
                   const std::vector<Attr>& attrs, RefTensor* out,
                   RefState* state = nullptr) {
  RefCall call;
  for (size_t i = 0; i < operands.size(); ++i) call.operands[i] = operands[i];
  call.attrs = attrs.data();
  call.state = state;
  return RunReference(kind, call, out);
}

void ExpectTensor(const RefTensor& got, const std::vector<int64_t>& shape,
                  const std::vector<double>& want, double off = 1e-12) {
  EXPECT_EQ(got.shape, shape);
  ASSERT_EQ(got.data.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(got.data[i], want[i], off) << "index " << i;
  }
}

TEST(RefEmbed, GivesZerosForRowsOfOtherRanks) {
  const RefTensor ids{{4}, {5, 3, 6, 4}};
  const RefTensor table{{2, 3}, {1, 2, 3, 4, 5, 6}};  // rows 4 and 5
  RefTensor y;
  DS_ASSERT_OK(RunOp(OpKind::kEmbed, {&ids, &table}, {I(4)}, &y));
  ExpectTensor(y, {4, 3}, {4, 5, 6, 0, 0, 0, 0, 0, 0, 1, 2, 3});
}

TEST(RefLinear, AddsBiasAndResidual) {
  const RefTensor x{{2, 3}, {1, 2, 3, -1, 0, 1}};
  const RefTensor w{{2, 3}, {1, 0, 2, 3, 1, -1}};
  const RefTensor bias{{2}, {10, 20}};
  const RefTensor residual{{2, 2}, {100, 200, 300, 400}};
  RefTensor y;
  DS_ASSERT_OK(RunOp(OpKind::kLinear, {&x, &w, nullptr, nullptr}, {}, &y));
  ExpectTensor(y, {2, 2}, {7, 2, 1, -4});
  DS_ASSERT_OK(RunOp(OpKind::kLinear, {&x, &w, &bias, &residual}, {}, &y));
  ExpectTensor(y, {2, 2}, {117, 222, 311, 416});
}

TEST(RefLinear, RejectsAWeightOfAnotherDepth) {
  const RefTensor x{{2, 3}, {1, 2, 3, 4, 5, 6}};
  const RefTensor w{{2, 2}, {1, 2, 3, 4}};
  RefTensor y;
  DS_EXPECT_ERROR(RunOp(OpKind::kLinear, {&x, &w, nullptr, nullptr}, {}, &y),
                  kInvalidArgument, "linear: w: shape [2, 2]; must be [*, 3]");
}

TEST(RefLinear, RejectsDataThatDoesNotFillItsShape) {
  const RefTensor x{{2, 3}, {1, 2, 3, 4, 5}};
  const RefTensor w{{1, 3}, {1, 2, 3}};
  RefTensor y;
  DS_EXPECT_ERROR(RunOp(OpKind::kLinear, {&x, &w, nullptr, nullptr}, {}, &y),
                  kInvalidArgument, "linear: x: 5 values; its shape");
}

TEST(RefAddBias, AddsToEachRow) {
  const RefTensor x{{2, 3}, {1, 2, 3, 4, 5, 6}};
  const RefTensor bias{{3}, {10, 20, 30}};
  RefTensor y;
  DS_ASSERT_OK(RunOp(OpKind::kAddBias, {&x, &bias}, {}, &y));
  ExpectTensor(y, {2, 3}, {11, 22, 33, 14, 25, 36});
  const RefTensor wrong{{2}, {1, 2}};
  DS_EXPECT_ERROR(RunOp(OpKind::kAddBias, {&x, &wrong}, {}, &y),
                  kInvalidArgument, "add_bias: bias: shape [2]; must be [3]");
}

TEST(RefAdd, TakesAnOptionalBias) {
  const RefTensor x{{2, 3}, {1, 2, 3, 4, 5, 6}};
  const RefTensor y{{2, 3}, {1, 1, 1, 2, 2, 2}};
  const RefTensor bias{{3}, {10, 20, 30}};
  RefTensor z;
  DS_ASSERT_OK(RunOp(OpKind::kAdd, {&x, &y, nullptr}, {}, &z));
  ExpectTensor(z, {2, 3}, {2, 3, 4, 6, 7, 8});
  DS_ASSERT_OK(RunOp(OpKind::kAdd, {&x, &y, &bias}, {}, &z));
  ExpectTensor(z, {2, 3}, {12, 23, 34, 16, 27, 38});
  DS_EXPECT_ERROR(RunOp(OpKind::kAdd, {&x, nullptr, nullptr}, {}, &z),
                  kInvalidArgument, "add: y: absent");
}

TEST(RefMul, Multiplies) {
  const RefTensor x{{1, 3}, {1, 2, 3}};
  const RefTensor y{{1, 3}, {4, 5, -6}};
  RefTensor z;
  DS_ASSERT_OK(RunOp(OpKind::kMul, {&x, &y}, {}, &z));
  ExpectTensor(z, {1, 3}, {4, 10, -18});
  const RefTensor tall{{3, 1}, {4, 5, 6}};
  DS_EXPECT_ERROR(RunOp(OpKind::kMul, {&x, &tall}, {}, &z), kInvalidArgument,
                  "mul: y: shape [3, 1]; must be [1, 3]");
}

TEST(RefRmsNorm, DividesByTheRootMeanSquare) {
  // Roots of 10 / 2 + 4 = 9 and of 26 / 2 + 4 = 17.
  const RefTensor x{{2, 2}, {1, 3, 5, 1}};
  const RefTensor scale{{2}, {2, -1}};
  RefTensor y;
  DS_ASSERT_OK(RunOp(OpKind::kRmsNorm, {&x, &scale}, {F(4)}, &y));
  const double root = std::sqrt(17.0);
  ExpectTensor(y, {2, 2}, {2.0 / 3, -1, 10 / root, -1 / root});
}

TEST(RefLayerNorm, CentresAndScales) {
  // Means 2 and 4, variances 1 + 3 = 4 and 9 + 3 = 12 with eps 3.
  const RefTensor x{{2, 2}, {1, 3, 7, 1}};
  const RefTensor scale{{2}, {2, 4}};
  const RefTensor bias{{2}, {10, 20}};
  RefTensor y;
  DS_ASSERT_OK(RunOp(OpKind::kLayerNorm, {&x, &scale, &bias}, {F(3)}, &y));
  const double root = std::sqrt(12.0);
  ExpectTensor(y, {2, 2}, {9, 22, 10 + 6 / root, 20 - 12 / root});
  DS_ASSERT_OK(RunOp(OpKind::kLayerNorm, {&x, &scale, nullptr}, {F(3)}, &y));
  ExpectTensor(y, {2, 2}, {-1, 2, 6 / root, -12 / root});
}

// Angle 90 degrees: (x, y) becomes (-y, x).
TEST(RefRope, RotatesHalvesOrPairsAndLeavesTheRest) {
  const double quarter = std::acos(0.0);
  // One token at position 3; the second pair turns by 180 degrees.
  const RefTensor x{{1, 10}, {1, 2, 3, 4, 5, 11, 12, 13, 14, 15}};
  const RefTensor positions{{1}, {3}};
  const RefTensor freqs{{2}, {quarter / 3, 2 * quarter / 3}};
  RefTensor y;
  DS_ASSERT_OK(RunOp(
      OpKind::kRope, {&x, &positions, &freqs},
      {I(2), I(5), I(4), I(static_cast<int64_t>(RopeStyle::kHalf)), F(1)}, &y));
  ExpectTensor(y, {1, 10}, {-3, -2, 1, -4, 5, -13, -12, 11, -14, 15});
  DS_ASSERT_OK(RunOp(OpKind::kRope, {&x, &positions, &freqs},
                     {I(2), I(5), I(4),
                      I(static_cast<int64_t>(RopeStyle::kInterleaved)), F(2)},
                     &y));
  ExpectTensor(y, {1, 10}, {-4, 2, -6, -8, 5, -24, 22, -26, -28, 15});
}

TEST(RefRope, RejectsAnOddRotaryDim) {
  const RefTensor x{{1, 4}, {1, 2, 3, 4}};
  const RefTensor positions{{1}, {0}};
  const RefTensor freqs{{1}, {1}};
  RefTensor y;
  DS_EXPECT_ERROR(RunOp(OpKind::kRope, {&x, &positions, &freqs},
                        {I(1), I(4), I(3), I(0), F(1)}, &y),
                  kInvalidArgument, "rotary_dim must be even");
}

// 3 query heads of groups of 2 from offset 1: KV heads 0, 1, 1.
const std::vector<Attr> kThreeHeads = {I(3), I(2), I(2), I(1), I(1),
                                       F(1), I(0), F(0), I(0)};

TEST(RefAttention, ReadsTheKvHeadOfEachGroupAndTheState) {
  RefState state;
  const RefTensor slots{{1}, {7}};
  const RefTensor blocks{{8, 1}, std::vector<double>(8, 0)};
  // Position 0: keys 0 and 0, values 1 and 10.
  const RefTensor q0{{1, 3}, {0, 0, 0}}, k0{{1, 2}, {0, 0}},
      v0{{1, 2}, {1, 10}}, p0{{1}, {0}};
  RefTensor y;
  DS_ASSERT_OK(RunOp(OpKind::kAttention, {&q0, &k0, &v0, &p0, &slots, &blocks},
                     kThreeHeads, &y, &state));
  ExpectTensor(y, {1, 3}, {1, 10, 10});
  // Position 1: keys ln 3, values 2 and 20. Weights 1 : 3^q.
  const double ln3 = std::log(3.0);
  const RefTensor q1{{1, 3}, {1, 0, -1}}, k1{{1, 2}, {ln3, ln3}},
      v1{{1, 2}, {2, 20}}, p1{{1}, {1}};
  DS_ASSERT_OK(RunOp(OpKind::kAttention, {&q1, &k1, &v1, &p1, &slots, &blocks},
                     kThreeHeads, &y, &state));
  ExpectTensor(y, {1, 3}, {7.0 / 4, 15, 10 * 3.0 / 4 + 20 * 1.0 / 4});
}

TEST(RefAttention, IsCausalAndWindowedWithinOneStep) {
  // Keys 0: plain means of the values that are seen. Two sequences.
  const RefTensor q{{4, 1}, {0, 0, 0, 0}}, k{{4, 1}, {0, 0, 0, 0}},
      v{{4, 1}, {2, 4, 6, 100}}, positions{{4}, {0, 1, 2, 0}},
      slots{{4}, {0, 0, 0, 1}}, blocks{{2, 1}, {0, 1}};
  RefState state;
  RefTensor y;
  DS_ASSERT_OK(RunOp(
      OpKind::kAttention, {&q, &k, &v, &positions, &slots, &blocks},
      {I(1), I(1), I(1), I(0), I(1), F(1), I(0), F(0), I(0)}, &y, &state));
  ExpectTensor(y, {4, 1}, {2, 3, 4, 100});
  RefState windowed;
  DS_ASSERT_OK(RunOp(
      OpKind::kAttention, {&q, &k, &v, &positions, &slots, &blocks},
      {I(1), I(1), I(1), I(0), I(1), F(1), I(2), F(0), I(0)}, &y, &windowed));
  ExpectTensor(y, {4, 1}, {2, 3, 5, 100});
}

TEST(RefAttention, RejectsAHeadWithoutAKvHead) {
  const RefTensor q{{1, 3}, {0, 0, 0}}, k{{1, 1}, {0}}, v{{1, 1}, {0}},
      positions{{1}, {0}}, slots{{1}, {0}}, blocks{{1, 1}, {0}};
  RefState state;
  RefTensor y;
  DS_EXPECT_ERROR(
      RunOp(OpKind::kAttention, {&q, &k, &v, &positions, &slots, &blocks},
            {I(3), I(1), I(2), I(0), I(1), F(1), I(0), F(0), I(0)}, &y, &state),
      kInvalidArgument, "every query head needs a KV head");
  DS_EXPECT_ERROR(
      RunOp(OpKind::kAttention, {&q, &k, &v, &positions, &slots, &blocks},
            {I(3), I(1), I(3), I(0), I(1), F(1), I(0), F(0), I(0)}, &y,
            nullptr),
      kInvalidArgument, "attention: no state");
}

TEST(RefAttention, CapsScoresThenAddsSlopes) {
  // Two positions, q.k = 4 at both; values 0 and 1.
  const RefTensor q{{2, 1}, {2, 2}}, k{{2, 1}, {2, 2}}, v{{2, 1}, {0, 1}},
      positions{{2}, {0, 1}}, slots{{2}, {0, 0}}, blocks{{1, 1}, {0}},
      slopes{{1}, {0.5}};
  RefTensor y;
  const auto weight_of_last = [&](double gap) {
    return 1 / (1 + std::exp(-gap));
  };
  RefState plain;
  DS_ASSERT_OK(RunOp(
      OpKind::kAttention, {&q, &k, &v, &positions, &slots, &blocks, &slopes},
      {I(1), I(1), I(1), I(0), I(1), F(1), I(0), F(3), I(0)}, &y, &plain));
  // Both scores are capped alike; the earlier key is 0.5 further down.
  ExpectTensor(y, {2, 1}, {0, weight_of_last(0.5)});
  // bf16(0.3) = 0.30078125, times the scale of 2.
  const RefTensor third{{1}, {0.3}};
  RefState scaled;
  DS_ASSERT_OK(RunOp(
      OpKind::kAttention, {&q, &k, &v, &positions, &slots, &blocks, &third},
      {I(1), I(1), I(1), I(0), I(1), F(2), I(0), F(0), I(1)}, &y, &scaled));
  ExpectTensor(y, {2, 1}, {0, weight_of_last(2 * 0.30078125)});
  // Scores 8 and 2 before a cap of 1: 0.99999977 and 0.96402758.
  const RefTensor k2{{2, 1}, {4, 1}};
  RefState capped;
  DS_ASSERT_OK(RunOp(
      OpKind::kAttention, {&q, &k2, &v, &positions, &slots, &blocks, nullptr},
      {I(1), I(1), I(1), I(0), I(1), F(1), I(0), F(1), I(0)}, &y, &capped));
  ExpectTensor(y, {2, 1}, {0, weight_of_last(std::tanh(2) - std::tanh(8))});
}

TEST(RefRope, LongSequencesTurnByTheirOwnTable) {
  const double quarter = std::acos(0.0);
  const RefTensor x{{2, 2}, {1, 0, 1, 0}}, positions{{2}, {1, 1}},
      freqs{{1}, {0}}, longer{{1}, {quarter}}, slots{{2}, {1, 0}},
      horizons{{2}, {5, 4}};
  RefTensor y;
  DS_ASSERT_OK(RunOp(OpKind::kRope,
                     {&x, &positions, &freqs, &longer, &slots, &horizons},
                     {I(1), I(2), I(2), I(0), F(1), I(4)}, &y));
  ExpectTensor(y, {2, 2}, {1, 0, 0, 1});
}

TEST(RefRope, LongPromptsAndLatePositionsTurnSlower) {
  const double quarter = std::acos(0.0);
  const RefTensor x{{3, 4}, {1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0}},
      positions{{3}, {1, 1, 3}}, freqs{{2}, {0, 4 * quarter}},
      slots{{3}, {0, 1, 2}}, horizons{{3}, {2, 4, 1}};
  RefTensor y;
  // Lengths 2, 4 and 4 of long_from 2, factor 3: divided by 1, 4 and 4.
  DS_ASSERT_OK(RunOp(OpKind::kRope,
                     {&x, &positions, &freqs, nullptr, &slots, &horizons},
                     {I(1), I(4), I(4), I(0), F(1), I(2), F(3)}, &y));
  ExpectTensor(y, {3, 4}, {1, 1, 0, 0, 1, 0, 0, 1, 1, 0, 0, -1});
}

TEST(RefHeadNorm, NormsEachHeadByOneWeightOrItsOwn) {
  const RefTensor x{{1, 4}, {3, 4, 1, 7}}, one{{2}, {2, 1}},
      own{{4}, {2, 1, 1, 10}}, bias{{2}, {0, 100}};
  const double a = std::sqrt(12.5), b = 5;  // of mean squares
  RefTensor y;
  DS_ASSERT_OK(RunOp(OpKind::kHeadNorm, {&x, &one, nullptr},
                     {I(0), I(2), I(2), F(0)}, &y));
  ExpectTensor(y, {1, 4}, {6 / a, 4 / a, 2 / b, 7 / b});
  DS_ASSERT_OK(RunOp(OpKind::kHeadNorm, {&x, &own, nullptr},
                     {I(0), I(2), I(2), F(0)}, &y));
  ExpectTensor(y, {1, 4}, {6 / a, 4 / a, 1 / b, 70 / b});
  DS_ASSERT_OK(RunOp(OpKind::kHeadNorm, {&x, &one, &bias},
                     {I(1), I(2), I(2), F(0)}, &y));
  ExpectTensor(y, {1, 4}, {-2, 101, -2, 101});
}

TEST(RefRmsNormOver, DividesByTheWholeRow) {
  const RefTensor x{{1, 2}, {3, 4}}, sums{{1, 1}, {100}}, scale{{2}, {1, 2}};
  RefTensor y;
  DS_ASSERT_OK(RunOp(OpKind::kSumSquares, {&x}, {I(1), I(2)}, &y));
  ExpectTensor(y, {1, 1}, {16});
  DS_ASSERT_OK(
      RunOp(OpKind::kRmsNormOver, {&x, &sums, &scale}, {I(4), F(0)}, &y));
  ExpectTensor(y, {1, 2}, {3.0 / 5, 8.0 / 5});
  DS_ASSERT_OK(RunOp(OpKind::kScale, {&x}, {F(0.5)}, &y));
  ExpectTensor(y, {1, 2}, {1.5, 2});
  DS_ASSERT_OK(RunOp(OpKind::kSoftcap, {&x}, {F(2)}, &y));
  ExpectTensor(y, {1, 2}, {2 * std::tanh(1.5), 2 * std::tanh(2)});
}

TEST(RefQkvAttention, RotatesQAndKButNotV) {
  // 2 heads, 1 KV head, head_dim 2. Position 1 turns by 90 degrees, position 0
  // not: with q = (1, 0), k = (0, 1) at both, q1.k1 = q.k = 0 and q1.k0 = 1.
  const double quarter = std::acos(0.0);
  const RefTensor qkv{{2, 8},
                      {1, 0, 0, 1, 0, 1, 5, 6,  //
                       1, 0, 0, 1, 0, 1, 7, 8}};
  const RefTensor positions{{2}, {0, 1}}, slots{{2}, {0, 0}},
      blocks{{1, 1}, {0}}, freqs{{1}, {quarter}};
  const double ln2 = std::log(2.0);
  const std::vector<Attr> attrs = {I(2), I(1), I(2), I(0), I(2), F(ln2),
                                   I(0), F(0), I(0), I(2), I(0), F(1)};
  RefState state;
  RefTensor y;
  DS_ASSERT_OK(RunOp(OpKind::kQkvAttention,
                     {&qkv, &positions, &slots, &blocks, &freqs}, attrs, &y,
                     &state));
  // Head 0 of token 1: scores 1 and 0, weights 2 : 1. Head 1: q = (0, 1) turned
  // is (-1, 0): scores 0 and 1, weights 1 : 2.
  ExpectTensor(y, {2, 4}, {5, 6, 5, 6, 17.0 / 3, 20.0 / 3, 19.0 / 3, 22.0 / 3});
  // Without freqs nothing turns: head 0 sees scores 0, 0; head 1 sees 1, 1.
  RefState plain;
  DS_ASSERT_OK(RunOp(OpKind::kQkvAttention,
                     {&qkv, &positions, &slots, &blocks, nullptr}, attrs, &y,
                     &plain));
  ExpectTensor(y, {2, 4}, {5, 6, 5, 6, 6, 7, 6, 7});
}

TEST(RefActivation, KnowsEveryKind) {
  const RefTensor x{{1, 3}, {-1, 0, 2}};
  const auto run = [&](Act kind) {
    RefTensor y;
    EXPECT_TRUE(
        RunOp(OpKind::kActivation, {&x}, {I(static_cast<int64_t>(kind))}, &y)
            .ok());
    return y;
  };
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  ExpectTensor(run(Act::kSilu), {1, 3}, {-sigmoid(-1), 0, 2 * sigmoid(2)});
  // Phi(-1) and Phi(2) of the normal distribution.
  ExpectTensor(run(Act::kGelu), {1, 3},
               {-0.15865525393145705, 0, 2 * 0.97724986805182079});
  ExpectTensor(run(Act::kGeluTanh), {1, 3},
               {-0.15880800939172324, 0, 1.9545976940877750}, 1e-9);
  ExpectTensor(run(Act::kRelu), {1, 3}, {0, 0, 2});
  ExpectTensor(run(Act::kQuickGelu), {1, 3},
               {-sigmoid(-1.702), 0, 2 * sigmoid(3.404)});
}

TEST(RefGatedAct, TakesGateAndUpFromNeighbouringColumns) {
  const RefTensor x{{2, 4}, {1, 10, -2, 20, 3, 30, 4, -40}};
  const std::vector<Attr> relu = {I(static_cast<int64_t>(Act::kRelu))};
  RefTensor y;
  DS_ASSERT_OK(RunOp(OpKind::kGatedAct, {&x}, relu, &y));
  ExpectTensor(y, {2, 2}, {10, 0, 90, -160});
  const RefTensor odd{{1, 3}, {1, 2, 3}};
  DS_EXPECT_ERROR(RunOp(OpKind::kGatedAct, {&odd}, relu, &y), kInvalidArgument,
                  "3 columns; must be even");
}

TEST(RefGatherRows, TakesRowsInAnyOrder) {
  const RefTensor x{{3, 2}, {1, 2, 3, 4, 5, 6}};
  const RefTensor rows{{4}, {2, 0, 2, 1}};
  RefTensor y;
  DS_ASSERT_OK(RunOp(OpKind::kGatherRows, {&x, &rows}, {}, &y));
  ExpectTensor(y, {4, 2}, {5, 6, 1, 2, 5, 6, 3, 4});
  const RefTensor beyond{{1}, {3}};
  DS_EXPECT_ERROR(RunOp(OpKind::kGatherRows, {&x, &beyond}, {}, &y),
                  kInvalidArgument, "rows[0]: 3; x has rows 0..2");
}

TEST(RunReference, LeavesCollectivesToTheEvaluator) {
  RefTensor y;
  DS_EXPECT_ERROR(RunOp(OpKind::kAllReduce, {}, {}, &y), kUnimplemented,
                  "all_reduce");
  DS_EXPECT_ERROR(RunOp(static_cast<OpKind>(999), {}, {}, &y), kUnimplemented,
                  "unknown op");
}

}  // namespace
}  // namespace deepslice
