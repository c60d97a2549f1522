#include "compiler/checkpoint/matrix_view.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/checkpoint/stored_elements.h"
#include "schema/base/check.h"

namespace deepslice {

MatrixView MatrixView::Rows(int64_t begin, int64_t count, int64_t step) const {
  MatrixView out = *this;
  out.offset += begin * row_stride * element_size;
  out.rows = count;
  out.row_stride *= step;
  return out;
}

MatrixView MatrixView::Columns(int64_t begin, int64_t count) const {
  MatrixView out = *this;
  out.offset += begin * column_stride * element_size;
  out.columns = count;
  return out;
}

MatrixView MatrixView::Transposed() const {
  MatrixView out = *this;
  std::swap(out.rows, out.columns);
  std::swap(out.row_stride, out.column_stride);
  return out;
}

MatrixView ViewOf(const TensorInfo& t) {
  DS_CHECK(t.storage == Storage::kPlain && t.parts.empty() &&
           t.unreadable.empty());
  DS_CHECK(t.strides.empty() || t.shape.size() <= 2);
  MatrixView out;
  out.file = t.file;
  out.offset = t.offset;
  out.rows = t.rows();
  out.columns = t.row_elements();
  out.element_size = DTypeSize(t.dtype);
  out.row_stride = t.strides.empty() ? out.columns : t.strides[0];
  if (t.strides.size() == 2) out.column_stride = t.strides[1];
  return out;
}

TensorInfo WholeOf(const TensorInfo& first, std::string name,
                   std::vector<int64_t> shape) {
  TensorInfo out;
  out.stored_name = first.stored_name.empty() ? first.name : first.stored_name;
  out.name = std::move(name);
  out.dtype = first.dtype;
  out.shape = std::move(shape);
  out.file = first.file;
  out.unreadable = first.unreadable;
  out.bytes = out.num_elements() * DTypeSize(out.dtype);
  return out;
}

void AddPart(const MatrixView& piece, int64_t row, int64_t column,
             TensorInfo* whole) {
  if (piece.rows == 0 || piece.columns == 0) return;
  TensorPart part;
  part.row = row;
  part.column = column;
  part.rows = piece.rows;
  part.columns = piece.columns;
  part.file = piece.file;
  part.offset = piece.offset;
  part.row_stride = piece.row_stride;
  part.column_stride = piece.column_stride;
  whole->parts.push_back(part);
}

bool SameElements(const std::vector<SourceBytes>& sources, const TensorInfo& a,
                  const TensorInfo& b) {
  std::string room_a, room_b;
  return StoredElements(sources, a, &room_a) ==
         StoredElements(sources, b, &room_b);
}

std::string DimsText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

}  // namespace deepslice
