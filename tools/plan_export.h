// `dsplan export`: a plan's weights under their published names.
#ifndef DEEPSLICE_TOOLS_PLAN_EXPORT_H_
#define DEEPSLICE_TOOLS_PLAN_EXPORT_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "compiler/progress.h"

namespace deepslice {

struct ExportOptions {
  std::string plan, output;
  std::string to = "hf";
  int64_t max_shard_bytes = 5'000'000'000;
  int threads = 0;                              // 0: one per core
  std::function<void(const std::string&)> log;  // notes; may be empty
  ReportProgress progress;
};

struct ExportResult {
  uint64_t bytes = 0;  // of all files
  int64_t tensors = 0;
};

// Writes a folder as transformers does: model.safetensors, or shards of at most
// max_shard_bytes and their index, and the files of ExportFiles. Tensors have
// the numbers that the plan computes with; where it keeps those of the
// checkpoint, they are the checkpoint's bits. A note tells of what was
// quantised and of what a plan does not keep. Nothing is left behind on
// failure; FailedPrecondition when the folder exists.
absl::StatusOr<ExportResult> ExportPlan(const ExportOptions& options);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_PLAN_EXPORT_H_
