// One step program of a rank: the graph, node by node, as kernels, matrix
// products and collectives.
#ifndef DEEPSLICE_COMPILER_GPU_LOWER_PROGRAM_H_
#define DEEPSLICE_COMPILER_GPU_LOWER_PROGRAM_H_

#include "absl/status/statusor.h"
#include "compiler/gpu/lower.h"
#include "compiler/gpu/program_builder.h"

namespace deepslice {

struct ProgramRequest {
  const Graph* graph = nullptr;
  StepCeilings ceilings;
  PlaceInSet place;
  const GpuTarget* target = nullptr;
  DType activations = DType::kBF16;
  int bucket = 0;  // 0: the general program
};

// Whether the graph is an encoder: it reads whole sequences and keeps nothing.
bool EncodesGraph(const Graph& graph);

// Kernels that the program launches are added to `kernels`.
absl::StatusOr<LoweredProgram> LowerProgram(const ProgramRequest& request,
                                            SpecTable* kernels);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_GPU_LOWER_PROGRAM_H_
