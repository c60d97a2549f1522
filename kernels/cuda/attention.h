// Attention over caches in blocks.
//
// Cache of one state on the GPU: block b starts at byte b * bytes_per_block and
// holds keys [kv_heads][block_tokens][head_dim], then values transposed,
// [kv_heads][head_dim][block_tokens], so that both operands of a tensor core
// are contiguous. It is zero before first use, and only finite numbers are
// multiplied: masked columns never turn into NaN.
#ifndef DEEPSLICE_KERNELS_CUDA_ATTENTION_H_
#define DEEPSLICE_KERNELS_CUDA_ATTENTION_H_

#include <cstdint>
#include <optional>

#include "kernels/cuda/kernel_spec.h"
#include "kernels/cuda/relative_bias.h"
#include "schema/ops.h"

namespace deepslice {

// As Attention and QkvAttention of ops.def: query head i reads KV head
// (head_offset + i) / group. Row t of q starts q_offset + t * q_stride elements
// past its operand's pointer, so of k and v: in the rows of a fused linear the
// three operands are the same buffer, and the offsets tell them apart.
struct AttentionShape {
  DType type = DType::kBF16;   // of q, k, v, out
  DType cache = DType::kBF16;
  int64_t heads = 0, kv_heads = 0, group = 1, head_offset = 0, head_dim = 0;
  double scale = 1;
  int64_t window = 0;  // 0: none
  double softcap = 0;  // 0: none
  std::optional<Alibi> alibi;  // then kernels take slopes (float[heads])
  // Then kernels take biases instead, and there is no ALiBi. RelativeBiasArg
  // has a text for it.
  std::optional<RelativeBiasShape> relative;
  int64_t q_stride = 0, k_stride = 0, v_stride = 0, out_stride = 0;
  int64_t q_offset = 0, k_offset = 0, v_offset = 0;
  int64_t rotary_dim = 0;  // 0: q and k come rotated, or are not to be
  RopeStyle style = RopeStyle::kHalf;
  double rope_scale = 1;
  int64_t block_tokens = 64;
  int64_t tokens = 1;            // most in a launch
  int64_t max_context = 4096;    // longest sequence
};

// One token of each sequence: rotates q and k, appends k and v at `positions`,
// attends over the sequence split into parts that a last block joins.
// Operands: q, k, v, positions, slots, blocks, freqs (float[rotary_dim / 2] or
// null), state, scratch, sync, with ALiBi slopes, else the table of relative
// biases if there is one. Outputs: out [T, heads * head_dim].
struct DecodeAttention {
  KernelSpec kernel;
  int64_t scratch_bytes = 0;  // of a buffer, in all
  int64_t sync_words = 0;
};
DecodeAttention SpecializeDecodeAttention(const AttentionShape& shape,
                                          const GpuTarget& target);

// Any tokens, in two launches. First: rotates and appends.
// Operands: q, k, v, positions, slots, blocks, freqs (or null), state.
// Outputs: rotated q [T, heads * head_dim] of `type`.
KernelSpec SpecializeAppend(const AttentionShape& shape,
                            const GpuTarget& target);
// Then attends, a tile of queries (input "tiles") a block, or several blocks
// for a tile with many keys while there are few tiles; the last of them joins.
// q_stride here is of the rotated q, q_offset 0. Operands: rotated q, tiles,
// blocks, state, scratch, sync, slopes or biases. Outputs: out.
struct TileAttention {
  KernelSpec kernel;
  int64_t scratch_bytes = 0;  // of a buffer, in all
  int64_t sync_words = 0;
};
TileAttention SpecializeTileAttention(const AttentionShape& shape,
                                      const GpuTarget& target);
// Most tokens of a tile that SpecializeTileAttention's kernel takes; for the
// same shape as there. The same for all windows and strides of a model.
int64_t AttentionTileTokens(const AttentionShape& shape,
                            const GpuTarget& target);

}  // namespace deepslice

#endif  // DEEPSLICE_KERNELS_CUDA_ATTENTION_H_
