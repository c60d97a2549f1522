// Whether a step's batch is one that the kernels can run: they check nothing.
#ifndef DEEPSLICE_RUNTIME_BACKEND_CPU_BATCH_CHECK_H_
#define DEEPSLICE_RUNTIME_BACKEND_CPU_BATCH_CHECK_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "runtime/backend/cpu/run_sizes.h"
#include "runtime/executor.h"

namespace deepslice {

class BatchCheck {
 public:
  BatchCheck(const RunSizes& sizes, int64_t vocab, bool has_states)
      : sizes_(sizes),
        vocab_(vocab),
        has_states_(has_states),
        last_step_(sizes.limits.max_batch, 0) {}

  // InvalidArgument with token, value and range. Allocates nothing when OK.
  // Ids may be ~r for rows r of the `previous_rows` of the step before.
  absl::Status Check(const StepBatch& batch, int64_t previous_rows = 0);

 private:
  absl::Status CheckCounts(const StepBatch& batch) const;
  absl::Status CheckToken(const StepBatch& batch, int64_t t);
  absl::Status CheckBlocks(const StepBatch& batch, int64_t last_token) const;

  const RunSizes& sizes_;
  const int64_t vocab_;
  const bool has_states_;
  int64_t step_ = 0;
  int64_t previous_rows_ = 0;
  std::vector<int64_t> last_step_;  // per slot: step that had it
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_BACKEND_CPU_BATCH_CHECK_H_
