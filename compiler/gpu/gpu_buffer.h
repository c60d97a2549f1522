// The FlatBuffer of one rank's programs for one GPU target.
#ifndef DEEPSLICE_COMPILER_GPU_GPU_BUFFER_H_
#define DEEPSLICE_COMPILER_GPU_GPU_BUFFER_H_

#include "compiler/gpu/gpu_plan.h"
#include "schema/plan_generated.h"

namespace deepslice {

// The plan's only group, index 0, is that of all ranks.
flatbuffers::Offset<fb::Target> BuildGpuTarget(
    flatbuffers::FlatBufferBuilder& b, const GpuTargetPlan& plan, int rank);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_GPU_GPU_BUFFER_H_
