#include "passes/synthetic_weights.h"

#include <set>

#include "gtest/gtest.h"
#include "ir/parser.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

RefTensor Numbers(absl::string_view type_role_source) {
  const auto graph = ParseGraph(absl::StrCat(
      "graph @g { weight @w : ", std::string(type_role_source), " }"));
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (!graph.ok()) return {};
  const auto numbers = SyntheticWeights(11)(*graph->FindWeight("w"));
  EXPECT_TRUE(numbers.ok()) << numbers.status();
  return numbers.ok() ? *numbers : RefTensor{};
}

TEST(SyntheticWeights, ASliceHoldsTheNumbersOfTheWhole) {
  const RefTensor whole = Numbers("f32[9, 7] role(mlp_up) = \"a\"[0:9, 0:7]");
  const RefTensor part = Numbers("f32[4, 2] role(mlp_up) = \"a\"[3:7, 5:7]");
  ASSERT_EQ(whole.shape, (std::vector<int64_t>{9, 7}));
  ASSERT_EQ(part.data.size(), 8u);
  for (int r = 0; r < 4; ++r) {
    for (int c = 0; c < 2; ++c) {
      EXPECT_EQ(part.data[r * 2 + c], whole.row(r + 3)[c + 5]);
      EXPECT_EQ(part.data[r * 2 + c], SyntheticValue(11, "a", r + 3, c + 5));
    }
  }
}

TEST(SyntheticWeights, PiecesAreJoinedOrTakenInTurn) {
  const RefTensor joined = Numbers(
      "f32[5, 2] role(attn_qkv) = concat(\"q\"[2:5, 0:2], \"k\"[7:9, 0:2])");
  EXPECT_EQ(joined.row(2)[1], SyntheticValue(11, "q", 4, 1));
  EXPECT_EQ(joined.row(3)[0], SyntheticValue(11, "k", 7, 0));
  const RefTensor turns = Numbers(
      "f32[6] role(mlp_gate_up_bias) = interleave(\"g\"[1:4], \"u\"[1:4])");
  EXPECT_EQ(turns.data[4], SyntheticValue(11, "g", 3, 0));
  EXPECT_EQ(turns.data[5], SyntheticValue(11, "u", 3, 0));
}

TEST(SyntheticWeights, NumbersAreSmallDistinctAndExactInFloat) {
  const RefTensor w = Numbers("f32[40, 50] role(mlp_up) = \"a\"[0:40, 0:50]");
  const RefTensor norm = Numbers("f32[40] role(norm) = \"a\"[0:40]");
  std::set<double> distinct;
  double sum = 0;
  for (const double x : w.data) {
    EXPECT_GE(x, -0.25);
    EXPECT_LT(x, 0.25);
    EXPECT_EQ(static_cast<double>(static_cast<float>(x)), x);
    distinct.insert(x);
    sum += x;
  }
  EXPECT_GT(distinct.size(), 1980u);
  EXPECT_LT(std::abs(sum), 20);  // 3 sigma of 2000 draws
  for (int r = 0; r < 40; ++r) {
    EXPECT_EQ(norm.data[r], 1 + w.row(r)[0]);
    EXPECT_EQ(static_cast<double>(static_cast<float>(norm.data[r])),
              norm.data[r]);
  }
}

TEST(SyntheticWeights, SeedAndNameMatter) {
  EXPECT_NE(SyntheticValue(11, "a", 3, 4), SyntheticValue(12, "a", 3, 4));
  EXPECT_NE(SyntheticValue(11, "a", 3, 4), SyntheticValue(11, "b", 3, 4));
  EXPECT_NE(SyntheticValue(11, "a", 3, 4), SyntheticValue(11, "a", 4, 3));
}

TEST(SyntheticWeights, FormulasAreEvaluatedAndSourcelessWeightsAreTheirOwn) {
  const RefTensor freqs = Numbers(
      "f32[5] role(rope_freqs) = rope_freqs(base=10000, rotary_dim=10)");
  ASSERT_EQ(freqs.data.size(), 5u);
  EXPECT_EQ(freqs.data[0], 1);
  EXPECT_NEAR(freqs.data[4], std::pow(10000, -0.8), 1e-9);
  const RefTensor own = Numbers("f32[3, 2] role(head)");
  EXPECT_EQ(own.row(2)[1], SyntheticValue(11, "w", 2, 1));
  EXPECT_TRUE(Numbers("f32[0, 2] role(head)").data.empty());
}

}  // namespace
}  // namespace deepslice
