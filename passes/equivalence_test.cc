// Before and after: a model and what the passes make of it, evaluated over all
// ranks through a prefill and two mixed steps, give the same logits.
#include <algorithm>

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

constexpr int kHidden = 60, kHeadDim = 10, kVocab = 131, kIntermediate = 100;

enum Family {
  kGpt,       // layer norms, biases
  kLlama,     // RMS norms, rotation, gated MLP
  kNormed,    // the same with norms of queries and keys
  kParallel,  // both branches at once, ALiBi, a softcap, biases
};

struct Shape {
  const char* name;
  int heads, kv_heads;
  Family family;
  bool rotates() const { return family == kLlama || family == kNormed; }
};

std::string W(absl::string_view name, absl::string_view role, int rows,
              int cols) {
  return absl::StrFormat(
      "weight @%s : f32[%d, %d] role(%s) = \"%s\"[0:%d, 0:%d]\n", name, rows,
      cols, role, name, rows, cols);
}
std::string V(absl::string_view name, absl::string_view role, int size) {
  return absl::StrFormat("weight @%s : f32[%d] role(%s) = \"%s\"[0:%d]\n", name,
                         size, role, name, size);
}

// One layer on the residual stream %x<i>, as the importer writes it.
std::string Layer(const Shape& s, int i) {
  const int q = s.heads * kHeadDim, kv = s.kv_heads * kHeadDim;
  const int m = kIntermediate;
  std::string t = absl::StrCat(
      W("$q", "attn_q", q, kHidden), W("$k", "attn_k", kv, kHidden),
      W("$v", "attn_v", kv, kHidden), W("$o", "attn_out", kHidden, q),
      W("$up", "mlp_up", m, kHidden), W("$down", "mlp_out", kHidden, m),
      V("$n1", "norm", kHidden), V("$n2", "norm", kHidden),
      absl::StrFormat(
          "state @$kv : full(kv_heads=%d, head_dim=%d, encoding=f32)\n",
          s.kv_heads, kHeadDim));
  const bool parallel = s.family == kParallel;
  const std::string attention = absl::StrFormat(
      "(%%$Q, %%$K, %%$V, %%positions, %%slots, %%blocks%s) {heads=%d, "
      "kv_heads=%d, group=%d, head_offset=0, head_dim=%d, scale=0.3, "
      "window=%d%s} state(@$kv)\n",
      parallel ? ", slopes=@slopes" : "", s.heads, s.kv_heads,
      s.heads / s.kv_heads, kHeadDim, i == 1 ? 3 : 0,
      parallel ? ", softcap=2" : "");
  const auto rope = [](const char* to, const char* from, int heads) {
    return absl::StrFormat(
        "%%$%s = rope(%%$%s, %%positions, @freqs) {heads=%d, head_dim=10, "
        "rotary_dim=10, style=half, scale=1}\n",
        to, from, heads);
  };
  if (s.rotates()) {
    const bool normed = s.family == kNormed;
    absl::StrAppend(&t, W("$gate", "mlp_gate", m, kHidden),
                    "%$h = rms_norm(%$x, @$n1) {eps=1e-5}\n",
                    "%$q = linear(%$h, @$q)\n", "%$k = linear(%$h, @$k)\n",
                    "%$V = linear(%$h, @$v)\n");
    if (normed) {
      // Of all heads together, of each with its own weight, and with one.
      absl::StrAppend(
          &t, V("$qn", "attn_q_norm", q), V("$kn", "attn_k_norm", kv),
          "%$qn = rms_norm(%$q, @$qn) {eps=1e-5}\n",
          i == 0 ? std::string("%$kn = rms_norm(%$k, @$kn) {eps=1e-5}\n")
                 : absl::StrFormat("%%$kn = head_norm(%%$k, @$kn) {kind=layer, "
                                   "heads=%d, head_dim=10, eps=1e-5}\n",
                                   s.kv_heads));
    }
    absl::StrAppend(
        &t, rope("Q", normed ? "qn" : "q", s.heads),
        rope("K", normed ? "kn" : "k", s.kv_heads), "%$a = attention",
        attention, "%$o = linear(%$a, @$o)\n", "%$y = add(%$x, %$o)\n",
        "%$h2 = rms_norm(%$y, @$n2) {eps=1e-5}\n",
        "%$g = linear(%$h2, @$gate)\n", "%$ga = activation(%$g) {kind=silu}\n",
        "%$u = linear(%$h2, @$up)\n", "%$m = mul(%$ga, %$u)\n",
        "%$d = linear(%$m, @$down)\n", "%#x = add(%$y, %$d)\n");
  } else if (parallel) {
    absl::StrAppend(
        &t, V("$ob", "attn_out_bias", kHidden),
        V("$db", "mlp_out_bias", kHidden),
        "%$h = layer_norm(%$x, @$n1) "
        "{eps=1e-5}\n",
        "%$h2 = layer_norm(%$x, @$n2) {eps=1e-5}\n", "%$Q = linear(%$h, @$q)\n",
        "%$K = linear(%$h, @$k)\n", "%$V = linear(%$h, @$v)\n",
        "%$a = attention", attention, "%$o = linear(%$a, @$o)\n",
        "%$u = linear(%$h2, @$up)\n", "%$m = activation(%$u) {kind=gelu}\n",
        "%$d = linear(%$m, @$down)\n", "%$s = add(%$o, %$d)\n",
        "%$s1 = add_bias(%$s, @$ob)\n", "%$s2 = add_bias(%$s1, @$db)\n",
        "%$s3 = scale(%$s2) {factor=0.7}\n", "%#x = add(%$x, %$s3)\n");
  } else {
    absl::StrAppend(
        &t, V("$qb", "attn_q_bias", q), V("$kb", "attn_k_bias", kv),
        V("$vb", "attn_v_bias", kv), V("$ob", "attn_out_bias", kHidden),
        V("$ub", "mlp_up_bias", m), V("$db", "mlp_out_bias", kHidden),
        V("$n1b", "norm", kHidden),
        "%$h = layer_norm(%$x, @$n1, bias=@$n1b) {eps=1e-5}\n",
        "%$q = linear(%$h, @$q)\n", "%$Q = add_bias(%$q, @$qb)\n",
        "%$k = linear(%$h, @$k)\n", "%$K = add_bias(%$k, @$kb)\n",
        "%$v = linear(%$h, @$v)\n", "%$V = add_bias(%$v, @$vb)\n",
        "%$a = attention", attention, "%$o = linear(%$a, @$o)\n",
        "%$o2 = add_bias(%$o, @$ob)\n", "%$y = add(%$x, %$o2)\n",
        "%$h2 = layer_norm(%$y, @$n2) {eps=1e-5}\n",
        "%$u = linear(%$h2, @$up)\n", "%$u2 = add_bias(%$u, @$ub)\n",
        "%$m = activation(%$u2) {kind=gelu_tanh}\n",
        "%$d = linear(%$m, @$down)\n", "%$d2 = add_bias(%$d, @$db)\n",
        "%#x = add(%$y, %$d2)\n");
  }
  std::string out;
  for (const char c : t) {
    if (c == '$') {
      absl::StrAppend(&out, i, ".");
    } else if (c == '#') {
      absl::StrAppend(&out, i + 1, ".");
    } else {
      out.push_back(c);
    }
  }
  return out;
}

