// From the graph of one rank to the step programs that a GPU runs.
#ifndef DEEPSLICE_COMPILER_GPU_LOWER_H_
#define DEEPSLICE_COMPILER_GPU_LOWER_H_

#include <vector>

#include "absl/status/statusor.h"
#include "compiler/gpu/lowered_program.h"
#include "compiler/schedule.h"
#include "ir/graph.h"
#include "kernels/cuda/kernel_spec.h"

namespace deepslice {

// A rank of a set that splits every layer; rank 0 samples.
struct PlaceInSet {
  int rank = 0;
  int world = 1;
};

// Token counts that have a program of their own: 1, 2, 4, ... and max_batch.
std::vector<int> GpuBuckets(int64_t max_batch);

// "step" for any batch, then "decode_N" for each bucket N: one token of each of
// up to N sequences. Of an encoder "encode" alone. Unimplemented for quantised
// weights (for now) and for graphs that no kernel serves, naming the node. A
// pure function.
absl::StatusOr<GpuPrograms> LowerForGpu(const Graph& graph,
                                        const StepCeilings& ceilings,
                                        const PlaceInSet& place,
                                        const GpuTarget& target);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_GPU_LOWER_H_
