// The sizes of a run: the plan's ceilings, lowered by the caller's limits, and
// the memory that they need.
#ifndef DEEPSLICE_RUNTIME_BACKEND_CPU_RUN_SIZES_H_
#define DEEPSLICE_RUNTIME_BACKEND_CPU_RUN_SIZES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/executor.h"
#include "runtime/plan.h"

namespace deepslice {

struct RunSizes {
  RunLimits limits;  // none 0
  int64_t max_rows = 0;
  int64_t block_tokens = 0;
  int64_t blocks_per_seq = 0;
  int64_t num_blocks = 0;
  // Index into Program.dims of T, R, E, P and I, -1 when there is none.
  int tokens_dim = -1, rows_dim = -1;
  int sources_dim = -1, image_tokens_dim = -1, images_dim = -1;
  bool encodes = false;               // a program of kind encode
  bool reads_horizons = false;        // the program has that input, or
  bool horizons_are_prompts = false;  // prompts in its place
  bool reads_types = false;
  int64_t pixel_cols = 0;             // elements of a patch; 0: no images
  std::vector<int64_t> dims;          // ceiling of each named dim in this run

  std::vector<int64_t> slot_offsets;  // into the arena
  int64_t arena_bytes = 0;
  std::vector<int64_t> state_offsets;  // into the cache
  std::vector<int64_t> state_blocks;   // of each state
  int64_t cache_bytes = 0;
};

// FailedPrecondition when a limit exceeds the plan's; ResourceExhausted when
// the sizes leave 64 bits; Unimplemented for dims and states that this back end
// doesn't know.
absl::StatusOr<RunSizes> ResolveSizes(const Plan& plan,
                                      const fb::Program& program,
                                      const RunLimits& limits);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_BACKEND_CPU_RUN_SIZES_H_
