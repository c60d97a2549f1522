#include "runtime/scheduler.h"

#include <algorithm>
#include <utility>

#include "schema/base/check.h"
#include "schema/base/checked_math.h"

namespace deepslice {

ScheduleLimits ScheduleLimits::Of(const Executor& executor) {
  return {.max_batch = executor.limits().max_batch,
          .max_step_tokens = executor.limits().max_step_tokens,
          .blocks_per_seq = executor.blocks_per_seq(),
          .num_blocks = executor.num_blocks(),
          .block_tokens = executor.block_tokens(),
          .horizons_are_prompts = executor.horizons_are_prompts(),
          .max_source_tokens = executor.max_source_tokens()};
}

Scheduler::Scheduler(const ScheduleLimits& limits, Mode mode)
    : limits_(limits),
      mode_(mode),
      blocks_(limits.num_blocks),
      block_table_(limits.max_batch * limits.blocks_per_seq, 0),
      horizons_(limits.max_batch, 0) {
  active_.reserve(limits.max_batch);
  free_slots_.reserve(limits.max_batch);
  for (int64_t s = limits.max_batch; s-- > 0;) {
    free_slots_.push_back(static_cast<int>(s));
  }
  for (auto* v : {&ids_, &positions_, &slots_, &row_tokens_}) {
    v->reserve(limits.max_step_tokens);
  }
  rows_.reserve(limits.max_step_tokens);
  if (limits.max_source_tokens == 0) return;
  for (int64_t s = limits.max_batch; s-- > 0;) {
    free_sources_.push_back(static_cast<int>(s));
  }
  sources_.assign(2 * limits.max_batch, 0);
  for (auto* v : {&source_ids_, &source_positions_, &source_slots_}) {
    v->reserve(limits.max_source_tokens);
  }
}

Scheduler::Group Scheduler::MakeGroup(int64_t prompt, int64_t total,
                                      int width) const {
  const int64_t cached = mode_ == Mode::kScore ? prompt : total - 1;
  Group g = {};
  g.width = g.most_live = width;
  g.total = std::max(total, prompt);
  g.prompt = prompt;
  g.blocks = CeilDiv(cached, limits_.block_tokens);
  g.shared_blocks = std::min(g.blocks, prompt / limits_.block_tokens);
  return g;
}

bool Scheduler::Fits(int64_t prompt, int64_t total, int width) const {
  const Group g = MakeGroup(prompt, total, width);
  return g.blocks <= limits_.blocks_per_seq && width <= limits_.max_batch &&
         g.Most(width) <= limits_.num_blocks;
}

int Scheduler::Add(const std::vector<int32_t>& tokens, int64_t total,
                   int width, const std::vector<int32_t>& source) {
  const auto prompt = static_cast<int64_t>(tokens.size());
  DS_CHECK(Fits(prompt, total, width) && !tokens.empty() &&
           static_cast<int64_t>(source.size()) <= limits_.max_source_tokens);
  Group g = MakeGroup(prompt, total, width);
  g.first = static_cast<int>(sequences_.size());
  for (int i = 0; i < width; ++i) {
    Sequence& s = sequences_.emplace_back();
    s.group = static_cast<int>(groups_.size());
  }
  sequences_[g.first].tokens = tokens;
  g.source = source;
  groups_.push_back(std::move(g));
  return groups_.back().first;
}

void Scheduler::Activate(int sequence) {
  Sequence& s = sequences_[sequence];
  s.slot = free_slots_.back();
  free_slots_.pop_back();
  active_.push_back(sequence);
  s.tokens.reserve(groups_[s.group].total);
  Group& g = groups_[s.group];
  horizons_[s.slot] =
      static_cast<int32_t>(limits_.horizons_are_prompts ? g.prompt : g.total);
  ++g.live;
  --promised_slots_;
  if (g.source.empty()) return;
  if (g.source_slot < 0) {
    g.source_slot = free_sources_.back();
    free_sources_.pop_back();
  }
  sources_[2 * s.slot] = g.source_slot;
  sources_[2 * s.slot + 1] = static_cast<int32_t>(g.source.size());
}

void Scheduler::ReleaseSource(Group* g) {
  if (g->source_slot < 0) return;
  free_sources_.push_back(g->source_slot);
  g->source_slot = -1;
}

void Scheduler::EmitSources() {
  for (auto* v : {&source_ids_, &source_positions_, &source_slots_}) v->clear();
  for (const int sequence : active_) {
    Group& g = groups_[sequences_[sequence].group];
    const size_t after = source_ids_.size() + g.source.size();
    if (g.source.empty() || g.source_runs ||
        static_cast<int64_t>(after) > limits_.max_source_tokens) {
      continue;
    }
    g.source_runs = true;
    source_ids_.insert(source_ids_.end(), g.source.begin(), g.source.end());
    for (size_t p = 0; p < g.source.size(); ++p) {
      source_positions_.push_back(static_cast<int32_t>(p));
      source_slots_.push_back(g.source_slot);
    }
  }
}

void Scheduler::Deactivate(int sequence) {
  Sequence& s = sequences_[sequence];
  Group& g = groups_[s.group];
  const auto at = std::find(active_.begin(), active_.end(), sequence);
  DS_CHECK(at != active_.end());
  const size_t index = at - active_.begin();
  if (index < decode_start_) --decode_start_;
  active_.erase(at);
  if (decode_start_ >= active_.size()) decode_start_ = 0;
  int32_t* row = BlockRow(s.slot);
  const int64_t freed = blocks_.Release(absl::MakeConstSpan(row, g.blocks));
  std::fill_n(row, limits_.blocks_per_seq, 0);
  free_slots_.push_back(s.slot);
  s.slot = -1;
  --g.live;
  g.held -= freed;
  promised_blocks_ += freed;
  ++promised_slots_;
}

void Scheduler::Admit() {
  while (next_waiting_ < groups_.size()) {
    Group& g = groups_[next_waiting_];
    const auto slots = static_cast<int64_t>(free_slots_.size());
    // The first in line waits for its blocks and nobody overtakes it: it would
    // starve behind shorter ones.
    if (slots - promised_slots_ < g.width ||
        blocks_.num_free() - promised_blocks_ < g.Most(g.width)) {
      return;
    }
    ++next_waiting_;
    promised_slots_ += g.width;
    promised_blocks_ += g.Most(g.width) - g.blocks;
    Activate(g.first);
    g.held = g.blocks;
    DS_CHECK(blocks_.Take(
        absl::MakeSpan(BlockRow(sequences_[g.first].slot), g.blocks)));
  }
}

int Scheduler::Fork(int parent) {
  const Sequence& from = sequences_[parent];
  Group& g = groups_[from.group];
  DS_CHECK(from.slot >= 0 && from.waits && g.live < g.most_live);
  int child = g.first;
  while (sequences_[child].slot >= 0 || sequences_[child].finished) ++child;
  Sequence& to = sequences_[child];
  const int64_t full = from.cached / limits_.block_tokens;
  to.tokens.assign(from.tokens.begin(), from.tokens.end());
  to.cached = full * limits_.block_tokens;
  to.waits = true;
  Activate(child);
  const int32_t* shared = BlockRow(from.slot);
  int32_t* row = BlockRow(to.slot);
  std::copy_n(shared, full, row);
  blocks_.Share(absl::MakeConstSpan(row, full));
  const int64_t own = g.blocks - full;
  DS_CHECK(blocks_.Take(absl::MakeSpan(row + full, own)));
  g.held += own;
  promised_blocks_ -= own;
  return child;
}

void Scheduler::Drop(int sequence) { Deactivate(sequence); }

void Scheduler::Finish(int sequence) {
  Deactivate(sequence);
  Sequence& s = sequences_[sequence];
  Group& g = groups_[s.group];
  s.finished = true;
  s.tokens = {};
  promised_blocks_ -= g.Most(g.most_live) - g.Most(g.most_live - 1);
  --promised_slots_;
  --g.most_live;
  if (g.most_live == 0) ReleaseSource(&g);
}

void Scheduler::FinishGroup(int sequence) {
  Group& g = groups_[sequences_[sequence].group];
  for (int i = g.first; i < g.first + g.width; ++i) {
    if (sequences_[i].slot >= 0) Deactivate(i);
    sequences_[i].finished = true;
    sequences_[i].tokens = {};
  }
  promised_blocks_ -= g.Most(g.most_live);
  promised_slots_ -= g.most_live;
  g.most_live = 0;
  ReleaseSource(&g);
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
  s.waits = s.pending() == 0;
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
  EmitSources();
  int64_t room = limits_.max_step_tokens;

  if (mode_ == Mode::kGenerate) {
    // When not all of them fit into one step, the next begins where this ended.
    const size_t n = active_.size();
    size_t i = 0;
    for (; i < n && room > 0; ++i) {
      const int sequence = active_[(decode_start_ + i) % n];
      if (sequences_[sequence].pending() != 1 || !CanRun(sequence)) continue;
      Emit(sequence, 1);
      --room;
    }
    decode_start_ = i == n ? 0 : (decode_start_ + i) % n;
  }
  for (const int sequence : active_) {
    if (room == 0) break;
    if (!CanRun(sequence)) continue;
    const int64_t count = std::min(room, sequences_[sequence].pending());
    Emit(sequence, count);
    room -= count;
  }
  *batch = {ids_, positions_, slots_, block_table_, row_tokens_, {}, horizons_};
  batch->source_ids = source_ids_;
  batch->source_positions = source_positions_;
  batch->source_slots = source_slots_;
  batch->sources = sources_;
  return !ids_.empty();
}

void Scheduler::Append(int sequence, int32_t token) {
  Sequence& s = sequences_[sequence];
  DS_CHECK(s.slot >= 0 && s.waits);
  s.tokens.push_back(token);
  s.waits = false;
}

}  // namespace deepslice
