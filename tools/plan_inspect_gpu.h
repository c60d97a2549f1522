// The part of `dsplan inspect` that shows GPU targets: kernels, then each
// program's memory and steps.
#ifndef DEEPSLICE_TOOLS_PLAN_INSPECT_GPU_H_
#define DEEPSLICE_TOOLS_PLAN_INSPECT_GPU_H_

#include <string>

#include "runtime/plan.h"
#include "schema/base/json.h"

namespace deepslice {

// "f32[T, 20]" of a buffer.
std::string BufferType(const fb::Buffer& b, const fb::Program& program);
// Dims, arena_bytes and slots of a program.
json::Value ArenaJson(const fb::Program& program);

json::Value GpuTargetJson(const fb::Plan& plan, const fb::Target& target);
// The same as text.
std::string GpuTargetText(const json::Value& target);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_PLAN_INSPECT_GPU_H_
