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
  BatchCheck(const RunSizes& sizes, int64_t vocab, int64_t types,
             bool has_states)
      : sizes_(sizes),
        vocab_(vocab),
        types_(types),
        has_states_(has_states),
        last_step_(sizes.limits.max_batch, 0),
        last_source_(sizes.limits.max_batch, 0),
        sources_(sizes.limits.max_batch, 0),
        last_image_(MostImages(sizes), 0) {}

  // InvalidArgument with token, value and range. Allocates nothing when OK.
  // Ids may be ~r for rows r of the `previous_rows` of the step before.
  absl::Status Check(const StepBatch& batch, int64_t previous_rows = 0);

 private:
  absl::Status CheckCounts(const StepBatch& batch) const;
  absl::Status CheckToken(const StepBatch& batch, int64_t t);
  absl::Status CheckBlocks(const StepBatch& batch, int64_t last_token) const;
  absl::Status CheckTypes(const StepBatch& batch) const;
  absl::Status CheckSources(const StepBatch& batch);
  absl::Status CheckSourceOf(const StepBatch& batch, int64_t slot) const;
  absl::Status CheckImages(const StepBatch& batch);
  // Whole sequences side by side in slots below last->size().
  absl::Status CheckWhole(const char* what, absl::Span<const int32_t> positions,
                          absl::Span<const int32_t> slots, int64_t most,
                          std::vector<int64_t>* last) const;
  static int64_t MostImages(const RunSizes& sizes) {
    return sizes.images_dim < 0 ? 0 : sizes.dims[sizes.images_dim];
  }

  const RunSizes& sizes_;
  const int64_t vocab_;
  const int64_t types_;
  const bool has_states_;
  int64_t step_ = 0;
  int64_t previous_rows_ = 0;
  std::vector<int64_t> last_step_;  // per slot: step that had it
  // The same of sources, the tokens that each holds, and of images.
  std::vector<int64_t> last_source_, sources_, last_image_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_BACKEND_CPU_BATCH_CHECK_H_
