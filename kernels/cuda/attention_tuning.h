// The numbers of attention kernels that only measuring can choose.
#ifndef DEEPSLICE_KERNELS_CUDA_ATTENTION_TUNING_H_
#define DEEPSLICE_KERNELS_CUDA_ATTENTION_TUNING_H_

#include <cstdint>

#include "kernels/cuda/attention.h"

namespace deepslice {

// DecodePlan of attention_decode_loop.cuh.
struct DecodeTuning {
  int64_t warps = 4;       // of a block
  int64_t cluster = 1;     // blocks that join in shared memory; more than 1
                           // from sm_90 on
  int64_t even = 1;        // parts that fill the GPU when sequences are alike
  int64_t most = 1;        // parts of a sequence longer than the others
  int64_t min_part = 64;   // tokens
  int64_t own_part = 512;  // most tokens of a part while one cluster does
  int64_t ahead = 0;       // groups of 32 tokens a warp, on their way to L2
  int64_t ring = 0;        // halves of a group in a warp's shared memory; 0:
                           // a group in registers
};

// What the kernel for `shape` is made with.
DecodeTuning TuneDecode(const AttentionShape& shape, const GpuTarget& target);

// Whether a block's shared memory holds what `tuning` asks for; false also for
// shapes that the simple kernel takes.
bool DecodeFits(const AttentionShape& shape, const GpuTarget& target,
                const DecodeTuning& tuning);

// For comparison: with other numbers than TuneDecode's. `tuning` must fit.
DecodeAttention SpecializeDecodeAttention(const AttentionShape& shape,
                                          const GpuTarget& target,
                                          const DecodeTuning& tuning);

}  // namespace deepslice

#endif  // DEEPSLICE_KERNELS_CUDA_ATTENTION_TUNING_H_
