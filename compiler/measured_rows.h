// Which rank measures what storing a row costs, so that every row of the whole
// weight counts once however many ranks hold it or parts of it.
#ifndef DEEPSLICE_COMPILER_MEASURED_ROWS_H_
#define DEEPSLICE_COMPILER_MEASURED_ROWS_H_

#include <vector>

#include "ir/graph.h"

namespace deepslice {

// Whether a row's number is that of the same row of the same tensor in both.
bool CountSameRows(const SourcePiece& a, const SourcePiece& b);

// One flag for each row of weight `index` of ranks[rank]. Over all ranks,
// exactly one holder of a row has it set: of a weight that all ranks hold by
// the same rows (cut by columns, or whole) they take turns, else it is the
// first holder.
std::vector<bool> MeasuredRows(const std::vector<const Graph*>& ranks,
                               size_t rank, size_t index);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_MEASURED_ROWS_H_
