// What the tests of the GPU back end share: a plan prepared on the fake GPU,
// and batches for it.
#ifndef DEEPSLICE_RUNTIME_TESTING_CUDA_TESTING_H_
#define DEEPSLICE_RUNTIME_TESTING_CUDA_TESTING_H_

#include <memory>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "runtime/backend/cuda/cuda_executor.h"
#include "runtime/testing/fake_gpu.h"
#include "runtime/testing/gpu_test_plan.h"

namespace deepslice {

using Ids = std::vector<int32_t>;

inline Ids ToIds(absl::Span<const int32_t> ids) {
  return Ids(ids.begin(), ids.end());
}

inline std::vector<unsigned> Three(const unsigned (&v)[3]) {
  return {v[0], v[1], v[2]};
}

inline void ExpectSays(const absl::Status& status, absl::string_view part) {
  EXPECT_TRUE(absl::StrContains(status.message(), part))
      << status << "\nwanted: " << std::string(part);
}

struct Prepared {
  std::unique_ptr<Plan> plan;
  absl::StatusOr<std::unique_ptr<CudaExecutor>> executor =
      absl::UnknownError("");
  CudaExecutor* operator->() { return executor->get(); }
};

inline Prepared Prepare(FakeGpu* fake, const GpuTestPlan& plan,
                        const RunLimits& limits = {},
                        CudaOptions options = {}) {
  InstallTestKernels(fake);
  Prepared out;
  auto loaded = plan.Load(/*check_weights=*/false);
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  out.plan = std::make_unique<Plan>(*std::move(loaded));
  options.threads = 2;
  out.executor = PrepareCuda(fake->apis(), *out.plan, limits, options);
  return out;
}

// One sequence's part of a step.
struct Piece {
  int32_t slot, position;
  std::vector<int32_t> ids;
};

struct OwnedBatch {
  std::vector<int32_t> ids, positions, slots, blocks, rows;
  std::vector<SamplerRecord> samplers;
  OwnedBatch(const Executor& e, const std::vector<Piece>& pieces,
             bool sample = true) {
    for (int64_t i = 0; i < e.num_blocks(); ++i) {
      blocks.push_back(static_cast<int32_t>((i * 3 + 1) % e.num_blocks()));
    }
    for (const Piece& p : pieces) {
      for (size_t i = 0; i < p.ids.size(); ++i) {
        ids.push_back(p.ids[i]);
        positions.push_back(p.position + static_cast<int32_t>(i));
        slots.push_back(p.slot);
      }
      rows.push_back(static_cast<int32_t>(ids.size()) - 1);
      if (sample) samplers.push_back({});
    }
  }
  StepBatch view() const {
    return {ids, positions, slots, blocks, rows, samplers};
  }
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TESTING_CUDA_TESTING_H_
