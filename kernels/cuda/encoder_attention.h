// Attention of encoders: within a step, without a cache.
#ifndef DEEPSLICE_KERNELS_CUDA_ENCODER_ATTENTION_H_
#define DEEPSLICE_KERNELS_CUDA_ENCODER_ATTENTION_H_

#include <cstdint>
#include <optional>

#include "kernels/cuda/kernel_spec.h"
#include "kernels/cuda/relative_bias.h"

namespace deepslice {

// EncoderAttention of ops.def. Operands: q, k, v, slots, biases where there are
// any. Outputs: y.
struct EncoderAttentionShape {
  DType type = DType::kF32;  // of q, k, v and y
  int64_t heads = 0, group = 1, head_offset = 0, head_dim = 0;
  int64_t q_stride = 0, k_stride = 0, v_stride = 0, y_stride = 0;
  bool causal = false;
  double scale = 1;
  std::optional<RelativeBiasShape> relative;  // RelativeBiasArg has a text
  CountDim count = CountDim::kTokens;
  int64_t max_rows = 1;
};

// None for heads that are too large for a block's memory.
std::optional<KernelSpec> SpecializeEncoderAttention(
    const EncoderAttentionShape& shape, const GpuTarget& target);

}  // namespace deepslice

#endif  // DEEPSLICE_KERNELS_CUDA_ENCODER_ATTENTION_H_
