#include "compiler/model_slots.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace deepslice {
namespace {

LatentSizes LatentOf(const ModelDescription& model) {
  return model.latent.value_or(LatentSizes());
}

// Whether one weight serves the norm of every head.
bool NormsHeads(const ModelDescription& model) {
  return model.qk_norm == QkNorm::kHeadRms ||
         model.qk_norm == QkNorm::kHeadLayerShared;
}

}  // namespace

int64_t SlotSize(const ModelDescription& model, SlotDim dim) {
  switch (dim) {
    case SlotDim::kNone:
      return 1;
    case SlotDim::kVocab:
      return model.vocab_size;
    case SlotDim::kPositions:
      return model.max_positions;
    case SlotDim::kHidden:
      return model.hidden_size;
    case SlotDim::kQuery:
      return model.heads * model.head_dim;
    case SlotDim::kKv:
      return model.kv_heads * model.head_dim;
    case SlotDim::kInner:
      return model.inner_size;
    case SlotDim::kEmbed:
      return model.embed_dim;
    case SlotDim::kTypes:
      return model.types;
    case SlotDim::kLabels:
      return static_cast<int64_t>(model.labels.size());
    case SlotDim::kOne:
      return 1;
    case SlotDim::kHeads:
      return model.heads;
    case SlotDim::kBuckets:
      return model.rel_buckets;
    case SlotDim::kPatch:
      return model.channels * model.patch_size * model.patch_size;
    case SlotDim::kProjection:
      return model.projection_size;
    case SlotDim::kQueryNorm:
      return NormsHeads(model) ? model.head_dim : model.heads * model.head_dim;
    case SlotDim::kQueryNope:
      return model.heads * LatentOf(model).nope_dim;
    case SlotDim::kQueryRope:
      return model.heads * LatentOf(model).rope_dim;
    case SlotDim::kValue:
      return model.heads * LatentOf(model).value_dim;
    case SlotDim::kRope:
      return LatentOf(model).rope_dim;
    case SlotDim::kLatent:
      return LatentOf(model).rank;
    case SlotDim::kQueryLatent:
      return LatentOf(model).query_rank;
    case SlotDim::kQuerySource:
      return LatentOf(model).query_rank > 0 ? LatentOf(model).query_rank
                                            : model.hidden_size;
    case SlotDim::kAttended:
      return model.heads * (model.latent.has_value() ? model.latent->value_dim
                                                     : model.head_dim);
    case SlotDim::kKeyNorm:
      return NormsHeads(model) ? model.head_dim
                               : model.kv_heads * model.head_dim;
  }
  return 0;
}

bool IsOfHead(const WeightPattern& pattern, const ModelFlags& flags) {
  return pattern.of.empty() || std::find(pattern.of.begin(), pattern.of.end(),
                                         flags.head) != pattern.of.end();
}

bool IsWanted(const WeightPattern& pattern, const ModelFlags& flags) {
  return IsOfHead(pattern, flags) &&
         (pattern.flag.empty() || flags.biases.at(pattern.flag).value) &&
         (pattern.not_flag.empty() || !flags.biases.at(pattern.not_flag).value);
}

Role SlotRole(const ModelDescription& model, const WeightSlot& slot) {
  const bool of_heads =
      slot.rows == SlotDim::kQueryNorm || slot.rows == SlotDim::kKeyNorm;
  return of_heads && NormsHeads(model) ? Role::kNorm : slot.role;
}

int64_t FirstRow(const WeightPattern& pattern, const ModelFlags& flags) {
  return pattern.slots[0]->rows == SlotDim::kPositions ? flags.position_offset
                                                       : 0;
}

std::vector<int64_t> PublishedShape(const WeightPattern& pattern,
                                    const ModelDescription& model,
                                    const ModelFlags& flags) {
  int64_t rows = FirstRow(pattern, flags);
  for (const WeightSlot* slot : pattern.slots) {
    rows += SlotSize(model, slot->rows);
  }
  std::vector<int64_t> shape = {rows};
  if (pattern.slots[0]->cols == SlotDim::kPatch) {
    return {rows, model.channels, model.patch_size, model.patch_size};
  }
  if (pattern.slots[0]->cols != SlotDim::kNone) {
    shape.push_back(SlotSize(model, pattern.slots[0]->cols));
    if (pattern.transposed) std::swap(shape[0], shape[1]);
  }
  return shape;
}

ModelWeight NewWeight(const ModelDescription& model, const WeightSlot& slot,
                      int64_t layer) {
  ModelWeight w;
  w.name = slot.per_layer ? absl::StrCat("layers.", layer, ".", slot.name)
                          : std::string(slot.name);
  if (!model.tower.empty()) {
    w.name = absl::StrCat(model.tower, ".", w.name);
  }
  w.role = SlotRole(model, slot);
  w.shape = {SlotSize(model, slot.rows)};
  if (slot.cols != SlotDim::kNone)
    w.shape.push_back(SlotSize(model, slot.cols));
  const bool is_norm = w.role == Role::kNorm || w.role == Role::kAttnQNorm ||
                       w.role == Role::kAttnKNorm;
  if (is_norm && !absl::EndsWith(slot.name, ".bias")) {
    w.source.plus = model.norm_offset;
  }
  return w;
}

void PlaceRows(const ModelDescription& model, const WeightPattern& pattern,
               RowLayout layout, size_t index, SourcePiece* piece) {
  const int64_t dim = model.head_dim;
  const auto slots = static_cast<int64_t>(pattern.slots.size());
  const auto at = static_cast<int64_t>(index);
  const int64_t group = model.heads / model.kv_heads;
  switch (layout) {
    case RowLayout::kThirds:
      break;
    case RowLayout::kPerHead:
      // Parts may differ in size.
      for (int64_t i = 0; i < slots; ++i) {
        const int64_t rows =
            SlotSize(model, pattern.slots[i]->rows) / model.heads;
        piece->every += rows;
        if (i < at) piece->from += rows;
        if (i == at) piece->block = rows;
      }
      break;
    case RowLayout::kPerGroup:
      piece->block = at == 0 ? group * dim : dim;
      piece->every = (group + 2) * dim;
      piece->from = at == 0 ? 0 : (group + at - 1) * dim;
      break;
    case RowLayout::kPerRow:
      piece->block = 1;
      piece->every = slots;
      piece->from = at;
      break;
  }
}

}  // namespace deepslice
