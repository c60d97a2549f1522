// Rectangles of stored tensors, and whole tensors put together of them without
// a copy.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_MATRIX_VIEW_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_MATRIX_VIEW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/checkpoint/checkpoint.h"
#include "compiler/checkpoint/loaded_checkpoint.h"

namespace deepslice {

// A matrix in a file; strides are in elements of `element_size` bytes. The
// caller keeps ranges within rows and columns.
struct MatrixView {
  int file = 0;
  uint64_t offset = 0;
  int64_t rows = 0, columns = 0;
  int64_t row_stride = 0, column_stride = 1;
  int64_t element_size = 1;

  MatrixView Rows(int64_t begin, int64_t count, int64_t step = 1) const;
  MatrixView Columns(int64_t begin, int64_t count) const;
  MatrixView Transposed() const;
};

// A tensor as [rows(), row_elements()]: readable, kPlain, without parts, and of
// at most two dims where it has strides.
MatrixView ViewOf(const TensorInfo& t);

// A tensor of `first`'s type and file and of `shape`, to which parts are yet to
// be added; unreadable when `first` is.
TensorInfo WholeOf(const TensorInfo& first, std::string name,
                   std::vector<int64_t> shape);

// Puts `piece` at (row, column) of `whole`. Empty pieces add nothing.
void AddPart(const MatrixView& piece, int64_t row, int64_t column,
             TensorInfo* whole);

// Whether two readable kPlain tensors of one shape and type hold the same
// bytes.
bool SameElements(const std::vector<SourceBytes>& sources, const TensorInfo& a,
                  const TensorInfo& b);

// "[4, 6]".
std::string DimsText(const std::vector<int64_t>& shape);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_MATRIX_VIEW_H_
