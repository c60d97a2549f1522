// CPU kernel of Attention: appends k and v to the blocks, then attends.
#include "kernels/attention_cpu.h"

#include "kernels/cpu.h"
#include "kernels/cpu_scratch.h"
#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_cpu.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "kernels/kv_append-inl.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace deepslice {
namespace HWY_NAMESPACE {

void AppendKeysAndValues(const AttentionArgs& args, const float* k,
                         const float* v) {
  const int64_t cols = args.kv_heads * args.head_dim;
  args.pool->ParallelFor(
      args.tokens, 8192 / (cols + 1) + 1,
      [&](int64_t begin, int64_t end, int) HWY_ATTR {
        WithElementType(
            args.state->encoding, args.state->data, [&](auto* data) HWY_ATTR {
              using T = std::remove_cv_t<std::remove_pointer_t<decltype(data)>>;
              for (int64_t t = begin; t < end; ++t) {
                for (int64_t kv = 0; kv < args.kv_heads; ++kv) {
                  const int64_t at = t * cols + kv * args.head_dim;
                  AppendRow<T>(args, t, kv, 0, k + at);
                  AppendRow<T>(args, t, kv, 1, v + at);
                }
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
HWY_EXPORT(AppendKeysAndValues);

void AppendKeysAndValuesCpu(const AttentionArgs& args, const float* k,
                            const float* v) {
  HWY_DYNAMIC_DISPATCH(AppendKeysAndValues)(args, k, v);
}

void CpuAttention(const CpuCall& call) {
  using O = operand::Attention;
  using A = attr::Attention;
  AttentionArgs args = MakeAttentionArgs<A, O>(call);
  args.q = call.in[O::q].f32();
  if (call.in[O::rel_bias].data != nullptr) {
    args.max_distance = call.attrs[A::max_distance].i;
    args.relative = TakeRelative(call.in[O::rel_bias], args.heads,
                                 args.max_distance, false, &args.scratch);
  }
  AppendKeysAndValuesCpu(args, call.in[O::k].f32(), call.in[O::v].f32());
  AttendCpu(args);
}

int64_t AttentionScratchBytes(const CpuShape& shape) {
  using A = attr::Attention;
  return AttentionScratch<A>(shape) +
         RelativeBytes(shape.attrs[A::heads].i,
                       shape.attrs[A::max_distance].i);
}

}  // namespace deepslice
#endif
