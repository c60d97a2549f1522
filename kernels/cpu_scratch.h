// Scratch sizes of the CPU kernels that need some.
#ifndef DEEPSLICE_KERNELS_CPU_SCRATCH_H_
#define DEEPSLICE_KERNELS_CPU_SCRATCH_H_

#include <cstdint>

#include "kernels/cpu.h"

namespace deepslice {

int64_t RopeScratchBytes(const CpuShape& shape);
int64_t AttentionScratchBytes(const CpuShape& shape);
int64_t QkvAttentionScratchBytes(const CpuShape& shape);
int64_t LatentAttentionScratchBytes(const CpuShape& shape);
int64_t EncoderAttentionScratchBytes(const CpuShape& shape);
int64_t CrossAttentionScratchBytes(const CpuShape& shape);

}  // namespace deepslice

#endif  // DEEPSLICE_KERNELS_CPU_SCRATCH_H_
