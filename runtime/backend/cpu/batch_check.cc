#include "runtime/backend/cpu/batch_check.h"

#include "absl/strings/str_cat.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

template <typename... Text>
absl::Status Bad(const Text&... text) {
  return absl::InvalidArgumentError(absl::StrCat("step: ", text...));
}

absl::Status OutOfRange(const char* what, int64_t index, int64_t value,
                        int64_t end) {
  return Bad(what, "[", index, "] is ", value, "; 0 to ", end - 1,
             " are allowed");
}

}  // namespace

absl::Status BatchCheck::CheckCounts(const StepBatch& b) const {
  const int64_t tokens = b.ids.size(), rows = b.rows.size();
  if (tokens < 1 || tokens > sizes_.limits.max_step_tokens) {
    return Bad(tokens, " tokens; 1 to ", sizes_.limits.max_step_tokens,
               " are allowed");
  }
  if (b.positions.size() != b.ids.size() || b.slots.size() != b.ids.size()) {
    return Bad(tokens, " ids, ", b.positions.size(), " positions and ",
               b.slots.size(), " slots; as many of each are allowed");
  }
  if (!b.samplers.empty() && b.samplers.size() != b.rows.size()) {
    return Bad(b.samplers.size(), " samplers for ", rows,
               " rows; one for each, or none, are allowed");
  }
  if (rows > sizes_.max_rows) {
    return Bad(rows, " rows; at most ", sizes_.max_rows, " are allowed");
  }
  const int64_t table = sizes_.num_blocks;
  if (static_cast<int64_t>(b.blocks.size()) != table) {
    return Bad("a block table of ", b.blocks.size(), " entries; ",
               sizes_.limits.max_batch, " x ", sizes_.blocks_per_seq,
               " are wanted");
  }
  const auto horizons = static_cast<int64_t>(b.horizons.size());
  if (horizons != sizes_.limits.max_batch &&
      (horizons > 0 || sizes_.reads_horizons)) {
    return Bad(horizons, " horizons; ", sizes_.limits.max_batch, " are wanted");
  }
  for (int64_t r = 0; r < rows; ++r) {
    if (b.rows[r] < 0 || b.rows[r] >= tokens) {
      return OutOfRange("rows", r, b.rows[r], tokens);
    }
  }
  return absl::OkStatus();
}

absl::Status BatchCheck::CheckToken(const StepBatch& b, int64_t t) {
  if (b.ids[t] < -previous_rows_ || b.ids[t] >= vocab_) {
    return OutOfRange("ids", t, b.ids[t], vocab_);
  }
  if (b.slots[t] < 0 || b.slots[t] >= sizes_.limits.max_batch) {
    return OutOfRange("slots", t, b.slots[t], sizes_.limits.max_batch);
  }
  if (b.positions[t] < 0 || b.positions[t] >= sizes_.limits.max_seq_len) {
    return OutOfRange("positions", t, b.positions[t],
                      sizes_.limits.max_seq_len);
  }
  if (t > 0 && b.slots[t] == b.slots[t - 1]) {
    if (b.positions[t] == b.positions[t - 1] + 1) return absl::OkStatus();
    return Bad("positions[", t, "] is ", b.positions[t], " after ",
               b.positions[t - 1], " in slot ", b.slots[t],
               "; the next one is wanted");
  }
  int64_t& last = last_step_[b.slots[t]];
  if (last == step_) {
    return Bad("slots[", t, "] is ", b.slots[t],
               " again; tokens of a slot must be side by side");
  }
  last = step_;
  return absl::OkStatus();
}

absl::Status BatchCheck::CheckBlocks(const StepBatch& b, int64_t t) const {
  const int64_t first = b.slots[t] * sizes_.blocks_per_seq;
  const int64_t end = first + b.positions[t] / sizes_.block_tokens + 1;
  for (int64_t i = first; i < end; ++i) {
    if (b.blocks[i] < 0 || b.blocks[i] >= sizes_.num_blocks) {
      return OutOfRange("blocks", i, b.blocks[i], sizes_.num_blocks);
    }
  }
  return absl::OkStatus();
}

absl::Status BatchCheck::Check(const StepBatch& b, int64_t previous_rows) {
  ++step_;
  previous_rows_ = previous_rows;
  DS_RETURN_IF_ERROR(CheckCounts(b));
  const int64_t tokens = b.ids.size();
  for (int64_t t = 0; t < tokens; ++t) {
    DS_RETURN_IF_ERROR(CheckToken(b, t));
    const bool last_of_slot = t + 1 == tokens || b.slots[t + 1] != b.slots[t];
    if (last_of_slot && has_states_) DS_RETURN_IF_ERROR(CheckBlocks(b, t));
  }
  return absl::OkStatus();
}

}  // namespace deepslice
