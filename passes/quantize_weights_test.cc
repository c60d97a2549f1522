#include "passes/quantize_weights.h"

#include "gtest/gtest.h"
#include "ir/parser.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

TEST(QuantizeWeights, KeepsWhatIsNamedPrecise) {
  DS_ASSERT_OK_AND_ASSIGN(Graph g, ParseGraph(R"(
    graph @m {
      param %x : f32[T, 8]
      weight @layers.0.attn_q : f32[8, 8] role(attn_q)
      weight @layers.0.attn_v : f32[8, 8] role(attn_v)
      weight @attn_q.other : f32[8, 8] role(attn_q)
      %q = linear(%x, @layers.0.attn_q)
      %v = linear(%q, @layers.0.attn_v)
      %y = linear(%v, @attn_q.other)
      return %y
    })"));
  StorageChoice choice;
  choice.weights = choice.base = Encoding::kBF16;
  choice.precise = {"attn_q"};
  DS_ASSERT_OK(QuantizeWeights(choice).Run(g));
  EXPECT_EQ(g.weights()[0]->encoding, Encoding::kF32);
  EXPECT_EQ(g.weights()[1]->encoding, Encoding::kBF16);
  EXPECT_EQ(g.weights()[2]->encoding, Encoding::kBF16);
}

TEST(MatrixEncoding, GoesByTheLastPartOfANameAndByRole) {
  StorageChoice choice;
  choice.weights = Encoding::kI8Row;
  choice.base = Encoding::kF16;
  choice.precise = {"embed"};
  EXPECT_EQ(MatrixEncoding(choice, "embed", Role::kEmbed), Encoding::kF32);
  EXPECT_EQ(MatrixEncoding(choice, "pos_embed", Role::kPosEmbed),
            Encoding::kF16);
  EXPECT_EQ(MatrixEncoding(choice, "layers.3.attn_q", Role::kAttnQ),
            Encoding::kI8Row);
}

}  // namespace
}  // namespace deepslice