Graph Model(const Shape& s) {
  std::string text = absl::StrCat(
      "graph @m {\nparam %ids : i32[T]\nparam %positions : i32[T]\n"
      "param %slots : i32[T]\nparam %blocks : i32[S, B]\n"
      "param %rows : i32[R]\n",
      W("embed", "embed", kVocab, kHidden), V("nf", "norm", kHidden));
  if (s.rotates()) {
    absl::StrAppend(&text,
                    "weight @freqs : f32[5] role(rope_freqs) = "
                    "rope_freqs(base=100, rotary_dim=10)\n",
                    "%0.x = embed(%ids, @embed) {begin=0}\n");
  } else if (s.family == kParallel) {
    absl::StrAppend(
        &text, V("hb", "head_bias", kVocab),
        "%0.x = embed(%ids, @embed) {begin=0}\n",
        absl::StrFormat("weight @slopes : f32[%d] role(alibi_slopes) = "
                        "alibi_slopes(heads=%d, scale=1, begin=0, end=%d)\n",
                        s.heads, s.heads, s.heads));
  } else {
    absl::StrAppend(&text, W("pos", "pos_embed", 16, kHidden),
                    V("hb", "head_bias", kVocab),
                    "%e = embed(%ids, @embed) {begin=0}\n"
                    "%p = embed(%positions, @pos) {begin=0}\n"
                    "%0.x = add(%e, %p)\n");
  }
  absl::StrAppend(
      &text, Layer(s, 0), Layer(s, 1),
      "%n = rms_norm(%2.x, @nf) {eps=1e-5}\n"
      "%last = gather_rows(%n, %rows)\n"
      "%l = linear(%last, @embed)\n",  // tied
      s.rotates() ? "return %l }" : "%lb = add_bias(%l, @hb)\nreturn %lb }");
  auto graph = ParseGraph(text, s.name);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *std::move(graph) : Graph();
}

RefTensor Ints(const std::vector<double>& values) {
  return RefTensor{{static_cast<int64_t>(values.size())}, values};
}

