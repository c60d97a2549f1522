// The shape of an attention node, as the kernels of the GPU want it.
#ifndef DEEPSLICE_COMPILER_GPU_LOWER_ATTENTION_H_
#define DEEPSLICE_COMPILER_GPU_LOWER_ATTENTION_H_

#include <cstdint>
#include <optional>

#include "compiler/gpu/lower_program.h"
#include "kernels/cuda/attention.h"

namespace deepslice {

bool IsAttention(const Node& n);

// Of the operand that an attention may have; nullopt where it hasn't.
std::optional<RelativeBiasShape> RelativeOf(const Weight* biases,
                                            int64_t max_distance);

// Of an Attention or QkvAttention. Strides are left 0: they are the buffers'.
AttentionShape ShapeOfAttention(const Node& n, const ProgramRequest& request);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_GPU_LOWER_ATTENTION_H_
