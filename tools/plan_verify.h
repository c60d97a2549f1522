// `dsplan verify`: a plan held against the checkpoint that it was made from.
#ifndef DEEPSLICE_TOOLS_PLAN_VERIFY_H_
#define DEEPSLICE_TOOLS_PLAN_VERIFY_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/checkpoint/checkpoint.h"
#include "compiler/model.h"
#include "runtime/plan.h"

namespace deepslice {

// The collectives of all ranks in sequence: kind, group, type, columns.
// Internal status naming the first that differs and both steps.
absl::Status VerifyCollectives(const std::vector<Plan>& ranks);

// One value of the plan beside the same value of the interpretation.
struct ComparedValue {
  std::string name;
  int layer = -1;
  double relative_l2 = 0;
  double max_error = 0;  // over the largest reference value
  bool within = true;
};

struct Comparison {
  double tolerance = 0;               // on relative_l2
  std::vector<ComparedValue> values;  // in the plan's order
  const ComparedValue* FirstOutside() const;
};

// Runs the plan (all ranks as threads) over `ids` as one sequence, a prefill
// and then single tokens, beside a double-precision interpretation of the
// checkpoint's unoptimised import, and compares every value that both name and
// that is whole on rank 0. The interpretation reads each weight rounded to the
// plan's encoding (and checks that no value moves by more than half a step), so
// that the tolerance can be tight whatever the encoding. Reads the checkpoint's
// tensors one at a time. `on_value`, where given, hears how many of the
// interpretation's values are there, of how many: it takes nearly all the time.
absl::StatusOr<Comparison> CompareWithSource(
    const std::vector<Plan>& ranks, const Checkpoint& checkpoint,
    const ModelDescription& model, const std::vector<int32_t>& ids,
    const std::function<void(uint64_t done, uint64_t all)>& on_value = {});

// `count` ids spread over the vocabulary, the same each time.
std::vector<int32_t> ProbeIds(int64_t vocab_size, int count);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_PLAN_VERIFY_H_
