#include "compiler/checkpoint/strided_rows.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace deepslice {
namespace {

template <int kSize>
void Gather(const uint8_t* from, int64_t step, int64_t count, uint8_t* to) {
  for (int64_t i = 0; i < count; ++i, from += step, to += kSize) {
    std::memcpy(to, from, kSize);
  }
}

void Gather(int64_t size, const uint8_t* from, int64_t step, int64_t count,
            uint8_t* to) {
  switch (size) {
    case 1:
      return Gather<1>(from, step, count, to);
    case 2:
      return Gather<2>(from, step, count, to);
    case 4:
      return Gather<4>(from, step, count, to);
    default:
      return Gather<8>(from, step, count, to);
  }
}

// A line is so many elements at most: its memory stays small.
constexpr int64_t kMostLine = 16 << 10;

}  // namespace

void ForEachLine(
    const TensorInfo& t, const uint8_t* first, int64_t begin, int64_t end,
    absl::FunctionRef<void(const uint8_t* bytes, int64_t count)> line) {
  const int64_t size = DTypeSize(t.dtype);
  const size_t last = t.shape.size() - 1;  // strides: no scalar
  const int64_t from = last == 0 ? begin : 0;
  const int64_t to = last == 0 ? end : t.shape[last];
  if (begin >= end || from >= to || t.row_elements() == 0) return;
  std::vector<uint8_t> bytes(std::min(kMostLine, to - from) * size);
  std::vector<int64_t> at(t.shape.size(), 0);  // of all dims but the last
  if (last > 0) at[0] = begin;
  for (;;) {
    int64_t place = 0;
    for (size_t d = 0; d < last; ++d) place += at[d] * t.strides[d];
    for (int64_t i = from; i < to; i += kMostLine) {
      const int64_t count = std::min(kMostLine, to - i);
      Gather(size, first + (place + i * t.strides[last]) * size,
             t.strides[last] * size, count, bytes.data());
      line(bytes.data(), count);
    }
    size_t d = last;
    while (d > 0) {
      --d;
      if (++at[d] < (d == 0 ? end : t.shape[d])) break;
      if (d == 0) return;
      at[d] = 0;
    }
    if (last == 0) return;
  }
}

}  // namespace deepslice
