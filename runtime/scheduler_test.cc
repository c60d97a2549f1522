#include "runtime/scheduler.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace deepslice {
namespace {

constexpr ScheduleLimits kLimits = {.max_batch = 4,
                                    .max_step_tokens = 16,
                                    .blocks_per_seq = 5,
                                    .num_blocks = 12,
                                    .block_tokens = 4};

// The blocks of the first `tokens` of a slot.
std::vector<int32_t> Blocks(const StepBatch& batch, int slot, int tokens) {
  const auto* row = batch.blocks.data() + slot * kLimits.blocks_per_seq;
  return {row, row + (tokens + 3) / 4};
}

TEST(Scheduler, ForksShareFullBlocksAndRunTheRestAgain) {
  Scheduler s(kLimits, Scheduler::Mode::kGenerate);
  const std::vector<int32_t> prompt = {10, 11, 12, 13, 14, 15};
  const int first = s.Add(prompt, 12, 3);
  StepBatch batch;
  ASSERT_TRUE(s.Next(&batch));
  EXPECT_EQ(batch.ids.size(), 6u);
  const int slot = batch.slots[0];
  const std::vector<int32_t> blocks = Blocks(batch, slot, 8);
  const int fork = s.Fork(first);
  EXPECT_EQ(fork, first + 1);
  s.Append(first, 20);
  s.Append(fork, 21);
  ASSERT_TRUE(s.Next(&batch));
  // The first one's token goes first; the fork runs 14 and 15 again.
  EXPECT_EQ(std::vector<int32_t>(batch.ids.begin(), batch.ids.end()),
            (std::vector<int32_t>{20, 14, 15, 21}));
  EXPECT_EQ(
      std::vector<int32_t>(batch.positions.begin(), batch.positions.end()),
      (std::vector<int32_t>{6, 4, 5, 6}));
  const std::vector<int32_t> other = Blocks(batch, batch.slots[1], 8);
  EXPECT_EQ(other[0], blocks[0]);
  EXPECT_NE(other[1], blocks[1]);
  ASSERT_EQ(s.rows().size(), 2u);
  EXPECT_EQ(s.rows()[1].sequence, fork);
  EXPECT_EQ(s.rows()[1].position, 6);
}

// Sources of a step as "slot:length" words, and what slots read.
std::string SourcesOf(const StepBatch& batch) {
  std::string out;
  for (size_t i = 0; i < batch.source_ids.size();) {
    size_t end = i;
    while (end < batch.source_ids.size() &&
           batch.source_slots[end] == batch.source_slots[i]) {
      EXPECT_EQ(batch.source_positions[end], static_cast<int>(end - i));
      ++end;
    }
    absl::StrAppend(&out, batch.source_slots[i], ":", end - i, " ");
    i = end;
  }
  for (const int32_t slot :
       std::set<int32_t>(batch.slots.begin(), batch.slots.end())) {
    absl::StrAppend(&out, "slot ", slot, " reads ", batch.sources[2 * slot],
                    ",", batch.sources[2 * slot + 1], " ");
  }
  return out;
}

TEST(Scheduler, SourcesRunOnceBeforeTheirSequencesAndWaitForRoom) {
  ScheduleLimits limits = kLimits;
  limits.max_source_tokens = 8;
  Scheduler s(limits, Scheduler::Mode::kGenerate);
  const int a = s.Add({0}, 4, 1, {5, 6, 7});
  const int b = s.Add({0}, 4, 1, {1, 2, 3, 4, 5, 6});
  const int c = s.Add({0}, 4, 1, {9, 9});
  StepBatch batch;
  ASSERT_TRUE(s.Next(&batch));
  // The second's has no room beside the first's; the third's has.
  EXPECT_EQ(SourcesOf(batch), "0:3 2:2 slot 0 reads 0,3 slot 2 reads 2,2 ");
  EXPECT_EQ(s.rows().size(), 2u);
  s.Append(a, 11);
  s.Append(c, 12);
  ASSERT_TRUE(s.Next(&batch));
  EXPECT_EQ(SourcesOf(batch),
            "1:6 slot 0 reads 0,3 slot 1 reads 1,6 slot 2 reads 2,2 ");
  s.Finish(a);
  s.Finish(c);
  s.Append(b, 13);
  ASSERT_TRUE(s.Next(&batch));
  EXPECT_EQ(SourcesOf(batch), "slot 1 reads 1,6 ");
}

TEST(Scheduler, ForksReadTheSourceOfTheirGroupAsLongAsOneLives) {
  ScheduleLimits limits = kLimits;
  limits.max_source_tokens = 8;
  Scheduler s(limits, Scheduler::Mode::kGenerate);
  const int first = s.Add({0}, 6, 2, {5, 6});
  s.Add({0}, 6, 1, {7});
  s.Add({0}, 6, 2, {8, 8, 8});
  StepBatch batch;
  ASSERT_TRUE(s.Next(&batch));
  EXPECT_EQ(SourcesOf(batch), "0:2 1:1 slot 0 reads 0,2 slot 1 reads 1,1 ");
  const int fork = s.Fork(first);
  s.Append(first, 3);
  s.Append(fork, 4);
  // The first one ends; its slot is free, its source is not.
  s.Finish(first);
  s.FinishGroup(first + 2);
  ASSERT_TRUE(s.Next(&batch));
  const std::string text = SourcesOf(batch);
  EXPECT_NE(text.find("reads 0,2"), std::string::npos) << text;
  EXPECT_EQ(text.find("0:3"), std::string::npos) << text;
}

TEST(Scheduler, AForkAtAFullBlockRunsNothingAgain) {
  Scheduler s(kLimits, Scheduler::Mode::kGenerate);
  const int first = s.Add({1, 2, 3, 4}, 9, 2);
  StepBatch batch;
  ASSERT_TRUE(s.Next(&batch));
  const int fork = s.Fork(first);
  s.Append(fork, 7);
  s.Append(first, 8);
  ASSERT_TRUE(s.Next(&batch));
  EXPECT_EQ(batch.ids.size(), 2u);
}

// Beams die and fork at random in every group; each block belongs to those who
// may see the same tokens in it, and to nobody beyond the pool.
TEST(Scheduler, GroupsNeverRunOutOfWhatTheyWereAdmittedWith) {
  uint64_t state = 12345;
  const auto random = [&](int n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int>((state >> 33) % n);
  };
  for (int round = 0; round < 200; ++round) {
    Scheduler s(kLimits, Scheduler::Mode::kGenerate);
    struct Mine {
      int first, width, left;
      std::vector<int> live;
      std::set<int> ready;
    };
    std::vector<Mine> groups;
    std::map<int, int> group_of;
    for (int g = 0; g < 5; ++g) {
      const int width = 1 + random(4);
      const std::vector<int32_t> prompt(1 + random(9), g);
      const int fresh = 1 + random(8);
      const auto total = static_cast<int64_t>(prompt.size()) + fresh;
      if (!s.Fits(static_cast<int64_t>(prompt.size()), total, width)) continue;
      const int first = s.Add(prompt, total, width);
      for (int i = 0; i < width; ++i) {
        group_of[first + i] = static_cast<int>(groups.size());
      }
      groups.push_back({first, width, fresh, {first}, {}});
    }
    StepBatch batch;
    int steps = 0;
    while (s.Next(&batch)) {
      ASSERT_LT(++steps, 1000);
      for (const auto& row : s.rows()) {
        Mine& m = groups[group_of[row.sequence]];
        m.ready.insert(row.sequence);
        if (m.ready.size() < m.live.size()) continue;
        m.ready.clear();
        if (--m.left == 0) {
          s.FinishGroup(m.first);
          continue;
        }
        // Some die, some have children, until the group is as wide as it goes.
        std::vector<int> next = m.live;
        while (next.size() > 1 && random(2) == 0) {
          const int at = random(static_cast<int>(next.size()));
          s.Drop(next[at]);
          next.erase(next.begin() + at);
        }
        const size_t parents = next.size();
        while (next.size() < static_cast<size_t>(m.width)) {
          next.push_back(s.Fork(next[random(static_cast<int>(parents))]));
        }
        for (const int sequence : next) s.Append(sequence, 3);
        m.live = next;
      }
    }
    for (const Mine& m : groups) EXPECT_EQ(m.left, 0);
  }
}

TEST(Scheduler, WhatOneGroupGivesUpAnotherGets) {
  // Each group of two takes 1 + 2 * 2 blocks: two of them fit into 12, and the
  // third waits for both slots and blocks of one.
  Scheduler s(kLimits, Scheduler::Mode::kGenerate);
  const std::vector<int32_t> prompt = {1, 2, 3, 4, 5};
  std::vector<int> first;
  for (int i = 0; i < 3; ++i) first.push_back(s.Add(prompt, 12, 2));
  StepBatch batch;
  ASSERT_TRUE(s.Next(&batch));
  EXPECT_EQ(s.rows().size(), 2u);
  const int fork = s.Fork(first[0]);
  s.Append(first[0], 7);
  s.Append(fork, 8);
  ASSERT_TRUE(s.Next(&batch));
  EXPECT_EQ(s.rows().size(), 2u);
  s.Finish(first[0]);
  s.Append(fork, 9);
  ASSERT_TRUE(s.Next(&batch));
  EXPECT_EQ(s.rows().size(), 1u);  // one slot is free, two are needed
  s.Finish(fork);
  ASSERT_TRUE(s.Next(&batch));
  EXPECT_EQ(s.rows()[0].sequence, first[2]);
}

}  // namespace
}  // namespace deepslice
