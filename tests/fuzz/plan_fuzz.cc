// rank_NNNN.plan: read, checked and, where it holds, run for three steps.
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/executor.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/plan_seeds.h"

namespace deepslice {
namespace {

// Larger ones are right and slow.
bool IsSmall(const Executor& e) {
  return e.num_blocks() <= 4096 && e.vocab_size() <= 4096 &&
         e.patch_elements() <= 4096 && e.limits().max_batch <= 4096;
}

volatile float sum = 0;  // keeps the reading
void Read(const float* data, int64_t count) {
  for (int64_t i = 0; i < count; ++i) sum = sum + data[i];
}

// Runs what a caller would and reads what it would read. `first`: of the ids'
// positions; a source and an image begin with it.
void Step(Executor& executor, const std::vector<int32_t>& ids, int32_t first) {
  std::vector<int32_t> positions, slots(ids.size(), 0), rows;
  for (size_t i = 0; i < ids.size(); ++i) {
    positions.push_back(first + static_cast<int32_t>(i));
    rows.push_back(static_cast<int32_t>(i));
  }
  const std::vector<int32_t> blocks(executor.num_blocks(), 0);
  const std::vector<int32_t> horizons(executor.limits().max_batch, 3);
  const std::vector<int32_t> two = {0, 1}, same = {0, 0}, one = {0};
  StepBatch batch;
  batch.ids = ids;
  batch.positions = positions;
  batch.slots = slots;
  batch.blocks = blocks;
  batch.rows = rows;
  batch.horizons = horizons;
  const std::vector<int32_t> types(ids.size(), 1);
  if (executor.reads_types()) batch.types = types;
  std::vector<int32_t> sources;
  if (executor.max_source_tokens() > 0) {
    for (int64_t s = 0; s < executor.limits().max_batch; ++s) {
      sources.insert(sources.end(), {0, 2});
    }
    batch.sources = sources;
    if (first == 0) {
      batch.source_ids = two;
      batch.source_positions = two;
      batch.source_slots = same;
    }
  }
  const std::vector<float> pixels(2 * executor.patch_elements(), 0.25f);
  if (executor.max_images() > 0 && first == 0) {
    batch.image_positions = two;
    batch.image_slots = same;
    batch.image_rows = one;
    batch.pixels = pixels;
  }
  const absl::Status status = executor.Execute(batch);
  if (!status.ok()) return CheckRefusal(status);
  if (executor.encodes()) {
    const auto outputs = executor.Outputs();
    FUZZ_CHECK(outputs.ok());
    for (const NamedOutput& o : *outputs) Read(o.data, o.rows * o.cols);
    return;
  }
  const auto logits = executor.Logits();
  FUZZ_CHECK(logits.ok());
  Read(*logits, static_cast<int64_t>(rows.size()) * executor.vocab_size());
}

FUZZ_TARGET(plan) {
  static ThreadPool* const pool = new ThreadPool(1);
  // The tables are tried, so hashes of the weights need no check.
  const auto plan =
      Plan::FromBytes(input, SeedWeights(), "p", {.check_weights = false});
  if (!plan.ok()) return CheckRefusal(plan.status());
  const auto executor = Executor::Prepare(*plan, {}, nullptr, pool);
  if (!executor.ok()) return CheckRefusal(executor.status());
  if (!IsSmall(**executor)) return;
  const bool encodes = (*executor)->encodes();
  Step(**executor, {1, 12, 7}, 0);
  Step(**executor, {1, 5, 7}, 0);
  Step(**executor, {5}, encodes ? 0 : 3);
}

}  // namespace
}  // namespace deepslice
