// Made-up numbers for weights, the same however a weight is cut or joined.
#ifndef DEEPSLICE_PASSES_SYNTHETIC_WEIGHTS_H_
#define DEEPSLICE_PASSES_SYNTHETIC_WEIGHTS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "passes/evaluate.h"

namespace deepslice {

// In [-0.25, 0.25), a function of its arguments alone and exact in float.
// `row` and `col` are places in the source tensor seen as [out, in].
double SyntheticValue(uint64_t seed, absl::string_view tensor, int64_t row,
                      int64_t col);

// A weight made of its pieces by the recipe, each element the SyntheticValue of
// its place in the source; 1 is added where the role is a norm's. A weight
// without source is its own source; a formula is evaluated (passes/formula.h).
// Encodings change nothing: this is the model before rounding.
WeightProvider SyntheticWeights(uint64_t seed);

// `read(tensor, row, col)` for every element of the weight, in its recipe's
// order; the weight must have pieces. What all providers share.
RefTensor AssemblePieces(
    const Weight& weight,
    const std::function<double(const SourcePiece& piece, int64_t row,
                               int64_t col)>& read);

}  // namespace deepslice

#endif  // DEEPSLICE_PASSES_SYNTHETIC_WEIGHTS_H_
