// rank_NNNN.plan: read, checked and, where it holds, run for two steps.
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/executor.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/plan_seeds.h"

namespace deepslice {
namespace {

// Runs what a caller would and reads what it would read.
void Step(Executor& executor, const std::vector<int32_t>& ids, int32_t first) {
  std::vector<int32_t> positions, slots(ids.size(), 0), rows;
  for (size_t i = 0; i < ids.size(); ++i) {
    positions.push_back(first + static_cast<int32_t>(i));
    rows.push_back(static_cast<int32_t>(i));
  }
  const std::vector<int32_t> blocks(executor.num_blocks(), 0);
  const absl::Status status =
      executor.Execute({ids, positions, slots, blocks, rows, {}});
  if (!status.ok()) return CheckRefusal(status);
  const auto logits = executor.Logits();
  FUZZ_CHECK(logits.ok());
  volatile float sum = 0;  // keeps the reading
  const int64_t count = static_cast<int64_t>(rows.size());
  for (int64_t i = 0; i < count * executor.vocab_size(); ++i) {
    sum = sum + (*logits)[i];
  }
}

FUZZ_TARGET(plan) {
  static ThreadPool* const pool = new ThreadPool(1);
  // The tables are tried, so hashes of the weights need no check.
  const auto plan =
      Plan::FromBytes(input, SeedWeights(), "p", {.check_weights = false});
  if (!plan.ok()) return CheckRefusal(plan.status());
  const auto executor = Executor::Prepare(*plan, {}, nullptr, pool);
  if (!executor.ok()) return CheckRefusal(executor.status());
  // Larger ones are right and slow.
  if ((*executor)->num_blocks() > 4096 || (*executor)->vocab_size() > 4096) {
    return;
  }
  Step(**executor, {1, 130, 7}, 0);
  Step(**executor, {5}, 3);
}

}  // namespace
}  // namespace deepslice
