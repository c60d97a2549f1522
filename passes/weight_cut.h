// Cuts a weight's type and its recipe together.
#ifndef DEEPSLICE_PASSES_WEIGHT_CUT_H_
#define DEEPSLICE_PASSES_WEIGHT_CUT_H_

#include <vector>

#include "absl/status/status.h"
#include "ir/graph.h"

namespace deepslice {

// Keeps rows [part.begin, part.end) of a weight made of pieces one after the
// other, or by a formula that has a begin and an end (or of no recipe at all,
// in tests).
absl::Status CutWeightRows(Weight& w, Range part);
// Keeps columns of a weight of any number of pieces.
absl::Status CutWeightCols(Weight& w, Range part);
// Keeps rows parts[i] of piece i.
absl::Status CutWeightPieces(Weight& w, const std::vector<Range>& parts);

}  // namespace deepslice

#endif  // DEEPSLICE_PASSES_WEIGHT_CUT_H_
