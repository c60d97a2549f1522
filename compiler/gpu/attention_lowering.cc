#include "compiler/gpu/attention_lowering.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/gpu/lower_attention.h"
#include "kernels/cuda/cross_attention.h"
#include "kernels/cuda/encoder_attention.h"
#include "kernels/cuda/latent_attention.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

absl::Status CheckRelative(const std::optional<RelativeBiasShape>& s,
                           bool both_directions) {
  if (!s.has_value() || RelativeBiasArg(*s, both_directions).has_value()) {
    return absl::OkStatus();
  }
  return absl::UnimplementedError(absl::StrFormat(
      "%d buckets of relative positions up to %d: more than the GPU's kernels "
      "take; compile with --target cpu",
      s->buckets, s->max_distance));
}

absl::Status HeadsTooLarge(int64_t head_dim) {
  return absl::UnimplementedError(absl::StrFormat(
      "heads of %d elements: more than the GPU's kernel takes; compile with "
      "--target cpu",
      head_dim));
}

}  // namespace

absl::Status AttentionLowering::LowerAttention(const Node& n) {
  AttentionShape s = ShapeOfAttention(n, r_);
  DS_RETURN_IF_ERROR(CheckRelative(s.relative, /*both_directions=*/false));
  if (s.relative.has_value() && s.alibi.has_value()) {
    return absl::UnimplementedError(
        "ALiBi and biases by relative position together");
  }
  const bool fused_row = n.op == OpKind::kQkvAttention;
  const auto input = [&](int i) { return BufferOf(n.in(fused_row ? 0 : i)); };
  const int q = input(0), k = input(1), v = input(2);
  s.q_stride = Stride(q);
  s.k_stride = Stride(k);
  s.v_stride = Stride(v);
  const int out = BufferOf(n.result);
  s.out_stride = Stride(out);
  using A = operand::Attention;
  using Q = operand::QkvAttention;
  const auto param = [&](int plain, int qkv) {
    return Operand(n.in(fused_row ? qkv : plain));
  };
  const Ref positions = param(A::positions, Q::positions);
  const Ref slots = param(A::slots, Q::slots);
  const Ref blocks = param(A::blocks, Q::blocks);
  const Ref state = Ref::State(IndexOf(n.state));
  const Ref freqs = fused_row ? Operand(n.weight(Q::freqs)) : Ref::None();
  const auto with_slopes = [&](std::vector<Ref> operands) {
    if (s.alibi.has_value()) {
      const int slopes = fused_row ? +Q::slopes : +A::slopes;
      operands.push_back(Operand(n.weight(slopes)));
    }
    if (s.relative.has_value()) {
      operands.push_back(Operand(n.weight(A::rel_bias)));
    }
    return operands;
  };
  if (r_.bucket > 0) {
    const DecodeAttention d = SpecializeDecodeAttention(s, *r_.target);
    const Ref scratch = ScratchOf(n, d.scratch_bytes);
    const Ref sync = SyncOf(d.sync_words);
    b_.Launch(
        d.kernel, n.result->name,
        with_slopes({Ref::Buffer(q), Ref::Buffer(k), Ref::Buffer(v), positions,
                     slots, blocks, freqs, state, scratch, sync}),
        out, -1, d.sync_words);
    return absl::OkStatus();
  }
  const std::string name = absl::StrCat(n.result->name, ".rotated");
  const int rotated = BufferLike(n.result, name, s.heads * s.head_dim);
  b_.Launch(SpecializeAppend(s, *r_.target), name,
            {Ref::Buffer(q), Ref::Buffer(k), Ref::Buffer(v), positions, slots,
             blocks, freqs, state},
            rotated);
  s.q_stride = Stride(rotated);
  s.q_offset = 0;
  if (AttentionTileTokens(s, *r_.target) != b_.program().tile_tokens) {
    return absl::UnimplementedError(absl::StrFormat(
        "tiles of %d tokens, those of other layers have %d",
        AttentionTileTokens(s, *r_.target), b_.program().tile_tokens));
  }
  const TileAttention tile = SpecializeTileAttention(s, *r_.target);
  const Ref scratch = ScratchOf(n, tile.scratch_bytes);
  const Ref sync = SyncOf(tile.sync_words);
  b_.Launch(tile.kernel, n.result->name,
            with_slopes({Ref::Buffer(rotated), Ref::Buffer(tiles_), blocks,
                         state, scratch, sync}),
            out, -1, tile.sync_words);
  return absl::OkStatus();
}

