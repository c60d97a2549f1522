// Writes a step's batch as the program on the device reads it.
#ifndef DEEPSLICE_RUNTIME_BACKEND_CUDA_STEP_INPUTS_H_
#define DEEPSLICE_RUNTIME_BACKEND_CUDA_STEP_INPUTS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "runtime/backend/cuda/gpu_sizes.h"
#include "runtime/executor.h"

namespace deepslice {

// Whether every token of a checked batch is of another sequence.
bool IsOneTokenEach(const StepBatch& batch);

// Index into GpuSizes::programs of the program for a checked batch: the
// smallest bucket that holds it when its tokens are of a sequence each, else
// the general one.
int ChooseProgram(const GpuSizes& sizes, const StepBatch& batch);

// Fills `block`, of program.inputs.bytes, from a checked batch. Internal when
// it needs more tiles than the program was compiled for.
absl::StatusOr<StepInfo> WriteStepInputs(const ProgramSizes& program,
                                         int64_t blocks_per_seq,
                                         const StepBatch& batch, char* block);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_BACKEND_CUDA_STEP_INPUTS_H_
