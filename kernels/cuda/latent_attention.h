// Latent attention over caches in blocks.
//
// Cache of one state on the GPU: block b starts at byte b * bytes_per_block and
// holds rows [block_tokens][head_dim].
#ifndef DEEPSLICE_KERNELS_CUDA_LATENT_ATTENTION_H_
#define DEEPSLICE_KERNELS_CUDA_LATENT_ATTENTION_H_

#include <cstdint>
#include <optional>

#include "kernels/cuda/kernel_spec.h"

namespace deepslice {

// LatentAttention of ops.def. The new key of a token is a's row, of_a elements,
// and behind it b's, of_b elements: together head_dim.
struct LatentAttentionShape {
  DType type = DType::kBF16;  // of q, a, b, key, out
  DType cache = DType::kBF16;
  int64_t heads = 0, head_dim = 0, value_dim = 0;
  int64_t of_a = 0, of_b = 0;
  double scale = 1;
  int64_t q_stride = 0, a_stride = 0, b_stride = 0, key_stride = 0,
          out_stride = 0;
  int64_t block_tokens = 64;
  int64_t tokens = 1;          // most in a launch
  int64_t max_context = 4096;  // longest sequence
};

// Any tokens, in two launches. `append`: operands a, b (or null), positions,
// slots, blocks, state; outputs: key [T, head_dim]. `attend`: operands q,
// positions, slots, blocks, state, scratch, sync; outputs: out [T, heads *
// value_dim]. nullopt: head_dim is too large for the target's shared memory.
struct LatentAttention {
  KernelSpec append, attend;
  int64_t scratch_bytes = 0;  // of a buffer, in all
  int64_t sync_words = 0;
};
std::optional<LatentAttention> SpecializeLatentAttention(
    const LatentAttentionShape& shape, const GpuTarget& target);

}  // namespace deepslice

#endif  // DEEPSLICE_KERNELS_CUDA_LATENT_ATTENTION_H_
