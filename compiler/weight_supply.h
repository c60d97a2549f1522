// Where the numbers of a plan's weights come from: a checkpoint, or a plan that
// was made from one.
#ifndef DEEPSLICE_COMPILER_WEIGHT_SUPPLY_H_
#define DEEPSLICE_COMPILER_WEIGHT_SUPPLY_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "compiler/checkpoint/checkpoint.h"
#include "compiler/emit_weight.h"
#include "compiler/synthetic_recipe.h"
#include "ir/graph.h"

namespace deepslice {

// Const calls are safe from several threads.
class WeightSupply {
 public:
  virtual ~WeightSupply() = default;
  // What the runtime makes up; nullopt for a weight that the plan has to hold.
  virtual absl::optional<SyntheticRecipe> Synthetic(const Weight& w) const = 0;
  // The bytes of a weight of one rank, as EmitWeight gives them.
  virtual absl::Status Emit(const Weight& w, const std::vector<bool>& measured,
                            ByteSink sink, std::vector<float>* scales,
                            StorageError* error) const = 0;
  // Whose files the plan names as its sources; nullptr: PlanContents says them,
  // and what storage costs.
  virtual const Checkpoint* checkpoint() const = 0;
};

// From a checkpoint, which must outlive it.
class CheckpointSupply final : public WeightSupply {
 public:
  explicit CheckpointSupply(const Checkpoint& checkpoint)
      : checkpoint_(checkpoint) {}
  absl::optional<SyntheticRecipe> Synthetic(const Weight& w) const override {
    return SyntheticRecipeOf(checkpoint_, w);
  }
  absl::Status Emit(const Weight& w, const std::vector<bool>& measured,
                    ByteSink sink, std::vector<float>* scales,
                    StorageError* error) const override {
    return EmitWeight(checkpoint_, w, sink, scales, error, &measured);
  }
  const Checkpoint* checkpoint() const override { return &checkpoint_; }

 private:
  const Checkpoint& checkpoint_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_WEIGHT_SUPPLY_H_
