// A graph weight that is made of made-up tensors, as the plan says it, so that
// the runtime fills memory and no file holds the numbers.
#ifndef DEEPSLICE_COMPILER_SYNTHETIC_RECIPE_H_
#define DEEPSLICE_COMPILER_SYNTHETIC_RECIPE_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "compiler/checkpoint/checkpoint.h"
#include "ir/graph.h"

namespace deepslice {

// SyntheticPiece of plan.fbs.
struct SyntheticRows {
  uint64_t key = 0;
  int64_t first_row = 0, row_step = 1, rows = 0;
  int64_t rows_begin = 0, cols_begin = 0;
};

struct SyntheticRecipe {
  uint64_t seed = 0;
  float mean = 0, scale = 1;
  std::vector<SyntheticRows> pieces;
};

// What a tensor of that name is made of; nullptr when a file holds it.
using FindSynthetic =
    absl::FunctionRef<const SyntheticTensor*(absl::string_view tensor)>;

// nullopt for a weight that a plan has to hold: it is read from a file, made
// by a formula, quantised, or joined of tensors with unlike mean and scale.
absl::optional<SyntheticRecipe> SyntheticRecipeOf(FindSynthetic find,
                                                  const Weight& weight);
absl::optional<SyntheticRecipe> SyntheticRecipeOf(const Checkpoint& checkpoint,
                                                  const Weight& weight);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_SYNTHETIC_RECIPE_H_
