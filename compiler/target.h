// What --target names: the CPU, a GPU architecture, or a card by name.
#ifndef DEEPSLICE_COMPILER_TARGET_H_
#define DEEPSLICE_COMPILER_TARGET_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/kernel_spec.h"

namespace deepslice {

struct CompileTarget {
  std::string name;  // as the plan says it: "cpu", "sm_90a", "compute_80"
  bool cpu = false;
  GpuTarget gpu;              // when not cpu; gpu.name is `name`
  int64_t device_memory = 0;  // bytes of a card given by name; else 0: unknown
  std::string note;           // "sm_90: compiled as sm_90a, ..."; often empty
};

// "cpu"; "sm_80", "sm_90a" (also "sm_90", with a note), ... for machine code;
// "compute_80", ... for PTX; "h200", "a100-40g", "rtx 4090", ... for a card:
// its architecture, its multiprocessors and its memory. Case, spaces, '-' and
// '_' don't matter. InvalidArgument with the nearest name and the allowed ones;
// Unimplemented for architectures before 8.0.
absl::StatusOr<CompileTarget> ParseTarget(absl::string_view name);

// "sm_80", ...: the architectures that ParseTarget knows, oldest first.
std::vector<std::string> ArchitectureNames();

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_TARGET_H_
