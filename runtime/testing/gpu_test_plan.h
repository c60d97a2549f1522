// A tiny plan for a GPU whose kernels are functions on the host, and a
// generator that knows what it must say.
#ifndef DEEPSLICE_RUNTIME_TESTING_GPU_TEST_PLAN_H_
#define DEEPSLICE_RUNTIME_TESTING_GPU_TEST_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/plan.h"
#include "runtime/testing/fake_gpu.h"
#include "schema/plan_generated.h"

namespace deepslice {

// x = embed[id]; of the wanted rows, logits = x . head^T (a GEMM step); the
// largest is drawn. A general program with tiles of 4 tokens, and buckets of 1,
// 2, 4 and 8. T 16, R 16, S 5, B 4, blocks of 4 tokens.
struct GpuTestPlan {
  static constexpr int64_t kVocab = 11, kHidden = 6, kBlockTokens = 4;

  // `ballast`: bytes of a weight that no step reads.
  explicit GpuTestPlan(int64_t ballast = 0);
  // At world 2, rank 0 has columns [0, 5) of the logits and gathers the rest.
  void MakeTwoRanks();

  // Hashes and sizes, after a change.
  void Seal();
  absl::StatusOr<Plan> Load(bool check_weights = true) const;

  fb::TargetT& target() { return *plan.targets[0]; }
  fb::ProgramT& program(int i) { return *target().programs[i]; }
  // The largest logit's id after `id`.
  int32_t Next(int32_t id) const;

  fb::PlanT plan;
  std::string weights, kernels;
  std::vector<float> embed, head;
};

// The kernels of the plan, by entry: "embed", "embed_tiles", "gather",
// "sample", "fill" (of service kernel "fill_random f32"), "read".
void InstallTestKernels(FakeGpu* fake);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TESTING_GPU_TEST_PLAN_H_
