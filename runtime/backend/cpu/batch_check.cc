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
  const int64_t least = b.image_rows.empty() ? 1 : 0;
  if (tokens < least || tokens > sizes_.limits.max_step_tokens) {
    return Bad(tokens, " tokens; ", least, " to ",
               sizes_.limits.max_step_tokens, " are allowed");
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
  if (static_cast<int64_t>(b.blocks.size()) != table &&
      (has_states_ || !b.blocks.empty())) {
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
  const bool first = t == 0 || b.slots[t] != b.slots[t - 1];
  if (sizes_.encodes && first && b.positions[t] != 0) {
    return Bad("positions[", t, "] is ", b.positions[t],
               " where a sequence begins; 0 is wanted");
  }
  if (!first) {
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

absl::Status BatchCheck::CheckTypes(const StepBatch& b) const {
  if (!sizes_.reads_types) return absl::OkStatus();
  if (b.types.size() != b.ids.size()) {
    return Bad(b.types.size(), " types for ", b.ids.size(), " ids");
  }
  for (size_t t = 0; t < b.types.size(); ++t) {
    if (b.types[t] < 0 || b.types[t] >= types_) {
      return OutOfRange("types", t, b.types[t], types_);
    }
  }
  return absl::OkStatus();
}

absl::Status BatchCheck::CheckWhole(const char* what,
                                    absl::Span<const int32_t> positions,
                                    absl::Span<const int32_t> slots,
                                    int64_t most,
                                    std::vector<int64_t>* last) const {
  const auto tokens = static_cast<int64_t>(slots.size());
  if (tokens > most || positions.size() != slots.size()) {
    return Bad(tokens, " ", what, " slots and ", positions.size(),
               " positions; as many, at most ", most, ", are allowed");
  }
  for (int64_t t = 0; t < tokens; ++t) {
    if (slots[t] < 0 || slots[t] >= static_cast<int64_t>(last->size())) {
      return OutOfRange(what, t, slots[t], last->size());
    }
    const bool first = t == 0 || slots[t] != slots[t - 1];
    if (positions[t] != (first ? 0 : positions[t - 1] + 1)) {
      return Bad(what, " positions[", t, "] is ", positions[t],
                 "; they count from 0 in each slot");
    }
    if (!first) continue;
    if ((*last)[slots[t]] == step_) {
      return Bad(what, " slots[", t, "] is ", slots[t],
                 " again; tokens of a slot must be side by side");
    }
    (*last)[slots[t]] = step_;
  }
  return absl::OkStatus();
}

absl::Status BatchCheck::CheckSources(const StepBatch& b) {
  const int64_t most =
      sizes_.sources_dim < 0 ? 0 : sizes_.dims[sizes_.sources_dim];
  if (b.source_ids.size() != b.source_slots.size()) {
    return Bad(b.source_ids.size(), " source ids for ", b.source_slots.size(),
               " slots");
  }
  DS_RETURN_IF_ERROR(CheckWhole("source", b.source_positions, b.source_slots,
                                most, &last_source_));
  for (size_t t = 0; t < b.source_ids.size(); ++t) {
    if (b.source_ids[t] < 0 || b.source_ids[t] >= vocab_) {
      return OutOfRange("source_ids", t, b.source_ids[t], vocab_);
    }
    sources_[b.source_slots[t]] = b.source_positions[t] + 1;
  }
  const int64_t wanted = most == 0 ? 0 : 2 * sizes_.limits.max_batch;
  if (static_cast<int64_t>(b.sources.size()) == wanted) {
    return absl::OkStatus();
  }
  return Bad(b.sources.size(), " numbers of sources; ", wanted, " are wanted");
}

absl::Status BatchCheck::CheckSourceOf(const StepBatch& b,
                                       int64_t slot) const {
  const int32_t source = b.sources[2 * slot], keys = b.sources[2 * slot + 1];
  if (source < 0 || source >= sizes_.limits.max_batch) {
    return OutOfRange("sources", 2 * slot, source, sizes_.limits.max_batch);
  }
  if (keys < 1 || keys > sources_[source]) {
    return Bad("slot ", slot, " reads ", keys, " keys of source ", source,
               ", which holds ", sources_[source]);
  }
  return absl::OkStatus();
}

absl::Status BatchCheck::CheckImages(const StepBatch& b) {
  const int64_t most =
      sizes_.images_dim < 0 ? 0 : sizes_.dims[sizes_.image_tokens_dim];
  DS_RETURN_IF_ERROR(CheckWhole("image", b.image_positions, b.image_slots,
                                most, &last_image_));
  const auto tokens = static_cast<int64_t>(b.image_slots.size());
  if (static_cast<int64_t>(b.pixels.size()) != tokens * sizes_.pixel_cols) {
    return Bad(b.pixels.size(), " pixels; ", tokens, " patches of ",
               sizes_.pixel_cols, " are wanted");
  }
  if (static_cast<int64_t>(b.image_rows.size()) > MostImages(sizes_)) {
    return Bad(b.image_rows.size(), " images; at most ", MostImages(sizes_),
               " are allowed");
  }
  for (size_t i = 0; i < b.image_rows.size(); ++i) {
    if (b.image_rows[i] < 0 || b.image_rows[i] >= tokens) {
      return OutOfRange("image_rows", i, b.image_rows[i], tokens);
    }
  }
  return absl::OkStatus();
}

absl::Status BatchCheck::Check(const StepBatch& b, int64_t previous_rows) {
  ++step_;
  previous_rows_ = previous_rows;
  DS_RETURN_IF_ERROR(CheckCounts(b));
  DS_RETURN_IF_ERROR(CheckTypes(b));
  DS_RETURN_IF_ERROR(CheckSources(b));
  const int64_t tokens = b.ids.size();
  for (int64_t t = 0; t < tokens; ++t) {
    DS_RETURN_IF_ERROR(CheckToken(b, t));
    const bool last_of_slot = t + 1 == tokens || b.slots[t + 1] != b.slots[t];
    if (!last_of_slot) continue;
    if (has_states_) DS_RETURN_IF_ERROR(CheckBlocks(b, t));
    if (sizes_.sources_dim >= 0) {
      DS_RETURN_IF_ERROR(CheckSourceOf(b, b.slots[t]));
    }
  }
  return CheckImages(b);
}

}  // namespace deepslice
