// The weights of a plan as the source of another plan's: the same numbers in
// the same encodings, cut differently.
#ifndef DEEPSLICE_TOOLS_PLAN_SUPPLY_H_
#define DEEPSLICE_TOOLS_PLAN_SUPPLY_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/checkpoint/checkpoint.h"
#include "compiler/weight_supply.h"
#include "ir/graph.h"
#include "runtime/plan.h"

namespace deepslice {

// Rows of a piece that one rank holds, all of their columns or some, where they
// lie in its weight.
struct HeldRows {
  Range rows, cols;            // of the piece's tensor, counted as recipes do
  const char* data = nullptr;  // of the first row's first column
  int64_t row_bytes = 0;       // from row to row
  const float* scales = nullptr;  // of the first row; null: none
  int64_t scale_step = 0;         // from row to row
};

// Rows [rows.begin, rows.end) of a piece, each made of the same parts from left
// to right.
struct HeldRun {
  Range rows;
  std::vector<HeldRows> parts;  // cut to the run's rows and the wanted columns
};

class PlanSupply final : public WeightSupply {
 public:
  // `ranks` are all ranks of the plan, `graphs` what each was written from, in
  // order; both must outlive it. DataLoss where a rank's weights are not those
  // of its graph.
  static absl::StatusOr<std::unique_ptr<PlanSupply>> Create(
      const std::vector<Plan>& ranks, const std::vector<Graph>& graphs);

  absl::optional<SyntheticRecipe> Synthetic(const Weight& w) const override;
  // DataLoss for rows or columns that no rank holds.
  absl::Status Emit(const Weight& w, const std::vector<bool>& measured,
                    ByteSink sink, std::vector<float>* scales,
                    StorageError* error) const override;
  const Checkpoint* checkpoint() const override { return nullptr; }

  // Where the piece's rows and columns of weight `name` lie; runs in order of
  // rows, that cover all of them. The weight is stored in the plan.
  absl::StatusOr<std::vector<HeldRun>> Find(const std::string& name,
                                            const SourcePiece& piece) const;

 private:
  struct Holder {
    const Plan* plan;
    int index;        // of the weight
    const Weight* w;  // of the rank's graph
  };
  // What the plan says of a weight that it makes up; nullptr: it is stored.
  const fb::Weight* MadeUp(const std::string& name) const;

  std::map<std::string, std::vector<Holder>> holders_;  // by weight
  std::unique_ptr<Checkpoint> nothing_;  // what formulas are read from
};

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_PLAN_SUPPLY_H_
