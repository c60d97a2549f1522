// A policy for a model that no policy names: which tensor is which weight, by
// the names that linears, norms and embeddings have everywhere and by their
// place in the layers; sizes by the tensors; the rest by the config's usual
// keys.
#ifndef DEEPSLICE_COMPILER_AUTO_POLICY_H_
#define DEEPSLICE_COMPILER_AUTO_POLICY_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/checkpoint/checkpoint.h"
#include "compiler/injection.h"

namespace deepslice {

struct AutoPolicy {
  std::string text;  // as a policy file; see MODELS.md
  // What was decided, one line each, for people.
  std::vector<std::string> decisions;
};

// Recognises pre-norm decoders with separate query, key and value projections.
// `injection`, where not empty, names the row-parallel linears. Unimplemented
// with the first thing that can't be decided: a tensor without a meaning,
// layers that differ, rows of unknown order, a key that may change the maths.
absl::StatusOr<AutoPolicy> MakeAutoPolicy(const Checkpoint& checkpoint,
                                          const Injection& injection);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_AUTO_POLICY_H_
