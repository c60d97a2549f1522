#include "passes/evaluate.h"

#include <set>

#include "gtest/gtest.h"
#include "ir/parser.h"
#include "passes/synthetic_weights.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

Graph Parse(absl::string_view text) {
  auto graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *std::move(graph) : Graph();
}

absl::StatusOr<std::vector<RefTensor>> RunRanks(
    const std::vector<Graph>& graphs, const NamedTensors& inputs,
    EvaluationStates* states, const EvaluateOptions& options = {}) {
  std::vector<const Graph*> ranks;
  for (const Graph& g : graphs) ranks.push_back(&g);
  return Evaluate(ranks, SyntheticWeights(5), inputs, states, options);
}

absl::StatusOr<std::vector<RefTensor>> RunRanks(
    const std::vector<Graph>& graphs, const NamedTensors& inputs) {
  EvaluationStates states;
  return RunRanks(graphs, inputs, &states);
}

RefTensor Filled(std::vector<int64_t> shape) {
  RefTensor t{std::move(shape), {}};
  int64_t count = 1;
  for (const int64_t d : t.shape) count *= d;
  for (int64_t i = 0; i < count; ++i) {
    t.data.push_back(SyntheticValue(3, "input", i, 0));
  }
  return t;
}

void ExpectNear(const RefTensor& a, const RefTensor& b) {
  ASSERT_EQ(a.shape, b.shape);
  for (size_t i = 0; i < a.data.size(); ++i) {
    ASSERT_NEAR(a.data[i], b.data[i], 1e-12) << "at " << i;
  }
}

TEST(Evaluate, ComputesNodesInOrder) {
  const Graph g = Parse(R"(graph @g {
    param %x : f32[T, 3]
    weight @w : f32[2, 3] role(mlp_up) = "w"[4:6, 0:3]
    %h = linear(%x, @w)
    %y = mul(%h, %h)
    return %y, %x })");
  const RefTensor x{{1, 3}, {1, 2, -3}};
  EvaluationStates states;
  const auto out = Evaluate({&g}, SyntheticWeights(5), {{"x", x}}, &states);
  DS_ASSERT_OK(out);
  ASSERT_EQ(out->size(), 2u);
  for (int r = 0; r < 2; ++r) {
    const double h = SyntheticValue(5, "w", 4 + r, 0) +
                     2 * SyntheticValue(5, "w", 4 + r, 1) -
                     3 * SyntheticValue(5, "w", 4 + r, 2);
    EXPECT_NEAR((*out)[0].data[r], h * h, 1e-15);
  }
  EXPECT_EQ((*out)[1].data, x.data);
}

constexpr absl::string_view kWhole = R"(graph @g {
  param %x : f32[T, 7]
  weight @up : f32[43, 7] role(mlp_up) = "up"[0:43, 0:7]
  weight @down : f32[7, 43] role(mlp_out) = "down"[0:7, 0:43]
  weight @head : f32[131, 7] role(head) = "head"[0:131, 0:7]
  %h = linear(%x, @up)
  %a = activation(%h) {kind=gelu}
  %y = linear(%a, @down)
  %logits = linear(%y, @head)
  return %logits })";

