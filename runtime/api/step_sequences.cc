#include "runtime/api/step_sequences.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/request.h"
#include "schema/base/checked_math.h"
#include "schema/base/status_macros.h"

namespace deepslice {

StepSequences::StepSequences(const ScheduleLimits& limits, int64_t max_seq_len,
                             int64_t vocab)
    : limits_(limits),
      max_seq_len_(max_seq_len),
      vocab_(vocab),
      allocator_(limits.num_blocks),
      lengths_(limits.max_batch, 0),
      taken_(limits.max_batch, 0),
      blocks_(limits.max_batch * limits.blocks_per_seq, 0),
      horizons_(limits.max_batch, static_cast<int32_t>(max_seq_len)) {}

absl::Status StepSequences::Check(absl::Span<const Feed> feeds) const {
  std::vector<bool> fed(lengths_.size(), false);
  for (size_t i = 0; i < feeds.size(); ++i) {
    const Feed& f = feeds[i];
    const int64_t held = length(f.sequence);
    if (held < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("feed ", i, ": sequence ", f.sequence, "; 0 to ",
                       lengths_.size() - 1, " are allowed"));
    }
    if (fed[f.sequence]) {
      return absl::InvalidArgumentError(
          absl::StrCat("feed ", i, ": sequence ", f.sequence,
                       " again; give all its ids in one feed"));
    }
    fed[f.sequence] = true;
    if (f.ids.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("feed ", i, ": no ids; give at least one"));
    }
    const auto more = static_cast<int64_t>(f.ids.size());
    if (more > max_seq_len_ - held) {
      return absl::InvalidArgumentError(
          absl::StrCat("feed ", i, ": sequence ", f.sequence, " holds ", held,
                       " tokens, and ", more,
                       " more exceed the sequence ceiling of ", max_seq_len_,
                       "; truncate it, or compile with a higher "
                       "--max-seq-len"));
    }
    DS_RETURN_IF_ERROR(
        CheckIds(f.ids, vocab_, absl::StrCat("feed ", i, ": id")));
  }
  return absl::OkStatus();
}

absl::Status StepSequences::TakeBlocks(absl::Span<const Feed> feeds) {
  for (size_t i = 0; i < feeds.size(); ++i) {
    const int64_t s = feeds[i].sequence;
    const int64_t tokens =
        lengths_[s] + static_cast<int64_t>(feeds[i].ids.size());
    const int64_t wanted = CeilDiv(tokens, limits_.block_tokens);
    const int64_t free = allocator_.num_free();
    const int64_t more = std::max<int64_t>(wanted - taken_[s], 0);
    if (allocator_.Take(Table(s).subspan(taken_[s], more))) {
      taken_[s] += more;
      continue;
    }
    for (size_t j = 0; j < i; ++j) {
      const int64_t taker = feeds[j].sequence;
      KeepBlocks(taker, CeilDiv(lengths_[taker], limits_.block_tokens));
    }
    return absl::ResourceExhaustedError(
        absl::StrCat("feed ", i, ": sequence ", s, " needs ", more,
                     " more blocks of the cache; ", free, " of ",
                     limits_.num_blocks, " are free; truncate sequences"));
  }
  return absl::OkStatus();
}

void StepSequences::KeepBlocks(int64_t sequence, int64_t count) {
  if (count >= taken_[sequence]) return;
  allocator_.Release(Table(sequence).subspan(count, taken_[sequence] - count));
  taken_[sequence] = count;
}

absl::Status StepSequences::Flush(const RunStep& run,
                                  std::vector<float>* logits) {
  const StepBatch batch = {.ids = ids_,
                           .positions = positions_,
                           .slots = slots_,
                           .blocks = blocks_,
                           .rows = rows_,
                           .samplers = {},
                           .horizons = horizons_};
  DS_ASSIGN_OR_RETURN(const float* rows, run(batch));
  const size_t values = rows_.size() * static_cast<size_t>(vocab_);
  if (values > 0) logits->insert(logits->end(), rows, rows + values);
  for (size_t t = 0; t < ids_.size(); ++t)
    lengths_[slots_[t]] = positions_[t] + 1;
  ids_.clear();
  positions_.clear();
  slots_.clear();
  rows_.clear();
  return absl::OkStatus();
}

absl::Status StepSequences::Run(absl::Span<const Feed> feeds,
                                const RunStep& run,
                                std::vector<float>* logits) {
  DS_RETURN_IF_ERROR(Check(feeds));
  int64_t rows = 0;
  for (const Feed& f : feeds) {
    rows += f.rows == Rows::kAll    ? static_cast<int64_t>(f.ids.size())
            : f.rows == Rows::kLast ? 1
                                    : 0;
  }
  // Before anything runs: memory that is short leaves the sequences alone.
  logits->reserve(logits->size() + rows * vocab_);
  for (auto* v : {&ids_, &positions_, &slots_, &rows_}) {
    v->clear();
    v->reserve(limits_.max_step_tokens);
  }
  DS_RETURN_IF_ERROR(TakeBlocks(feeds));
  for (const Feed& f : feeds) {
    const auto count = static_cast<int64_t>(f.ids.size());
    const int64_t first = lengths_[f.sequence];
    // What comes first is the prompt.
    if (limits_.horizons_are_prompts && first == 0) {
      horizons_[f.sequence] = static_cast<int32_t>(count);
    }
    for (int64_t i = 0; i < count; ++i) {
      if (f.rows == Rows::kAll || (f.rows == Rows::kLast && i + 1 == count)) {
        rows_.push_back(static_cast<int32_t>(ids_.size()));
      }
      ids_.push_back(f.ids[i]);
      positions_.push_back(static_cast<int32_t>(first + i));
      slots_.push_back(static_cast<int32_t>(f.sequence));
      if (static_cast<int64_t>(ids_.size()) == limits_.max_step_tokens) {
        DS_RETURN_IF_ERROR(Flush(run, logits));
      }
    }
  }
  return ids_.empty() ? absl::OkStatus() : Flush(run, logits);
}

absl::Status StepSequences::Truncate(int64_t sequence, int64_t length) {
  const int64_t held = this->length(sequence);
  if (held < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "sequence ", sequence, "; 0 to ", lengths_.size() - 1, " are allowed"));
  }
  if (length < 0 || length > held) {
    return absl::InvalidArgumentError(absl::StrCat(
        "sequence ", sequence, " holds ", held, " tokens; can't be cut to ",
        length, ", 0 to ", held, " are allowed"));
  }
  lengths_[sequence] = length;
  KeepBlocks(sequence, CeilDiv(length, limits_.block_tokens));
  return absl::OkStatus();
}

int64_t StepSequences::length(int64_t sequence) const {
  return sequence >= 0 && sequence < static_cast<int64_t>(lengths_.size())
             ? lengths_[sequence]
             : -1;
}

}  // namespace deepslice
