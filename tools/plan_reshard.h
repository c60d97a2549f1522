// `dsplan reshard`: a plan cut anew for another number of ranks.
#ifndef DEEPSLICE_TOOLS_PLAN_RESHARD_H_
#define DEEPSLICE_TOOLS_PLAN_RESHARD_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "compiler/plan_writer.h"
#include "compiler/progress.h"

namespace deepslice {

struct ReshardOptions {
  std::string plan, output;
  int tp = 1;
  bool force = false;
  std::string kernel_cache;
  int threads = 0;                              // 0: one per core
  std::function<void(const std::string&)> log;  // notes; may be empty
  ReportProgress progress;
};

// Writes, byte for byte, the plan that dscompile makes of the same source with
// --tp `tp` and all other options the same. The source is not read; weights are
// copied as they are stored, and kernels compiled again. FailedPrecondition for
// another NVRTC than the plan's, and for what Compile refuses at that tp.
absl::StatusOr<WrittenPlan> ReshardPlan(const ReshardOptions& options);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_PLAN_RESHARD_H_
