#include "compiler/gpu/lower_attention.h"

namespace deepslice {
namespace {

// The attributes that both ops have, by the positions of A.
template <typename A>
AttentionShape CommonShape(const Node& n) {
  AttentionShape s;
  s.heads = n.i(A::heads);
  s.kv_heads = n.i(A::kv_heads);
  s.group = n.i(A::group);
  s.head_offset = n.i(A::head_offset);
  s.head_dim = n.i(A::head_dim);
  s.scale = n.f(A::scale);
  s.window = n.i(A::window);
  s.softcap = n.f(A::softcap);
  return s;
}

}  // namespace

bool IsAttention(const Node& n) {
  return n.op == OpKind::kAttention || n.op == OpKind::kQkvAttention;
}

std::optional<RelativeBiasShape> RelativeOf(const Weight* biases,
                                            int64_t max_distance) {
  if (biases == nullptr) return std::nullopt;
  // The tags of encodings that are no quantised ones are those of dtypes.
  return RelativeBiasShape{static_cast<DType>(biases->encoding),
                           biases->type.dims[1].size, max_distance};
}

AttentionShape ShapeOfAttention(const Node& n, const ProgramRequest& request) {
  AttentionShape s;
  if (n.op == OpKind::kAttention) {
    using A = attr::Attention;
    s = CommonShape<A>(n);
    if (n.operands[operand::Attention::slopes].present()) {
      s.alibi = static_cast<Alibi>(n.i(A::alibi));
    }
    s.relative = RelativeOf(n.weight(operand::Attention::rel_bias),
                            n.i(A::max_distance));
  } else {
    using A = attr::QkvAttention;
    s = CommonShape<A>(n);
    if (n.operands[operand::QkvAttention::slopes].present()) {
      s.alibi = static_cast<Alibi>(n.i(A::alibi));
    }
    s.k_offset = s.heads * s.head_dim;
    s.v_offset = s.k_offset + s.kv_heads * s.head_dim;
    if (n.operands[operand::QkvAttention::freqs].present()) {
      s.rotary_dim = n.i(A::rotary_dim);
    }
    s.style = static_cast<RopeStyle>(n.i(A::style));
    s.rope_scale = n.f(A::rope_scale);
  }
  s.type = request.activations;
  // The tags of encodings that are no quantised ones are those of dtypes.
  s.cache = static_cast<DType>(n.state->encoding);
  s.block_tokens = request.ceilings.kv_block;
  s.tokens =
      request.bucket > 0 ? request.bucket : request.ceilings.max_step_tokens;
  s.max_context = request.ceilings.max_seq_len;
  return s;
}

}  // namespace deepslice