// Two sequences: prompts of 4 and 2 tokens, then a step in which one decodes
// and the other goes on with a chunk, then one decode each.
std::vector<NamedTensors> Steps() {
  const RefTensor blocks{{2, 1}, {0, 1}};
  return {{{"ids", Ints({7, 130, 0, 64, 65, 86})},
           {"positions", Ints({0, 1, 2, 3, 0, 1})},
           {"slots", Ints({0, 0, 0, 0, 1, 1})},
           {"blocks", blocks},
           {"rows", Ints({3, 5})}},
          {{"ids", Ints({44, 9, 100})},
           {"positions", Ints({4, 2, 3})},
           {"slots", Ints({0, 1, 1})},
           {"blocks", blocks},
           {"rows", Ints({0, 2})}},
          {{"ids", Ints({129, 1})},
           {"positions", Ints({5, 4})},
           {"slots", Ints({0, 1})},
           {"blocks", blocks},
           {"rows", Ints({1, 0})}}};
}

// The logits of all steps, one after the other.
absl::StatusOr<std::vector<double>> Logits(const std::vector<Graph>& graphs) {
  std::vector<const Graph*> ranks;
  for (const Graph& g : graphs) ranks.push_back(&g);
  EvaluationStates states;
  std::vector<double> all;
  for (const NamedTensors& step : Steps()) {
    DS_ASSIGN_OR_RETURN(const std::vector<RefTensor> out,
                        Evaluate(ranks, SyntheticWeights(2), step, &states));
    all.insert(all.end(), out[0].data.begin(), out[0].data.end());
  }
  return all;
}

absl::StatusOr<Graph> AfterPasses(const Graph& graph, absl::string_view text) {
  DS_ASSIGN_OR_RETURN(const auto passes, ParsePasses(text));
  Graph out = graph.Clone();
  for (const auto& pass : passes) {
    DS_RETURN_IF_ERROR(Annotate(pass->Run(out), pass->name()));
    DS_RETURN_IF_ERROR(Annotate(VerifyGraph(out), "after ", pass->name()));
  }
  return out;
}

class Equivalence : public testing::TestWithParam<Shape> {};

TEST_P(Equivalence, EveryStageAndEveryTpGivesTheSameLogits) {
  const Graph model = Model(GetParam());
  DS_ASSERT_OK(VerifyGraph(model));
  std::vector<Graph> whole;
  whole.push_back(model.Clone());
  DS_ASSERT_OK_AND_ASSIGN(const std::vector<double> expected, Logits(whole));
  ASSERT_EQ(expected.size(), 6u * kVocab);
  // Logits that are all alike would hide an error.
  const auto [low, high] =
      std::minmax_element(expected.begin(), expected.end());
  ASSERT_GT(*high - *low, 1);

  constexpr const char* kPipelines[] = {
      "tensor-slice(tp=TP,rank=RANK)",
      "fuse-qkv,tensor-slice(tp=TP,rank=RANK)",
      "fuse-gate-up,tensor-slice(tp=TP,rank=RANK),fuse-epilogues",
      "fuse-qkv,fuse-gate-up,quantize-weights(weights=i8_row,base=bf16),"
      "tensor-slice(tp=TP,rank=RANK),fuse-epilogues",
  };
  for (const char* pipeline : kPipelines) {
    for (const int tp : {1, 2, 3, 4, 5, 8}) {
      std::vector<Graph> ranks;
      for (int rank = 0; rank < tp; ++rank) {
        const std::string passes = absl::StrReplaceAll(
            pipeline, {{"TP", absl::StrCat(tp)}, {"RANK", absl::StrCat(rank)}});
        auto part = AfterPasses(model, passes);
        ASSERT_TRUE(part.ok()) << passes << ": " << part.status();
        ranks.push_back(*std::move(part));
      }
      const auto got = Logits(ranks);
      ASSERT_TRUE(got.ok()) << pipeline << " tp " << tp << got.status();
      ASSERT_EQ(got->size(), expected.size());
      for (size_t i = 0; i < got->size(); ++i) {
        // Sums of doubles in another order.
        ASSERT_NEAR((*got)[i], expected[i], 1e-10)
            << pipeline << " tp " << tp << ", logit " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, Equivalence,
    testing::Values(Shape{"llama_6_over_2", 6, 2, kLlama},
                    Shape{"llama_9_over_3", 9, 3, kLlama},
                    Shape{"llama_4_over_1", 4, 1, kLlama},
                    Shape{"gpt_6_over_6", 6, 6, kGpt},
                    Shape{"gpt_6_over_2", 6, 2, kGpt},
                    Shape{"normed_6_over_2", 6, 2, kNormed},
                    Shape{"normed_9_over_3", 9, 3, kNormed},
                    Shape{"parallel_6_over_6", 6, 6, kParallel},
                    Shape{"parallel_6_over_2", 6, 2, kParallel}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace deepslice