// Three ranks; the second owns nothing of the MLP.
std::vector<Graph> Parts() {
  const std::pair<int, int> mlp[] = {{0, 16}, {16, 16}, {16, 43}};
  const std::pair<int, int> vocabulary[] = {{0, 43}, {43, 87}, {87, 131}};
  std::vector<Graph> graphs;
  for (int r = 0; r < 3; ++r) {
    const auto [b, e] = mlp[r];
    const auto [vb, ve] = vocabulary[r];
    graphs.push_back(Parse(absl::StrCat(
        "graph @g { param %x : f32[T, 7] weight @up : f32[", e - b,
        ", 7] role(mlp_up) = \"up\"[", b, ":", e,
        ", 0:7] weight @down : f32[7, ", e - b,
        "] role(mlp_out) = \"down\"[0:7, ", b, ":", e, "] weight @head : f32[",
        ve - vb, ", 7] role(head) = \"head\"[", vb, ":", ve, R"(, 0:7]
          %h = linear(%x, @up)
          %a = activation(%h) {kind=gelu}
          %p = linear(%a, @down)
          %y = all_reduce(%p) {group=tp}
          %part = linear(%y, @head)
          %logits = all_gather(%part) {group=tp, total=131}
          return %logits })")));
  }
  return graphs;
}

TEST(Evaluate, RanksTogetherEqualTheWhole) {
  const NamedTensors inputs = {{"x", Filled({5, 7})}};
  std::vector<Graph> whole;
  whole.push_back(Parse(kWhole));
  const auto expected = RunRanks(whole, inputs);
  const auto got = RunRanks(Parts(), inputs);
  DS_ASSERT_OK(expected);
  DS_ASSERT_OK(got);
  ASSERT_EQ((*got)[0].shape, (std::vector<int64_t>{5, 131}));
  ExpectNear((*got)[0], (*expected)[0]);
}

TEST(Evaluate, ObserverSeesEveryResultOfEveryRank) {
  std::set<std::pair<int, std::string>> seen;
  std::vector<std::vector<double>> sums;
  EvaluateOptions options;
  options.observer = [&](int rank, const Value& value, const RefTensor& t) {
    seen.emplace(rank, value.name);
    if (value.name == "y") sums.push_back(t.data);
  };
  EvaluationStates states;
  DS_ASSERT_OK(RunRanks(Parts(), {{"x", Filled({2, 7})}}, &states, options));
  EXPECT_EQ(seen.size(), 3u * 6);
  ASSERT_EQ(sums.size(), 3u);
  EXPECT_EQ(sums[0], sums[1]);
  EXPECT_EQ(sums[0], sums[2]);
}

// 6 query heads over 2 KV heads of 4.
constexpr absl::string_view kAttention = R"(graph @g {
  param %qkv : f32[T, 40]
  param %positions : i32[T]
  param %slots : i32[T]
  param %blocks : i32[S, B]
  weight @f : f32[2] role(rope_freqs) = rope_freqs(base=100, rotary_dim=4)
  state @kv : full(kv_heads=2, head_dim=4, encoding=f32)
  %a = qkv_attention(%qkv, %positions, %slots, %blocks, freqs=@f)
      {heads=6, kv_heads=2, group=3, head_offset=0, head_dim=4, scale=0.5,
       window=0, rotary_dim=4, style=half, rope_scale=1} state(@kv)
  return %a })";

TEST(Evaluate, StatesLastFromPrefillToDecode) {
  std::vector<Graph> graphs;
  graphs.push_back(Parse(kAttention));
  const RefTensor qkv = Filled({5, 40});
  const RefTensor blocks{{1, 1}, {0}};
  const auto step = [&](int begin, int end, EvaluationStates* states) {
    RefTensor rows{{end - begin, 40}, {}}, positions{{end - begin}, {}};
    rows.data.assign(qkv.row(begin), qkv.row(begin) + (end - begin) * 40);
    for (int t = begin; t < end; ++t) positions.data.push_back(t);
    return RunRanks(
        graphs,
        {{"qkv", rows},
         {"positions", positions},
         {"slots", {{end - begin}, std::vector<double>(end - begin)}},
         {"blocks", blocks}},
        states);
  };
  EvaluationStates at_once, in_steps;
  const auto all = step(0, 5, &at_once);
  const auto prefill = step(0, 3, &in_steps);
  const auto decode3 = step(3, 4, &in_steps);
  const auto decode4 = step(4, 5, &in_steps);
  DS_ASSERT_OK(all);
  DS_ASSERT_OK(prefill);
  DS_ASSERT_OK(decode3);
  DS_ASSERT_OK(decode4);
  RefTensor joined = (*prefill)[0];
  joined.shape[0] = 5;
  for (const auto* part : {&*decode3, &*decode4}) {
    joined.data.insert(joined.data.end(), (*part)[0].data.begin(),
                       (*part)[0].data.end());
  }
  ExpectNear(joined, (*all)[0]);
}

