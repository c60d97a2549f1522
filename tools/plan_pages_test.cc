// What dsplan draws and compares: layers that repeat, memory over time, the
// graph, the page, two plans.
#include <random>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "schema/base/status_matchers.h"
#include "tests/support/gpu_plan_builder.h"
#include "tests/support/plan_builder.h"
#include "tools/line_diff.h"
#include "tools/plan_diff.h"
#include "tools/plan_dot.h"
#include "tools/plan_html.h"
#include "tools/plan_view.h"
#include "tools/weight_diff.h"

namespace deepslice {
namespace {

StepView Step(const std::string& name, const std::string& op, int layer,
              std::vector<int> inputs, std::vector<int> outputs) {
  StepView s;
  s.name = name;
  s.op = op;
  s.layer = layer;
  s.inputs = std::move(inputs);
  s.outputs = std::move(outputs);
  s.type = "f32[T, 4]";
  return s;
}

// embed, `layers` of two steps, logits.
ProgramSteps Stack(int layers) {
  ProgramSteps p;
  p.target = "cpu";
  p.name = "step";
  p.steps.push_back(Step("embed", "embed", -1, {}, {0}));
  for (int i = 0; i < layers; ++i) {
    p.steps.push_back(Step(absl::StrCat("layers.", i, ".mid"), "linear", i,
                           {2 * i}, {2 * i + 1}));
    p.steps.push_back(Step(absl::StrCat("layers.", i, ".out"), "add", i,
                           {2 * i, 2 * i + 1}, {2 * i + 2}));
  }
  p.steps.push_back(Step("logits", "linear", -1, {2 * layers}, {999}));
  p.live_bytes.assign(p.steps.size(), 64);
  p.arena_bytes = 128;
  return p;
}

TEST(CollapseLayers, MakesOneBlockOfLayersThatAreAlike) {
  ProgramSteps p = Stack(5);
  std::vector<StepBlock> blocks = CollapseLayers(p);
  ASSERT_EQ(blocks.size(), 3u);
  EXPECT_EQ(blocks[1].begin, 1);
  EXPECT_EQ(blocks[1].end, 3);
  EXPECT_EQ(blocks[1].times, 5);
  EXPECT_EQ(blocks[1].first_layer, 0);
  p.steps[6].type = "bf16[T, 4]";  // layer 2
  blocks = CollapseLayers(p);
  ASSERT_EQ(blocks.size(), 5u);
  EXPECT_EQ(blocks[1].times, 2);
  EXPECT_EQ(blocks[2].times, 1);
  EXPECT_EQ(blocks[3].times, 2);
  EXPECT_EQ(blocks[3].first_layer, 3);
}

TEST(CollapseLayers, CoversAllStepsOfPlans) {
  const auto plan = TinyGpuPlan().Build().Load();
  DS_ASSERT_OK(plan);
  for (const ProgramSteps& p : ViewPrograms(*plan)) {
    size_t covered = 0;
    for (const StepBlock& b : CollapseLayers(p)) {
      covered += (b.end - b.begin) * b.times;
    }
    EXPECT_EQ(covered, p.steps.size());
    ASSERT_EQ(p.live_bytes.size(), p.steps.size());
    for (const int64_t bytes : p.live_bytes) {
      EXPECT_GT(bytes, 0);
      EXPECT_LE(bytes, p.arena_bytes);
    }
  }
}

TEST(ViewPrograms, SlotsAreFreeAgainBehindTheirLastReader) {
  PlanBuilder b;
  b.AddWeight("w", {8, 8}, std::vector<float>(64, 1));
  b.AddWeight("table", {131, 8}, std::vector<float>(131 * 8, 1));
  b.AddOp(OpKind::kEmbed, "a", {"ids", "table"}, {Attr{}}, "T", 8);
  b.AddOp(OpKind::kLinear, "b", {"a", "w", "", ""}, {}, "T", 8);
  b.AddOp(OpKind::kLinear, "c", {"b", "w", "", ""}, {}, "T", 8);
  b.AddOp(OpKind::kGatherRows, "logits", {"c", "rows"}, {}, "R", 8);
  const auto plan = b.Build("logits", 8).Load();
  DS_ASSERT_OK(plan);
  const ProgramSteps p = ViewPrograms(*plan)[0];
  // Each value takes 16 tokens of 8 floats; only neighbours are alive together.
  EXPECT_EQ(p.live_bytes, (std::vector<int64_t>{512, 1024, 1024, 1024}));
  EXPECT_EQ(p.arena_bytes, 4 * 512);
  EXPECT_EQ(p.steps[1].reads, (std::vector<std::string>{"%a", "@w"}));
}

TEST(ProgramDot, DrawsRepeatsOnceAndQuotesNames) {
  ProgramSteps p = Stack(7);
  p.steps[0].name = "em\"; x -> y [label=\"\\N";
  const std::string dot = ProgramDot(p);
  EXPECT_TRUE(absl::StrContains(dot, "layers 0 to 6, 7 times")) << dot;
  EXPECT_FALSE(absl::StrContains(dot, "layers.1.")) << dot;
  EXPECT_TRUE(absl::StrContains(dot, "em\\\"; x -> y [label=\\\"\\\\N")) << dot;
  // embed to both steps, mid to out, out to the next layer's both and on.
  EXPECT_TRUE(absl::StrContains(dot, "s2 -> s1 [")) << dot;
  EXPECT_TRUE(absl::StrContains(dot, "s2 -> s15 [")) << dot;
}

// No tag or attribute of a page comes from a name.
TEST(PlanHtml, EscapesEveryName) {
  const std::string evil = "\"'><script>alert(1)</script><img src=x onerror=y>";
  TestPlan tiny = TinyLlama{.rank = 0, .world = 2}.Build();
  tiny.plan.family = evil;
  tiny.plan.plan_set_id = evil;
  for (auto& w : tiny.plan.weights) {
    w->name = evil + w->name;
    w->source = evil;
  }
  for (auto& s : tiny.plan.states) s->name = evil + s->name;
  for (auto& t : tiny.plan.targets) {
    for (auto& p : t->programs) {
      p->name = evil;
      for (auto& s : p->steps) s->name = evil + s->name;
    }
  }
  auto loaded = tiny.Load();
  DS_ASSERT_OK(loaded);
  std::vector<Plan> ranks;
  ranks.push_back(*std::move(loaded));
  const auto manifest = json::Parse(
      "{\"provenance\": {\"compiler\": \"<script>\", \"options\": "
      "{\"<script>\": \"<script>\"}, \"passes\": [\"<script>\"], "
      "\"sources\": [{\"name\": \"<script>\", \"bytes\": 1, \"sha256\": "
      "\"<script>\"}]}}");
  DS_ASSERT_OK(manifest);
  const std::string page = PlanHtml(evil, ranks, *manifest);
  EXPECT_FALSE(absl::StrContains(page, "<script"));
  EXPECT_FALSE(absl::StrContains(page, "<img"));
  EXPECT_TRUE(absl::StrContains(page, "&lt;script&gt;"));
  EXPECT_TRUE(absl::StrContains(page, "default-src 'none'"));
  // Nothing that a browser would fetch.
  for (const char* part : {" src=", "url(", "@import", "http://", "https://"}) {
    EXPECT_FALSE(absl::StrContains(
        absl::StrReplaceAll(page, {{EscapeHtml(evil), ""}}), part))
        << part;
  }
}

TEST(EscapeHtml, LeavesNoControlCharacters) {
  EXPECT_EQ(EscapeHtml("a<b>&\"'\x01\xc3\xbc"),
            "a&lt;b&gt;&amp;&quot;&#39;\\x01\xc3\xbc");
}

TEST(DiffLines, TurnsOneListIntoTheOther) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> lists[2];
    for (auto& list : lists) {
      const int size = static_cast<int>(random() % 12);
      for (int i = 0; i < size; ++i) {
        list.push_back(std::string(1, static_cast<char>('a' + random() % 4)));
      }
    }
    const auto changes = DiffLines(lists[0], lists[1]);
    std::set<int> gone, come;
    for (const LineChange& c : changes) {
      EXPECT_EQ(c.text, lists[c.added ? 1 : 0][c.line]);
      (c.added ? come : gone).insert(c.line);
    }
    std::vector<std::string> kept_a, kept_b;
    for (int i = 0; i < static_cast<int>(lists[0].size()); ++i) {
      if (gone.count(i) == 0) kept_a.push_back(lists[0][i]);
    }
    for (int i = 0; i < static_cast<int>(lists[1].size()); ++i) {
      if (come.count(i) == 0) kept_b.push_back(lists[1][i]);
    }
    EXPECT_EQ(kept_a, kept_b);
    EXPECT_EQ(gone.size() + come.size(), changes.size());
  }
  EXPECT_EQ(DiffLines({"x", "y", "z"}, {"x", "z"}).size(), 1u);
}

