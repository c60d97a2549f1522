// CPU kernel of LatentAttention: appends the keys, attends with them as values.
#include "kernels/attention_cpu.h"
#include "kernels/cpu.h"
#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/latent_attention_cpu.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "kernels/kv_append-inl.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace deepslice {
namespace HWY_NAMESPACE {

void AppendLatents(const AttentionArgs& args, const float* k) {
  args.pool->ParallelFor(
      args.tokens, 8192 / (args.head_dim + 1) + 1,
      [&](int64_t begin, int64_t end, int) HWY_ATTR {
        WithElementType(
            args.state->encoding, args.state->data, [&](auto* data) HWY_ATTR {
              using T = std::remove_cv_t<std::remove_pointer_t<decltype(data)>>;
              for (int64_t t = begin; t < end; ++t) {
                AppendRow<T>(args, t, 0, 0, k + t * args.head_dim);
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
HWY_EXPORT(AppendLatents);

void CpuLatentAttention(const CpuCall& call) {
  using O = operand::LatentAttention;
  using A = attr::LatentAttention;
  AttentionArgs args;
  args.tokens = call.out_rows;
  args.heads = call.attrs[A::heads].i;
  args.kv_heads = 1;
  args.group = std::max<int64_t>(1, args.heads);
  args.head_dim = call.attrs[A::head_dim].i;
  args.value_dim = call.attrs[A::value_dim].i;
  args.value_part = 0;
  args.scale = static_cast<float>(call.attrs[A::scale].f);
  args.q = call.in[O::q].f32();
  args.out = call.out;
  args.positions = call.in[O::positions].i32();
  args.slots = call.in[O::slots].i32();
  args.blocks = call.in[O::blocks].i32();
  args.blocks_per_slot = call.in[O::blocks].cols;
  args.state = call.state;
  args.pool = call.pool;
  args.scratch = static_cast<char*>(call.scratch);
  HWY_DYNAMIC_DISPATCH(AppendLatents)(args, call.in[O::k].f32());
  AttendCpu(args);
}

int64_t LatentAttentionScratchBytes(const CpuShape& shape) {
  using A = attr::LatentAttention;
  const int64_t heads = shape.attrs[A::heads].i;
  return MakeAttentionLayout(
             shape.max_rows, heads, 1, std::max<int64_t>(1, heads),
             shape.attrs[A::head_dim].i, shape.max_context, shape.num_threads)
      .total;
}

}  // namespace deepslice
#endif
