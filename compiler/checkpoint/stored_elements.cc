#include "compiler/checkpoint/stored_elements.h"

#include <algorithm>
#include <cstring>

#include "compiler/checkpoint/strided_rows.h"

namespace deepslice {

std::vector<TensorPart> PartsOf(const TensorInfo& t) {
  if (!t.parts.empty()) return t.parts;
  TensorPart part;
  part.file = t.file;
  part.offset = t.offset;
  part.rows = t.rows();
  part.columns = t.row_elements();
  part.row_stride = t.strides.empty() ? part.columns : t.strides[0];
  if (!t.strides.empty() && t.shape.size() == 2) {
    part.column_stride = t.strides[1];
  }
  return {part};
}

void AddSlab(const TensorInfo& from, int dim, int64_t begin, int64_t count,
             int64_t row, int64_t column, TensorInfo* to) {
  for (TensorPart part : PartsOf(from)) {
    int64_t& at = dim == 0 ? part.row : part.column;
    int64_t& size = dim == 0 ? part.rows : part.columns;
    const int64_t skip = std::max<int64_t>(0, begin - at);
    const int64_t end = std::min(at + size, begin + count);
    at += skip;
    size = end - at;
    part.offset += skip * (dim == 0 ? part.row_stride : part.column_stride) *
                   DTypeSize(from.dtype);
    at -= begin;
    part.row += row;
    part.column += column;
    if (part.rows > 0 && part.columns > 0) to->parts.push_back(part);
  }
}

absl::string_view StoredElements(const std::vector<SourceBytes>& sources,
                                 const TensorInfo& t, std::string* room) {
  const int64_t size = DTypeSize(t.dtype);
  if (t.parts.empty()) {
    const absl::string_view stored = sources[t.file].bytes.substr(t.offset);
    if (t.strides.empty()) return stored.substr(0, t.bytes);
    ForEachLine(t, reinterpret_cast<const uint8_t*>(stored.data()), 0, t.rows(),
                [&](const uint8_t* line, int64_t count) {
                  room->append(reinterpret_cast<const char*>(line),
                               count * size);
                });
    return *room;
  }
  room->resize(t.num_elements() * size);
  for (const TensorPart& part : t.parts) {
    const char* from = sources[part.file].bytes.data() + part.offset;
    char* to =
        room->data() + (part.row * t.row_elements() + part.column) * size;
    for (int64_t row = 0; row < part.rows; ++row) {
      if (part.column_stride == 1) {
        std::memcpy(to, from, part.columns * size);
      } else {
        for (int64_t c = 0; c < part.columns; ++c) {
          std::memcpy(to + c * size, from + c * part.column_stride * size,
                      size);
        }
      }
      from += part.row_stride * size;
      to += t.row_elements() * size;
    }
  }
  return *room;
}

}  // namespace deepslice