absl::StatusOr<Plan> Tiny(Encoding matrices) {
  return TinyLlama{.matrices = matrices}.Build().Load();
}

int Weight(const Plan& plan, const std::string& name) {
  for (uint32_t i = 0; i < plan.fb().weights()->size(); ++i) {
    if (plan.fb().weights()->Get(i)->name()->str() == name) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

TEST(CompareWeights, MeasuresWhatAnEncodingCosts) {
  const auto exact = Tiny(Encoding::kF32), rounded = Tiny(Encoding::kBF16);
  DS_ASSERT_OK(exact);
  DS_ASSERT_OK(rounded);
  int differ = 0;
  for (uint32_t i = 0; i < exact->fb().weights()->size(); ++i) {
    const std::string name = exact->fb().weights()->Get(i)->name()->str();
    const int j = Weight(*rounded, name);
    ASSERT_GE(j, 0) << name;
    EXPECT_TRUE(
        CompareWeights(*exact, static_cast<int>(i), *exact, static_cast<int>(i))
            .same_bytes);
    const WeightDistance d =
        CompareWeights(*exact, static_cast<int>(i), *rounded, j);
    EXPECT_TRUE(d.measured);
    if (d.same_bytes) continue;
    ++differ;
    EXPECT_LT(d.relative_l2, 1.0 / 256) << name;  // half a step of bf16
    EXPECT_GT(d.relative_l2, 0) << name;
  }
  EXPECT_GT(differ, 3);
}

ComparedPlan Compared(absl::StatusOr<Plan> plan, const std::string& manifest) {
  ComparedPlan out;
  EXPECT_TRUE(plan.ok()) << plan.status();
  out.ranks.push_back(*std::move(plan));
  auto parsed = json::Parse(manifest);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  out.manifest = *std::move(parsed);
  return out;
}

int64_t Count(const json::Value& diff, absl::string_view area) {
  int64_t n = 0;
  for (const json::Value& d : diff.Find("differences")->items()) {
    n += d.Find("area")->as_string() == area;
  }
  return n;
}

TEST(DiffPlans, SaysNothingOfEqualPlans) {
  const json::Value diff = DiffPlans(Compared(Tiny(Encoding::kF32), "{}"),
                                     Compared(Tiny(Encoding::kF32), "{}"));
  EXPECT_TRUE(diff.Find("same")->as_bool()) << json::Write(diff, 1);
  EXPECT_EQ(DiffText(diff, 20), "the plans are the same\n");
}

TEST(DiffPlans, NamesEachKindOfDifference) {
  TestPlan other = TinyLlama{.matrices = Encoding::kBF16}.Build();
  other.step(2).name = "renamed";
  other.plan.chat_template = "{{ x }}";
  const json::Value diff = DiffPlans(
      Compared(Tiny(Encoding::kF32),
               "{\"provenance\": {\"options\": {\"dtype\": \"fp32\"}}}"),
      Compared(other.Load(),
               "{\"provenance\": {\"options\": {\"dtype\": \"bf16\"}, "
               "\"passes\": [\"fuse-qkv\"]}}"));
  EXPECT_FALSE(diff.Find("same")->as_bool());
  EXPECT_EQ(Count(diff, "options"), 1);
  EXPECT_EQ(Count(diff, "passes"), 1);
  EXPECT_EQ(Count(diff, "text"), 1);
  EXPECT_GE(Count(diff, "steps"), 2);
  EXPECT_GE(Count(diff, "weights"), 4);
  EXPECT_GE(Count(diff, "memory"), 1);
  EXPECT_EQ(Count(diff, "collectives"), 0);
  const std::string text = DiffText(diff, 1);
  EXPECT_TRUE(absl::StrContains(text, "dtype: fp32 | bf16")) << text;
  EXPECT_TRUE(absl::StrContains(text, "more (--lines 0 or --json)")) << text;
  EXPECT_TRUE(absl::StrContains(text, "relative L2")) << text;
}

}  // namespace
}  // namespace deepslice
