// Writes keys and values of one token into the blocks, once per Highway target.
#if defined(DEEPSLICE_KERNELS_KV_APPEND_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DEEPSLICE_KERNELS_KV_APPEND_INL_H_
#undef DEEPSLICE_KERNELS_KV_APPEND_INL_H_
#else
#define DEEPSLICE_KERNELS_KV_APPEND_INL_H_
#endif

#include "hwy/highway.h"
#include "kernels/attention_cpu.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace deepslice {
namespace HWY_NAMESPACE {

// Rounds head_dim floats into the row of a key (part 0) or value (part 1).
template <typename T>
HWY_INLINE void AppendRow(const AttentionArgs& args, int64_t token, int64_t kv,
                          int part, const float* from) {
  const Floats d;
  const int64_t lanes = FloatLanes();
  T* to = args.Row<T>(args.slots[token], args.positions[token], kv, part);
  for (int64_t i = 0; i < args.head_dim; i += lanes) {
    const int64_t n = args.head_dim - i;
    StoreSome(d, LoadSome(d, from + i, n), to + i, n);
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace deepslice
HWY_AFTER_NAMESPACE();

#endif  // DEEPSLICE_KERNELS_KV_APPEND_INL_H_