absl::Status AttentionLowering::LowerLatentAttention(const Node& n) {
  using In = operand::LatentAttention;
  using At = attr::LatentAttention;
  const Value *q = n.in(In::q), *k = n.in(In::k);
  // The parts of the new key: of the node whose work the append does.
  const Node* concat = folds_.KeyOf(&n);
  const Value* a = concat == nullptr ? k : concat->in(operand::ConcatHeads::a);
  const Value* b =
      concat == nullptr ? nullptr : concat->in(operand::ConcatHeads::b);
  const std::string appended = absl::StrCat(n.result->name, ".appended");
  const int key =
      concat != nullptr ? BufferOf(k) : BufferLike(k, appended, Columns(k));
  const int out = BufferOf(n.result);
  LatentAttentionShape s;
  s.type = r_.activations;
  s.cache = static_cast<DType>(n.state->encoding);
  s.heads = n.i(At::heads);
  s.head_dim = n.i(At::head_dim);
  s.value_dim = n.i(At::value_dim);
  s.scale = n.f(At::scale);
  s.of_a = Columns(a);
  s.of_b = s.head_dim - s.of_a;
  s.q_stride = Stride(BufferOf(q));
  s.a_stride = Stride(BufferOf(a));
  s.b_stride = b == nullptr ? 0 : Stride(BufferOf(b));
  s.key_stride = Stride(key);
  s.out_stride = Stride(out);
  s.block_tokens = r_.ceilings.kv_block;
  s.tokens = RowsOf(n.result);
  s.max_context = r_.ceilings.max_seq_len;
  const std::optional<LatentAttention> l =
      SpecializeLatentAttention(s, *r_.target);
  if (!l.has_value()) {
    return absl::UnimplementedError(absl::StrFormat(
        "latent rows of %d elements: more than the GPU's kernel takes",
        s.head_dim));
  }
  const Ref positions = Operand(n.in(In::positions));
  const Ref slots = Operand(n.in(In::slots));
  const Ref blocks = Operand(n.in(In::blocks));
  const Ref state = Ref::State(IndexOf(n.state));
  b_.Launch(l->append, b_.program().buffers[key].name,
            {Operand(a), Operand(b), positions, slots, blocks, state}, key);
  const Ref scratch = ScratchOf(n, l->scratch_bytes);
  const Ref sync = SyncOf(l->sync_words);
  b_.Launch(l->attend, n.result->name,
            {Operand(q), positions, slots, blocks, state, scratch, sync}, out,
            -1, l->sync_words);
  return absl::OkStatus();
}

absl::Status AttentionLowering::LowerEncoderAttention(const Node& n) {
  using In = operand::EncoderAttention;
  using At = attr::EncoderAttention;
  const int q = BufferOf(n.in(In::q)), k = BufferOf(n.in(In::k));
  const int v = BufferOf(n.in(In::v)), y = BufferOf(n.result);
  EncoderAttentionShape s;
  s.type = r_.activations;
  s.heads = n.i(At::heads);
  s.group = n.i(At::group);
  s.head_offset = n.i(At::head_offset);
  s.head_dim = n.i(At::head_dim);
  s.q_stride = Stride(q);
  s.k_stride = Stride(k);
  s.v_stride = Stride(v);
  s.y_stride = Stride(y);
  s.causal = static_cast<Mask>(n.i(At::mask)) == Mask::kCausal;
  s.scale = n.f(At::scale);
  s.relative = RelativeOf(n.weight(In::rel_bias), n.i(At::max_distance));
  DS_RETURN_IF_ERROR(CheckRelative(s.relative, !s.causal));
  s.count = CountOf(n.result);
  s.max_rows = RowsOf(n.result);
  const std::optional<KernelSpec> kernel =
      SpecializeEncoderAttention(s, *r_.target);
  if (!kernel.has_value()) return HeadsTooLarge(s.head_dim);
  std::vector<Ref> operands = {Ref::Buffer(q), Ref::Buffer(k), Ref::Buffer(v),
                               Operand(n.in(In::slots))};
  if (s.relative.has_value()) {
    operands.push_back(Operand(n.weight(In::rel_bias)));
  }
  b_.Launch(*kernel, n.result->name, std::move(operands), y);
  return absl::OkStatus();
}

absl::Status AttentionLowering::LowerCrossAttention(const Node& n) {
  using In = operand::CrossAttention;
  using At = attr::CrossAttention;
  const int q = BufferOf(n.in(In::q)), y = BufferOf(n.result);
  CrossAttentionShape s;
  s.type = r_.activations;
  s.cache = static_cast<DType>(n.state->encoding);
  s.heads = n.i(At::heads);
  s.kv_heads = n.i(At::kv_heads);
  s.group = n.i(At::group);
  s.head_offset = n.i(At::head_offset);
  s.head_dim = n.i(At::head_dim);
  s.scale = n.f(At::scale);
  s.q_stride = Stride(q);
  s.y_stride = Stride(y);
  s.block_tokens = s.max_sources = r_.ceilings.max_source_tokens;
  s.max_rows = RowsOf(n.result);
  const Ref state = Ref::State(IndexOf(n.state));
  if (!IsLeftOut(n.in(In::k))) {
    const int k = BufferOf(n.in(In::k)), v = BufferOf(n.in(In::v));
    s.k_stride = Stride(k);
    s.v_stride = Stride(v);
    const std::string name = absl::StrCat(n.result->name, ".appended");
    b_.Launch(
        SpecializeCrossAppend(s, *r_.target), name,
        {Ref::Buffer(k), Ref::Buffer(v), Operand(n.in(In::source_positions)),
         Operand(n.in(In::source_slots)), state},
        b_.AddScratch(name, kCrossAppendScratchBytes));
  }
  const std::optional<KernelSpec> kernel =
      SpecializeCrossAttention(s, *r_.target);
  if (!kernel.has_value()) return HeadsTooLarge(s.head_dim);
  b_.Launch(*kernel, n.result->name,
            {Ref::Buffer(q), Operand(n.in(In::slots)),
             Operand(n.in(In::sources)), state},
            y);
  return absl::OkStatus();
}

LoweredOperand AttentionLowering::ScratchOf(const Node& n, int64_t bytes) {
  if (bytes == 0) return Ref::None();
  const std::string name = absl::StrCat(n.result->name, ".scratch");
  return Ref::Buffer(b_.AddScratch(name, bytes));
}
LoweredOperand AttentionLowering::SyncOf(int64_t words) {
  return words > 0 ? Ref::Sync(b_.AddSync(words)) : Ref::None();
}

}  // namespace deepslice
