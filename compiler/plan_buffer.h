// The FlatBuffer of one rank, from its schedule and the places of its weights.
#ifndef DEEPSLICE_COMPILER_PLAN_BUFFER_H_
#define DEEPSLICE_COMPILER_PLAN_BUFFER_H_

#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "compiler/plan_writer.h"
#include "compiler/schedule.h"
#include "compiler/synthetic_recipe.h"
#include "compiler/weight_supply.h"

namespace deepslice {

// Where a weight lies in the rank's weight memory. Two weights of the same
// recipe and encoding share one place.
struct WeightPlace {
  uint64_t offset = 0, bytes = 0;
  uint64_t scales_offset = 0, scales_bytes = 0;
  int same_as = -1;  // index of the weight that is written
  absl::optional<SyntheticRecipe> synthetic;  // not in the file
};

struct RankLayout {
  std::vector<WeightPlace> places;  // one per weight of the graph
  uint64_t bytes = 0;               // of the file, a multiple of 4 KiB
  uint64_t memory_bytes = 0;        // with what is made up, behind the file's
};

// Places in graph order: values, then scales, each at a multiple of 256; what
// the runtime makes up comes after all that the file holds.
RankLayout LayOutWeights(const Graph& graph, const WeightSupply& supply);

struct RankPlan {
  int rank = 0;
  int world_size = 1;
  std::string plan_set_id;
  const Graph* graph = nullptr;
  const Schedule* schedule = nullptr;  // the CPU's, or the reference
  const RankLayout* layout = nullptr;
  const std::vector<uint64_t>* block_hashes = nullptr;
};

// The finished FlatBuffer; the same bytes for the same input.
std::string BuildPlanBuffer(const RankPlan& rank, const PlanContents& contents);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_PLAN_BUFFER_H_
