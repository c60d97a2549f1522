// The shape of an attention node, as the kernels of the GPU want it.
#ifndef DEEPSLICE_COMPILER_GPU_LOWER_ATTENTION_H_
#define DEEPSLICE_COMPILER_GPU_LOWER_ATTENTION_H_

#include "compiler/gpu/lower_program.h"
#include "kernels/cuda/attention.h"

namespace deepslice {

bool IsAttention(const Node& n);

// Of an Attention or QkvAttention. Strides are left 0: they are the buffers'.
AttentionShape ShapeOfAttention(const Node& n, const ProgramRequest& request);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_GPU_LOWER_ATTENTION_H_
