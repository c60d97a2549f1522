// The places that weights can take in a model's graph: name, role and shape.
#ifndef DEEPSLICE_COMPILER_WEIGHT_SLOT_H_
#define DEEPSLICE_COMPILER_WEIGHT_SLOT_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "schema/roles.h"

namespace deepslice {

enum class SlotDim {
  kNone,  // of a vector's columns
  kVocab,
  kPositions,  // learned positions
  kHidden,
  kQuery,  // heads * head_dim
  kKv,     // kv_heads * head_dim
  kInner,
  kEmbed,      // columns of the embedding
  kQueryNorm,  // by ModelDescription::qk_norm: one head, or all
  kKeyNorm,
  // Of latent attention: all heads' parts, ranks of the latents, what queries
  // are made of.
  kQueryNope,
  kQueryRope,
  kValue,
  kRope,
  kLatent,
  kQueryLatent,
  kQuerySource,
  kAttended,  // columns of attn_out: heads * head_dim, or * value_dim
  kTypes,   // token types
  kLabels,  // classes
  kOne,
  kHeads,
  kBuckets,  // of relative positions
  kPatch,    // channels * patch_size * patch_size
  kProjection,
};

struct WeightSlot {
  absl::string_view name;  // in the graph, after "layers.N." when per_layer
  bool per_layer;
  Role role;
  SlotDim rows, cols;
};

// nullptr when there is none of that name.
const WeightSlot* FindWeightSlot(absl::string_view name);
absl::Span<const WeightSlot> AllWeightSlots();

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_WEIGHT_SLOT_H_
