// CPU kernel of QkvAttention: splits and rotates the row, appends, attends.
#include "kernels/attention_cpu.h"
#include "kernels/cpu.h"
#include "kernels/cpu_scratch.h"

#ifndef DEEPSLICE_KERNELS_QKV_ROPE_
#define DEEPSLICE_KERNELS_QKV_ROPE_
namespace deepslice {

struct QkvRope {
  CpuOperand freqs;  // data nullptr: no rotation
  int64_t half = 0;
  RopeStyle style = RopeStyle::kHalf;
  double scale = 1;
};

}  // namespace deepslice
#endif

#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/qkv_attention_cpu.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "kernels/kv_append-inl.h"
#include "kernels/rope-inl.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace deepslice {
namespace HWY_NAMESPACE {

// Token t: q goes to args.out, which then is args.q; k and v into the blocks.
// `scratch` holds cosines, sines and one head, each `stride` floats.
template <typename T>
void SplitRow(const AttentionArgs& args, const QkvRope& rope, const float* qkv,
              int64_t t, float* scratch, int64_t stride) {
  const int64_t dim = args.head_dim;
  const float* q = qkv + t * (args.heads + 2 * args.kv_heads) * dim;
  const float* k = q + args.heads * dim;
  const float* v = k + args.kv_heads * dim;
  float* out = args.out + t * args.heads * dim;
  for (int64_t kv = 0; kv < args.kv_heads; ++kv) {
    AppendRow<T>(args, t, kv, 1, v + kv * dim);
  }
  if (rope.freqs.data == nullptr) {
    std::copy_n(q, args.heads * dim, out);
    for (int64_t kv = 0; kv < args.kv_heads; ++kv) {
      AppendRow<T>(args, t, kv, 0, k + kv * dim);
    }
    return;
  }
  float* cosines = scratch;
  float* sines = cosines + stride;
  float* head = sines + stride;
  WithElementType(rope.freqs.encoding, rope.freqs.data, [&](auto* f) HWY_ATTR {
    RopeAngles(args.positions[t], f, rope.half, rope.scale, cosines, sines);
  });
  for (int64_t h = 0; h < args.heads; ++h) {
    RotateHead(q + h * dim, cosines, sines, rope.half, dim, rope.style,
               out + h * dim);
  }
  for (int64_t kv = 0; kv < args.kv_heads; ++kv) {
    RotateHead(k + kv * dim, cosines, sines, rope.half, dim, rope.style, head);
    AppendRow<T>(args, t, kv, 0, head);
  }
}

void SplitRows(const AttentionArgs& args, const QkvRope& rope,
               const float* qkv) {
  const AttentionLayout layout =
      MakeAttentionLayout(args.tokens, args.heads, args.kv_heads, args.group,
                          args.head_dim, 0, args.pool->num_threads());
  const int64_t cols = (args.heads + 2 * args.kv_heads) * args.head_dim;
  args.pool->ParallelFor(
      args.tokens, 8192 / (cols + 1) + 1,
      [&](int64_t begin, int64_t end, int thread) HWY_ATTR {
        float* scratch = reinterpret_cast<float*>(
            args.scratch + layout.threads + thread * layout.thread_bytes);
        WithElementType(
            args.state->encoding, args.state->data, [&](auto* data) HWY_ATTR {
              using T = std::remove_cv_t<std::remove_pointer_t<decltype(data)>>;
              for (int64_t t = begin; t < end; ++t) {
                SplitRow<T>(args, rope, qkv, t, scratch, layout.padded_dim);
              }
            });
      });
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace deepslice
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deepslice {
HWY_EXPORT(SplitRows);

void CpuQkvAttention(const CpuCall& call) {
  using O = operand::QkvAttention;
  using A = attr::QkvAttention;
  AttentionArgs args = MakeAttentionArgs<A, O>(call);
  args.q = call.out;
  QkvRope rope;
  rope.freqs = call.in[O::freqs];
  rope.half = call.attrs[A::rotary_dim].i / 2;
  rope.style = static_cast<RopeStyle>(call.attrs[A::style].i);
  rope.scale = call.attrs[A::rope_scale].f;
  HWY_DYNAMIC_DISPATCH(SplitRows)(args, rope, call.in[O::qkv].f32());
  AttendCpu(args);
}

int64_t QkvAttentionScratchBytes(const CpuShape& shape) {
  return AttentionScratch<attr::QkvAttention>(shape);
}

}  // namespace deepslice
#endif
