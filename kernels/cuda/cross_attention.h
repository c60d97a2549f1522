// Attention of a decoder to the keys of an encoder beside it.
#ifndef DEEPSLICE_KERNELS_CUDA_CROSS_ATTENTION_H_
#define DEEPSLICE_KERNELS_CUDA_CROSS_ATTENTION_H_

#include <cstdint>
#include <optional>

#include "kernels/cuda/kernel_spec.h"

namespace deepslice {

// CrossAttention of ops.def. A block of the state is a source slot's: keys
// [kv_heads][block_tokens][head_dim], then values alike.
struct CrossAttentionShape {
  DType type = DType::kF32;  // of q, k, v and y
  DType cache = DType::kF32;
  int64_t heads = 0, kv_heads = 0, group = 1, head_offset = 0, head_dim = 0;
  int64_t q_stride = 0, k_stride = 0, v_stride = 0, y_stride = 0;
  double scale = 1;
  int64_t block_tokens = 1;  // most tokens of a source
  int64_t max_rows = 1;      // tokens of the decoder
  int64_t max_sources = 1;   // source tokens of a step
};

// Operands: k, v, source_positions, source_slots, state. Outputs: a buffer that
// is left as it is, since a step has an output and this one's is the state.
inline constexpr int64_t kCrossAppendScratchBytes = 1;
KernelSpec SpecializeCrossAppend(const CrossAttentionShape& shape,
                                 const GpuTarget& target);
// Operands: q, slots, sources, state. Outputs: y. None for heads that are too
// large for a block's memory.
std::optional<KernelSpec> SpecializeCrossAttention(
    const CrossAttentionShape& shape, const GpuTarget& target);

}  // namespace deepslice

#endif  // DEEPSLICE_KERNELS_CUDA_CROSS_ATTENTION_H_
