// A small encoder-decoder and what slicing makes of it, evaluated over all
// ranks: the same outputs at every tp.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "ir/parser.h"
#include "ir/verifier.h"
#include "passes/evaluate.h"
#include "passes/pass.h"
#include "passes/synthetic_weights.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

constexpr int kHidden = 24, kHeadDim = 6, kVocab = 53, kInner = 50;

struct Shape {
  int heads, kv_heads;
};

std::string W(absl::string_view name, absl::string_view role, int rows,
              int cols) {
  return absl::StrFormat(
      "weight @%s : f32[%d, %d] role(%s) = \"%s\"[0:%d, 0:%d]\n", name, rows,
      cols, role, name, rows, cols);
}

// The three weights before an attention and the one behind it.
std::string AttentionWeights(const Shape& s, absl::string_view prefix) {
  const int q = s.heads * kHeadDim, kv = s.kv_heads * kHeadDim;
  return absl::StrCat(W(absl::StrCat(prefix, "q"), "attn_q", q, kHidden),
                      W(absl::StrCat(prefix, "k"), "attn_k", kv, kHidden),
                      W(absl::StrCat(prefix, "v"), "attn_v", kv, kHidden),
                      W(absl::StrCat(prefix, "o"), "attn_out", kHidden, q));
}

// Tokens E through an encoder with biases of both directions; tokens T through
// a decoder with biases of one, over the encoder's keys. Returns what the
// encoder made of rows 0 to R, and logits.
Graph Model(const Shape& s) {
  const std::string heads = absl::StrFormat(
      "heads=%d, kv_heads=%d, group=%d, head_offset=0, head_dim=%d, scale=0.4",
      s.heads, s.kv_heads, s.heads / s.kv_heads, kHeadDim);
  std::string text = absl::StrCat(
      "graph @m {\nparam %ids : i32[T]\nparam %positions : i32[T]\n"
      "param %slots : i32[T]\nparam %blocks : i32[S, B]\n"
      "param %rows : i32[R]\nparam %source_ids : i32[E]\n"
      "param %source_positions : i32[E]\nparam %source_slots : i32[E]\n"
      "param %sources : i32[S, 2]\n",
      W("embed", "embed", kVocab, kHidden), AttentionWeights(s, "e."),
      W("e.bias", "rel_bias", s.heads, 8), AttentionWeights(s, "d."),
      W("d.bias", "rel_bias", s.heads, 6), AttentionWeights(s, "c."),
      W("up", "mlp_up", kInner, kHidden), W("down", "mlp_out", kHidden, kInner),
      W("head", "head", kVocab, kHidden),
      absl::StrFormat(
          "state @kv : full(kv_heads=%d, head_dim=%d, encoding=f32)\n"
          "state @cross : cross(kv_heads=%d, head_dim=%d, encoding=f32)\n",
          s.kv_heads, kHeadDim, s.kv_heads, kHeadDim));
  absl::StrAppend(
      &text, "%e.x = embed(%source_ids, @embed) {begin=0}\n",
      "%e.q = linear(%e.x, @e.q)\n%e.k = linear(%e.x, @e.k)\n"
      "%e.v = linear(%e.x, @e.v)\n"
      "%e.a = encoder_attention(%e.q, %e.k, %e.v, %source_slots, "
      "rel_bias=@e.bias) {",
      heads, ", mask=full, max_distance=9}\n",
      "%e.o = linear(%e.a, @e.o)\n%e.y = add(%e.x, %e.o)\n"
      "%x = embed(%ids, @embed) {begin=0}\n"
      "%q = linear(%x, @d.q)\n%k = linear(%x, @d.k)\n%v = linear(%x, @d.v)\n"
      "%a = attention(%q, %k, %v, %positions, %slots, %blocks, "
      "rel_bias=@d.bias) {",
      heads, ", window=0, max_distance=12} state(@kv)\n",
      "%o = linear(%a, @d.o)\n%y = add(%x, %o)\n"
      "%cq = linear(%y, @c.q)\n%ck = linear(%e.y, @c.k)\n"
      "%cv = linear(%e.y, @c.v)\n"
      "%c = cross_attention(%cq, %ck, %cv, %slots, %source_positions, "
      "%source_slots, %sources) {",
      heads, "} state(@cross)\n",
      "%co = linear(%c, @c.o)\n%z = add(%y, %co)\n"
      "%u = linear(%z, @up)\n%m = activation(%u) {kind=relu}\n"
      "%d = linear(%m, @down)\n%w = add(%z, %d)\n"
      "%r = gather_rows(%w, %rows)\n%logits = linear(%r, @head)\n"
      "return %logits\n}\n");
  auto graph = ParseGraph(text, "model");
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

RefTensor Ints(std::vector<int64_t> shape, const std::vector<double>& values) {
  return {std::move(shape), values};
}

// Two sequences with their sources; then one more token of each.
std::vector<NamedTensors> Steps() {
  const RefTensor blocks = Ints({2, 1}, {0, 1});
  const RefTensor sources = Ints({2, 2}, {1, 2, 0, 4});
  return {{{"ids", Ints({3}, {5, 9, 50})},
           {"positions", Ints({3}, {0, 1, 0})},
           {"slots", Ints({3}, {0, 0, 1})},
           {"blocks", blocks},
           {"rows", Ints({2}, {1, 2})},
           {"source_ids", Ints({6}, {1, 2, 3, 4, 5, 6})},
           {"source_positions", Ints({6}, {0, 1, 2, 3, 0, 1})},
           {"source_slots", Ints({6}, {0, 0, 0, 0, 1, 1})},
           {"sources", sources}},
          {{"ids", Ints({2}, {7, 11})},
           {"positions", Ints({2}, {2, 1})},
           {"slots", Ints({2}, {0, 1})},
           {"blocks", blocks},
           {"rows", Ints({2}, {0, 1})},
           {"source_ids", Ints({0}, {})},
           {"source_positions", Ints({0}, {})},
           {"source_slots", Ints({0}, {})},
           {"sources", sources}}};
}

absl::StatusOr<std::vector<double>> Logits(const std::vector<Graph>& graphs) {
  std::vector<const Graph*> ranks;
  for (const Graph& g : graphs) ranks.push_back(&g);
  EvaluationStates states;
  std::vector<double> all;
  for (const NamedTensors& step : Steps()) {
    DS_ASSIGN_OR_RETURN(const std::vector<RefTensor> out,
                        Evaluate(ranks, SyntheticWeights(3), step, &states));
    all.insert(all.end(), out[0].data.begin(), out[0].data.end());
  }
  return all;
}

class EncoderEquivalence : public testing::TestWithParam<Shape> {};

TEST_P(EncoderEquivalence, EveryTpGivesTheSameLogits) {
  std::vector<Graph> whole;
  whole.push_back(Model(GetParam()));
  DS_ASSERT_OK(VerifyGraph(whole[0]));
  DS_ASSERT_OK_AND_ASSIGN(const std::vector<double> expected, Logits(whole));
  ASSERT_EQ(expected.size(), 4u * kVocab);
  const auto [low, high] =
      std::minmax_element(expected.begin(), expected.end());
  ASSERT_GT(*high - *low, 0.1);
  for (const char* pipeline :
       {"tensor-slice(tp=TP,rank=RANK)",
        "fuse-qkv,fuse-gate-up,tensor-slice(tp=TP,rank=RANK),"
        "fuse-epilogues"}) {
    for (const int tp : {1, 2, 3, 4, 5, 8}) {
      std::vector<Graph> ranks;
      for (int rank = 0; rank < tp; ++rank) {
        DS_ASSERT_OK_AND_ASSIGN(
            const auto passes,
            ParsePasses(absl::StrReplaceAll(
                pipeline,
                {{"TP", absl::StrCat(tp)}, {"RANK", absl::StrCat(rank)}})));
        Graph part = whole[0].Clone();
        for (const auto& pass : passes) {
          DS_ASSERT_OK(pass->Run(part));
          DS_ASSERT_OK(VerifyGraph(part));
        }
        ranks.push_back(std::move(part));
      }
      DS_ASSERT_OK_AND_ASSIGN(const std::vector<double> got, Logits(ranks));
      ASSERT_EQ(got.size(), expected.size());
      for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_NEAR(got[i], expected[i], 1e-10)
            << pipeline << " tp " << tp << ", logit " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, EncoderEquivalence,
                         testing::Values(Shape{4, 4}, Shape{6, 2},
                                         Shape{9, 3}),
                         [](const auto& info) {
                           return absl::StrCat(info.param.heads, "_over_",
                                               info.param.kv_heads);
                         });

}  // namespace
}  // namespace deepslice