TEST(Evaluate, RefusesInputsThatDoNotFit) {
  const NamedTensors good = {{"x", Filled({2, 7})}};
  DS_EXPECT_ERROR(RunRanks(Parts(), {}), kInvalidArgument,
                  "rank 0: input %x is missing");
  NamedTensors extra = good;
  extra["z"] = Filled({1, 1});
  DS_EXPECT_ERROR(RunRanks(Parts(), extra), kInvalidArgument,
                  "input %z: no rank has a parameter of this name");
  DS_EXPECT_ERROR(
      RunRanks(Parts(), {{"x", Filled({2, 8})}}), kInvalidArgument,
      "rank 0: input %x: found [2, 8]; allowed: f32[T, 7] with T=2");
  RefTensor cut = Filled({2, 7});
  cut.data.pop_back();
  DS_EXPECT_ERROR(RunRanks(Parts(), {{"x", cut}}), kInvalidArgument,
                  "found 13 numbers; allowed: 14");
  EvaluationStates two(2);
  DS_EXPECT_ERROR(RunRanks(Parts(), good, &two), kInvalidArgument,
                  "found states of 2 ranks; allowed: as many as graphs, 3");
}

TEST(Evaluate, RefusesASymbolWithTwoSizesAndBrokenIntegers) {
  std::vector<Graph> graphs;
  graphs.push_back(Parse(kAttention));
  NamedTensors inputs = {{"qkv", Filled({2, 40})},
                         {"positions", {{3}, {0, 1, 2}}},
                         {"slots", {{2}, {0, 0}}},
                         {"blocks", {{1, 1}, {0}}}};
  DS_EXPECT_ERROR(RunRanks(graphs, inputs), kInvalidArgument,
                  "input %positions: found [3]; allowed: i32[T] with T=2");
  inputs["positions"] = {{2}, {0, 0.5}};
  DS_EXPECT_ERROR(RunRanks(graphs, inputs), kInvalidArgument,
                  "found 0.5; allowed: whole numbers in i32[T]");
}

struct Pair {
  absl::string_view first, second, error;
};

TEST(Evaluate, NamesBothRanksWhoseCollectivesDisagree) {
  const Pair cases[] = {
      {"%y = all_reduce(%x) {group=tp}",
       "%y = all_gather(%x) {group=tp, total=14}",
       "collectives disagree: rank 0: %y = all_reduce of [2, 7] over tp; "
       "rank 1: %y = all_gather of [2, 7] over tp"},
      {"%y = all_reduce(%x) {group=tp}", "%y = all_reduce(%x) {group=ep}",
       "rank 0: %y = all_reduce of [2, 7] over tp; rank 1: %y = all_reduce of "
       "[2, 7] over ep"},
      {"%y = all_reduce(%x) {group=tp}", "%y = activation(%x) {kind=relu}",
       "rank 1: has no collective left"},
      {"%y = activation(%x) {kind=relu}", "%y = all_reduce(%x) {group=tp}",
       "rank 0: has no collective left; rank 1: %y = all_reduce"},
      {"%y = all_reduce(%x) {group=tp}",
       "weight @w : f32[3, 7] role(mlp_up) %h = linear(%x, @w) "
       "%y = all_reduce(%h) {group=tp}",
       "rank 1: %y = all_reduce of [2, 3] over tp"},
      {"%y = all_gather(%x) {group=tp, total=13}",
       "%y = all_gather(%x) {group=tp, total=13}",
       "rank 0: %y = all_gather of [2, 7] over tp; allowed: 6 columns, part 0 "
       "of 13 over 2 ranks"},
  };
  for (const Pair& c : cases) {
    std::vector<Graph> graphs;
    for (const absl::string_view body : {c.first, c.second}) {
      graphs.push_back(Parse(absl::StrCat("graph @g { param %x : f32[T, 7] ",
                                          body, " return %y }")));
    }
    DS_EXPECT_ERROR(RunRanks(graphs, {{"x", Filled({2, 7})}}), kInvalidArgument,
                    c.error);
  }
}

TEST(Evaluate, RefusesAWeightOfAnotherShape) {
  const Graph g = Parse(kWhole);
  EvaluationStates states;
  const WeightProvider wrong = [](const Weight&) {
    return RefTensor{{1, 1}, {0}};
  };
  DS_EXPECT_ERROR(Evaluate({&g}, wrong, {{"x", Filled({2, 7})}}, &states),
                  kInvalidArgument,
                  "rank 0: %h: @up: found [1, 1]; allowed: f32[43, 7]");
  const WeightProvider lost = [](const Weight&) -> absl::StatusOr<RefTensor> {
    return absl::DataLossError("disk");
  };
  DS_EXPECT_ERROR(Evaluate({&g}, lost, {{"x", Filled({2, 7})}}, &states),
                  kDataLoss, "rank 0: %h: @up: disk");
}

}  // namespace
}  // namespace deepslice
