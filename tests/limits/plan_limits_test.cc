// Plans at the edge of what may be asked for.
#include <unistd.h>

#include <functional>

#include "absl/strings/str_cat.h"
#include "compiler/checkpoint/test_files.h"
#include "runtime/manifest.h"
#include "runtime/plan.h"
#include "schema/base/file.h"
#include "schema/base/limits.h"
#include "tests/limits/edge.h"
#include "tests/support/gpu_plan_builder.h"
#include "tests/support/plan_builder.h"

namespace deepslice {
namespace {

absl::Status Load(const std::function<void(TestPlan&)>& change) {
  TestPlan plan = TinyLlama().Build();
  change(plan);
  return plan.Load().status();
}

absl::Status PlanFile(int64_t bytes) {
  const TempFolder folder;
  const std::string path = folder.Write("rank_0000.plan", "");
  if (truncate(path.c_str(), bytes) != 0) return absl::OkStatus();
  return ReadFile(path, limits::kPlanBytes).status();
}

}  // namespace

std::vector<Edge> PlanEdges() {
  return {
      {"PlanBytes", PlanFile, kOnlyAbove},
      {"PlanSetIdBytes",
       [](int64_t n) {
         return Load([&](TestPlan& p) { p.plan.plan_set_id.assign(n, 'x'); });
       },
       kOk},
      {"PlanSelfTests",
       [](int64_t n) {
         return Load([&](TestPlan& p) {
           p.plan.self_tests.clear();
           for (int64_t i = 0; i < n; ++i) {
             p.plan.self_tests.push_back(std::make_unique<fb::SelfTestT>());
           }
         });
       },
       kOk},
      {"PlanExtent",
       [](int64_t n) {
         return Load([&](TestPlan& p) { p.program().dims[2]->maximum = n; });
       },
       kOk},
      {"PlanHeadDim",
       [](int64_t n) {
         return Load([&](TestPlan& p) { p.plan.states[0]->head_dim = n; });
       },
       0, ": one is out of range"},
      {"PlanWeightBytes",
       [](int64_t n) {
         return Load([&](TestPlan& p) {
           fb::WeightT& w = *p.plan.weights[0];
           w.origin = fb::WeightOrigin::Synthetic;
           w.offset = static_cast<uint64_t>(n) / 256 * 256 -
                      (w.bytes + 255) / 256 * 256 +
                      (n > limits::kPlanWeightBytes ? 256 : 0);
           w.pieces = {fb::SyntheticPiece(1, 0, 1, 131, 0, 0)};
         });
       }},
      {"PlanBufferBytes",
       [](int64_t n) {
         return Load([&](TestPlan& p) { p.program().slots[0]->bytes = n; });
       },
       0, "slots[0]: bytes"},
      {"PlanSyncWords",
       [](int64_t n) {
         TestPlan plan = TinyGpuPlan().Build();
         TinyGpuPlan::Target(plan).sync_words = n;
         return plan.Load().status();
       },
       kOk},
      {"WorldSize",
       [](int64_t n) {
         return Load(
             [&](TestPlan& p) { p.plan.world_size = static_cast<int>(n); });
       }},
  };
}

}  // namespace deepslice
