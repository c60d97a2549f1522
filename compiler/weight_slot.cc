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
    {"attn_q_down", true, Role::kAttnDown, D::kQueryLatent, D::kHidden},
    {"attn_q_down.bias", true, Role::kNorm, D::kQueryLatent, D::kNone},
    {"attn_q_down_norm", true, Role::kNorm, D::kQueryLatent, D::kNone},
    {"attn_q_nope", true, Role::kAttnQ, D::kQueryNope, D::kQuerySource},
    {"attn_q_rope", true, Role::kAttnQ, D::kQueryRope, D::kQuerySource},
    {"attn_latent", true, Role::kAttnDown, D::kLatent, D::kHidden},
    {"attn_latent.bias", true, Role::kNorm, D::kLatent, D::kNone},
    {"attn_latent_norm", true, Role::kNorm, D::kLatent, D::kNone},
    {"attn_k_rope", true, Role::kAttnDown, D::kRope, D::kHidden},
    {"attn_k_rope.bias", true, Role::kNorm, D::kRope, D::kNone},
    {"attn_k_up", true, Role::kAttnUp, D::kQueryNope, D::kLatent},
    {"attn_v_up", true, Role::kAttnUp, D::kValue, D::kLatent},
    {"attn_out", true, Role::kAttnOut, D::kHidden, D::kAttended},
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
    {"patch_embed", false, Role::kPatchEmbed, D::kHidden, D::kPatch},
    {"patch_embed.bias", false, Role::kTaskHeadBias, D::kHidden, D::kNone},
    {"class_embed", false, Role::kPosEmbed, D::kOne, D::kHidden},
    {"projection", false, Role::kTaskHead, D::kProjection, D::kHidden},
    {"rel_bias", false, Role::kRelBias, D::kHeads, D::kBuckets},
    {"cross_norm", true, Role::kNorm, D::kHidden, D::kNone},
    {"cross_norm.bias", true, Role::kNorm, D::kHidden, D::kNone},
    {"cross_q", true, Role::kAttnQ, D::kQuery, D::kHidden},
    {"cross_q.bias", true, Role::kAttnQBias, D::kQuery, D::kNone},
    {"cross_k", true, Role::kAttnK, D::kKv, D::kHidden},
    {"cross_k.bias", true, Role::kAttnKBias, D::kKv, D::kNone},
    {"cross_v", true, Role::kAttnV, D::kKv, D::kHidden},
    {"cross_v.bias", true, Role::kAttnVBias, D::kKv, D::kNone},
    {"cross_out", true, Role::kAttnOut, D::kHidden, D::kQuery},
    {"cross_out.bias", true, Role::kAttnOutBias, D::kHidden, D::kNone},
    {"type_embed", false, Role::kTypeEmbed, D::kTypes, D::kHidden},
    {"pooler", false, Role::kTaskHead, D::kHidden, D::kHidden},
    {"pooler.bias", false, Role::kTaskHeadBias, D::kHidden, D::kNone},
    {"classifier", false, Role::kTaskHead, D::kLabels, D::kHidden},
    {"classifier.bias", false, Role::kTaskHeadBias, D::kLabels, D::kNone},
    {"qa_start", false, Role::kTaskHead, D::kOne, D::kHidden},
    {"qa_start.bias", false, Role::kTaskHeadBias, D::kOne, D::kNone},
    {"qa_end", false, Role::kTaskHead, D::kOne, D::kHidden},
    {"qa_end.bias", false, Role::kTaskHeadBias, D::kOne, D::kNone},
    {"mlm_dense", false, Role::kTaskHead, D::kHidden, D::kHidden},
    {"mlm_dense.bias", false, Role::kTaskHeadBias, D::kHidden, D::kNone},
    {"mlm_norm", false, Role::kNorm, D::kHidden, D::kNone},
    {"mlm_norm.bias", false, Role::kNorm, D::kHidden, D::kNone},
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
