#include "compiler/schedule.h"

#include "ir/parser.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

constexpr char kMlp[] = R"(
graph @mlp {
  param  %x : f32[T, 64]
  weight @up   : f32[172, 64] role(mlp_up)
  weight @down : f32[64, 172] role(mlp_out)
  %layers.0.up = linear(%x, @up)
  %layers.0.act = activation(%layers.0.up) {kind=gelu}
  %layers.0.out = linear(%layers.0.act, @down, residual=%x)
  %layers.1.up = linear(%layers.0.out, @up)
  %layers.1.act = activation(%layers.1.up) {kind=gelu}
  %layers.1.out = linear(%layers.1.act, @down, residual=%layers.0.out)
  return %layers.1.out
})";

StepCeilings Ceilings() {
  StepCeilings c;
  c.max_seq_len = 100;
  c.max_batch = 3;
  c.max_step_tokens = 17;
  return c;
}

TEST(Schedule, ReusesSlotsOfDeadBuffersOnly) {
  DS_ASSERT_OK_AND_ASSIGN(const Graph g, ParseGraph(kMlp));
  DS_ASSERT_OK_AND_ASSIGN(const Schedule s, MakeSchedule(g, Ceilings()));
  ASSERT_EQ(s.steps.size(), 6u);
  // Two wide and two narrow buffers are alive at a time at most.
  EXPECT_LE(s.slots.size(), 4u);
  for (size_t a = 0; a < s.buffers.size(); ++a) {
    for (size_t b = a + 1; b < s.buffers.size(); ++b) {
      const ScheduledBuffer& x = s.buffers[a];
      const ScheduledBuffer& y = s.buffers[b];
      if (x.slot < 0 || x.slot != y.slot) continue;
      EXPECT_TRUE(x.last_step < y.first_step || y.last_step < x.first_step)
          << x.value->name << " and " << y.value->name;
    }
  }
  EXPECT_EQ(s.steps[2].layer, 0);
  EXPECT_EQ(s.steps[5].layer, 1);
}

TEST(Schedule, ArenaIsAFormulaInTheDims) {
  DS_ASSERT_OK_AND_ASSIGN(const Graph g, ParseGraph(kMlp));
  DS_ASSERT_OK_AND_ASSIGN(const Schedule s, MakeSchedule(g, Ceilings()));
  EXPECT_EQ(s.dims[0].maximum, 17);
  EXPECT_EQ(s.dims[3].maximum, 2);  // 100 tokens in blocks of 64
  const int64_t small = s.ArenaBytes({1, 1, 1, 1});
  const int64_t large = s.ArenaBytes({17, 17, 3, 2});
  EXPECT_EQ(small % 256, 0);
  EXPECT_GT(large, small);
  EXPECT_EQ(s.ArenaBytes({17, 1, 1, 1}), large);  // only T counts here
}

TEST(Schedule, NumbersCollectivesInOrder) {
  DS_ASSERT_OK_AND_ASSIGN(const Graph g, ParseGraph(R"(
    graph @m {
      param %x : f32[T, 6]
      weight @w : f32[5, 6] role(head)
      %a = all_reduce(%x) {group=tp}
      %l = linear(%a, @w)
      %logits = all_gather(%l) {group=tp, total=11}
      return %logits
    })"));
  DS_ASSERT_OK_AND_ASSIGN(const Schedule s, MakeSchedule(g, Ceilings()));
  EXPECT_EQ(s.steps[0].collective, 0);
  EXPECT_EQ(s.steps[1].collective, -1);
  EXPECT_EQ(s.steps[2].collective, 1);
}

TEST(Schedule, CollectivesOfRanksMustAgree) {
  const char* with = R"(
    graph @m {
      param %x : f32[T, 6]
      %a = all_reduce(%x) {group=tp}
      %b = all_reduce(%a) {group=tp}
      return %b
    })";
  const char* without = R"(
    graph @m {
      param %x : f32[T, 6]
      %a = all_reduce(%x) {group=tp}
      return %a
    })";
  DS_ASSERT_OK_AND_ASSIGN(const Graph a, ParseGraph(with));
  DS_ASSERT_OK_AND_ASSIGN(const Graph b, ParseGraph(without));
  DS_ASSERT_OK(CheckCollectives({&a, &a}));
  DS_EXPECT_ERROR(CheckCollectives({&a, &b}), kInternal,
                  "collective 1 differs: rank 0 has all_reduce tp f32[T, 6] "
                  "%b, rank 1 has none");
}

}  // namespace
}  // namespace deepslice
