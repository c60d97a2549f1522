// The table of slots.
#include "compiler/weight_slot.h"

namespace deepslice {
namespace {

using D = SlotDim;

constexpr WeightSlot kSlots[] = {
    {"embed", false, Role::kEmbed, D::kVocab, D::kEmbed},
    {"embed_in", false, Role::kEmbedProjection, D::kHidden, D::kEmbed},
    {"embed_norm", false, Role::kNorm, D::kHidden, D::kNone},
    {"embed_norm.bias", false, Role::kNorm, D::kHidden, D::kNone},
    {"pos_embed", false, Role::kPosEmbed, D::kPositions, D::kHidden},
    {"attn_norm", true, Role::kNorm, D::kHidden, D::kNone},
    {"attn_norm.bias", true, Role::kNorm, D::kHidden, D::kNone},
    {"attn_q", true, Role::kAttnQ, D::kQuery, D::kHidden},
    {"attn_q.bias", true, Role::kAttnQBias, D::kQuery, D::kNone},
    {"attn_k", true, Role::kAttnK, D::kKv, D::kHidden},
    {"attn_k.bias", true, Role::kAttnKBias, D::kKv, D::kNone},
    {"attn_v", true, Role::kAttnV, D::kKv, D::kHidden},
    {"attn_v.bias", true, Role::kAttnVBias, D::kKv, D::kNone},
    {"attn_q_norm", true, Role::kAttnQNorm, D::kQueryNorm, D::kNone},
    {"attn_q_norm.bias", true, Role::kAttnQNorm, D::kQueryNorm, D::kNone},
    {"attn_k_norm", true, Role::kAttnKNorm, D::kKeyNorm, D::kNone},
    {"attn_k_norm.bias", true, Role::kAttnKNorm, D::kKeyNorm, D::kNone},
    {"attn_out", true, Role::kAttnOut, D::kHidden, D::kQuery},
    {"attn_out.bias", true, Role::kAttnOutBias, D::kHidden, D::kNone},
    {"attn_post_norm", true, Role::kNorm, D::kHidden, D::kNone},
    {"attn_post_norm.bias", true, Role::kNorm, D::kHidden, D::kNone},
    {"mlp_norm", true, Role::kNorm, D::kHidden, D::kNone},
    {"mlp_norm.bias", true, Role::kNorm, D::kHidden, D::kNone},
    {"mlp_gate", true, Role::kMlpGate, D::kInner, D::kHidden},
    {"mlp_gate.bias", true, Role::kMlpGateBias, D::kInner, D::kNone},
    {"mlp_up", true, Role::kMlpUp, D::kInner, D::kHidden},
    {"mlp_up.bias", true, Role::kMlpUpBias, D::kInner, D::kNone},
    {"mlp_out", true, Role::kMlpOut, D::kHidden, D::kInner},
    {"mlp_out.bias", true, Role::kMlpOutBias, D::kHidden, D::kNone},
    {"mlp_post_norm", true, Role::kNorm, D::kHidden, D::kNone},
    {"mlp_post_norm.bias", true, Role::kNorm, D::kHidden, D::kNone},
    {"final_norm", false, Role::kNorm, D::kHidden, D::kNone},
    {"final_norm.bias", false, Role::kNorm, D::kHidden, D::kNone},
    {"embed_out", false, Role::kEmbedProjection, D::kEmbed, D::kHidden},
    {"head", false, Role::kHead, D::kVocab, D::kEmbed},
    {"head.bias", false, Role::kHeadBias, D::kVocab, D::kNone},
};

}  // namespace

absl::Span<const WeightSlot> AllWeightSlots() { return kSlots; }

const WeightSlot* FindWeightSlot(absl::string_view name) {
  for (const WeightSlot& slot : kSlots) {
    if (slot.name == name) return &slot;
  }
  return nullptr;
}

}  // namespace deepslice
