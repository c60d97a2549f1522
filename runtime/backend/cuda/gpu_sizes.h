// The sizes of a run on a GPU: what each program's named dims are, and where
// everything lies in device memory.
#ifndef DEEPSLICE_RUNTIME_BACKEND_CUDA_GPU_SIZES_H_
#define DEEPSLICE_RUNTIME_BACKEND_CUDA_GPU_SIZES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/backend/cpu/run_sizes.h"
#include "runtime/executor.h"
#include "runtime/plan.h"

namespace deepslice {

// Inputs of a program in the block that one copy brings to the device, as
// offsets into it; -1 where the program has no such input.
struct InputLayout {
  int64_t step_info = 0;
  int64_t ids = -1, positions = -1, slots = -1, rows = -1, horizons = -1,
          types = -1, tiles = -1, samplers = -1, image_positions = -1,
          image_slots = -1, image_rows = -1, pixels = -1, source_ids = -1,
          source_positions = -1, source_slots = -1, sources = -1;
  int64_t bytes = 0;
};

struct ProgramSizes {
  const fb::Program* program = nullptr;
  // Of T, R, S, Q, P, I and E, as indexes of the program's dims; -1 when there
  // is none.
  int tokens_dim = -1, rows_dim = -1, slots_dim = -1, tiles_dim = -1,
      image_tokens_dim = -1, images_dim = -1, sources_dim = -1;
  std::vector<int64_t> dims;  // the most of each in this run
  std::vector<int64_t> slot_offsets;
  int64_t arena_bytes = 0;
  InputLayout inputs;
  bool samples = false;  // has input "sampled"
};

struct GpuSizes {
  RunSizes run;  // of the general program; its arena is not used
  std::vector<ProgramSizes> programs;  // the general one, then rising buckets
  int64_t weights_bytes = 0;
  int64_t arena_bytes = 0;  // the most of any program
  int64_t cache_bytes = 0;
  // Two input blocks, two arrays of sampled ids, the block table and the sync
  // words, at these offsets.
  int64_t inputs_at[2] = {0, 0};
  int64_t sampled_at[2] = {0, 0};
  int64_t table_at = 0;
  int64_t sync_at = 0;
  int64_t staging_bytes = 0;
  int64_t input_block_bytes = 0;  // the most of any program
  // On the host: logits, or an encoder's outputs, as floats.
  int64_t output_floats = 0;
  int64_t workspace_bytes = 0;    // of cuBLASLt; 0 without GEMM steps

  int64_t planned_bytes() const {
    return weights_bytes + arena_bytes + cache_bytes + staging_bytes;
  }
};

inline constexpr int64_t kGemmWorkspaceBytes = 32 << 20;

// The target's general step program and those buckets that a run of these
// limits can use, or its program that encodes. Errors as ResolveSizes.
absl::StatusOr<GpuSizes> ResolveGpuSizes(const Plan& plan,
                                         const fb::Target& target,
                                         const RunLimits& limits);

// ResourceExhausted when the run needs more than `free_bytes`: both numbers, by
// kind, and the largest --max-batch that fits.
absl::Status CheckFitsDevice(const Plan& plan, const fb::Target& target,
                             const RunLimits& limits, const GpuSizes& sizes,
                             int64_t free_bytes, absl::string_view device);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_BACKEND_CUDA_GPU_SIZES_H_
