#include "runtime/scheduler.h"

#include <algorithm>

#include "schema/base/check.h"
#include "schema/base/checked_math.h"

namespace deepslice {

ScheduleLimits ScheduleLimits::Of(const Executor& executor) {
  return {.max_batch = executor.limits().max_batch,
          .max_step_tokens = executor.limits().max_step_tokens,
          .blocks_per_seq = executor.blocks_per_seq(),
          .num_blocks = executor.num_blocks(),
          .block_tokens = executor.block_tokens()};
}

Scheduler::Scheduler(const ScheduleLimits& limits, Mode mode)
    : limits_(limits),
      mode_(mode),
      blocks_(limits.num_blocks),
      block_table_(limits.max_batch * limits.blocks_per_seq, 0) {
  active_.reserve(limits.max_batch);
  free_slots_.reserve(limits.max_batch);
  for (int64_t s = limits.max_batch; s-- > 0;) {
    free_slots_.push_back(static_cast<int>(s));
  }
  for (auto* v : {&ids_, &positions_, &slots_, &row_tokens_}) {
    v->reserve(limits.max_step_tokens);
  }
  rows_.reserve(limits.max_step_tokens);
}

int Scheduler::Add(const std::vector<int32_t>& tokens, int64_t total) {
  const int64_t cached =
      mode_ == Mode::kScore ? static_cast<int64_t>(tokens.size()) : total - 1;
  Sequence s;
  s.num_blocks = CeilDiv(cached, limits_.block_tokens);
  DS_CHECK(s.num_blocks <= limits_.blocks_per_seq &&
           s.num_blocks <= limits_.num_blocks && !tokens.empty());
  s.tokens.reserve(total);
  s.tokens = tokens;
  sequences_.push_back(std::move(s));
  return static_cast<int>(sequences_.size()) - 1;
}

void Scheduler::Admit() {
  while (next_waiting_ < static_cast<int>(sequences_.size()) &&
         !free_slots_.empty()) {
    Sequence& s = sequences_[next_waiting_];
    // The first in line waits for its blocks and nobody overtakes it: it would
    // starve behind shorter ones.
    if (!blocks_.Take(
            absl::MakeSpan(BlockRow(free_slots_.back()), s.num_blocks))) {
      return;
    }
    s.slot = free_slots_.back();
    free_slots_.pop_back();
    active_.push_back(next_waiting_++);
  }
}

void Scheduler::Emit(int sequence, int64_t count) {
  Sequence& s = sequences_[sequence];
  for (int64_t i = 0; i < count; ++i) {
    const int64_t position = s.cached + i;
    const bool last = position + 1 == static_cast<int64_t>(s.tokens.size());
    if (last || mode_ == Mode::kScore) {
      row_tokens_.push_back(static_cast<int32_t>(ids_.size()));
      rows_.push_back({sequence, position});
    }
    ids_.push_back(s.tokens[position]);
    positions_.push_back(static_cast<int32_t>(position));
    slots_.push_back(s.slot);
  }
  s.cached += count;
}

bool Scheduler::Next(StepBatch* batch) {
  if (mode_ == Mode::kScore) {
    // Sequences that ran to their end in the step before are done.
    while (!active_.empty() && sequences_[active_.front()].pending() == 0) {
      Finish(active_.front());
    }
  }
  Admit();
  if (active_.empty()) return false;
  for (auto* v : {&ids_, &positions_, &slots_, &row_tokens_}) v->clear();
  rows_.clear();
  int64_t room = limits_.max_step_tokens;

  if (mode_ == Mode::kGenerate) {
    // When not all of them fit into one step, the next begins where this ended.
    const size_t n = active_.size();
    size_t i = 0;
    for (; i < n && room > 0; ++i) {
      const int sequence = active_[(decode_start_ + i) % n];
      if (sequences_[sequence].pending() != 1) continue;
      Emit(sequence, 1);
      --room;
    }
    decode_start_ = i == n ? 0 : (decode_start_ + i) % n;
  }
  for (const int sequence : active_) {
    if (room == 0) break;
    const int64_t count = std::min(room, sequences_[sequence].pending());
    Emit(sequence, count);
    room -= count;
  }
  *batch = {ids_, positions_, slots_, block_table_, row_tokens_, {}};
  return !ids_.empty();
}

void Scheduler::Append(int sequence, int32_t token) {
  DS_CHECK(sequences_[sequence].pending() == 0);
  sequences_[sequence].tokens.push_back(token);
}

void Scheduler::Finish(int sequence) {
  Sequence& s = sequences_[sequence];
  const auto at = std::find(active_.begin(), active_.end(), sequence);
  DS_CHECK(at != active_.end());
  const size_t index = at - active_.begin();
  if (index < decode_start_) --decode_start_;
  active_.erase(at);
  if (decode_start_ >= active_.size()) decode_start_ = 0;
  int32_t* row = BlockRow(s.slot);
  blocks_.Release(absl::MakeConstSpan(row, s.num_blocks));
  std::fill_n(row, limits_.blocks_per_seq, 0);
  free_slots_.push_back(s.slot);
  s.slot = -1;
}

}  // namespace deepslice
