#include "compiler/checkpoint/raw_runs.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "schema/base/check.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// Gathered at once: this much, or the rows that lie in one line of the cache.
constexpr int64_t kGatherBytes = 1 << 20;
constexpr int64_t kLine = 64;

// kLanes vectors of as many elements, turned: each round puts vectors i and i +
// kLanes / 2 together like the halves of a pack of cards.
template <typename T>
void TurnLanes(const uint8_t* from, int64_t step, uint8_t* to, int64_t pitch) {
  typedef T Vector __attribute__((vector_size(16)));
  constexpr int kLanes = 16 / sizeof(T);
  Vector v[kLanes];
  for (int i = 0; i < kLanes; ++i) std::memcpy(&v[i], from + i * step, 16);
  for (int round = 1; round < kLanes; round *= 2) {
    Vector w[kLanes];
    for (int i = 0; i < kLanes / 2; ++i) {
      const Vector a = v[i], b = v[i + kLanes / 2];
      if constexpr (kLanes == 8) {
        w[2 * i] = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
        w[2 * i + 1] =
            __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
      } else if constexpr (kLanes == 4) {
        w[2 * i] = __builtin_shufflevector(a, b, 0, 4, 1, 5);
        w[2 * i + 1] = __builtin_shufflevector(a, b, 2, 6, 3, 7);
      } else {
        w[2 * i] = __builtin_shufflevector(a, b, 0, 2);
        w[2 * i + 1] = __builtin_shufflevector(a, b, 1, 3);
      }
    }
    std::memcpy(v, w, sizeof(v));
  }
  for (int i = 0; i < kLanes; ++i) std::memcpy(to + i * pitch, &v[i], 16);
}

// Turns height x width elements, at most a square of a cache line's width:
// column by column in `from`, where a column's lie side by side, row by row in
// `to`. Through a square in between: strides of a power of two would push each
// other out of the cache.
template <typename T>
void TurnSquare(const uint8_t* from, int64_t column_stride, int64_t height,
                int64_t width, uint8_t* to, int64_t pitch) {
  constexpr int64_t kTile = kLine / sizeof(T), kLanes = 16 / sizeof(T);
  T square[kTile][kTile];
  if (height == kTile && width == kTile) {
    for (int64_t c = 0; c < kTile; ++c) {
      std::memcpy(square[c], from + c * column_stride, kLine);
    }
    for (int64_t r = 0; r < kTile; r += kLanes) {
      for (int64_t c = 0; c < kTile; c += kLanes) {
        TurnLanes<T>(reinterpret_cast<const uint8_t*>(&square[c][r]), kLine,
                     to + r * pitch + c * sizeof(T), pitch);
      }
    }
    return;
  }
  for (int64_t c = 0; c < width; ++c) {
    std::memcpy(square[c], from + c * column_stride, height * sizeof(T));
  }
  for (int64_t r = 0; r < height; ++r) {
    T row[kTile];
    for (int64_t c = 0; c < width; ++c) row[c] = square[c][r];
    std::memcpy(to + r * pitch, row, width * sizeof(T));
  }
}

// rows x columns elements from where they lie apart.
template <typename T>
void Copy(const uint8_t* from, int64_t row_stride, int64_t column_stride,
          int64_t rows, int64_t columns, uint8_t* to, int64_t pitch) {
  constexpr int64_t kSize = sizeof(T);
  constexpr int64_t kTile = kLine / kSize;
  if (row_stride != kSize || rows < kTile / 4) {
    for (int64_t r = 0; r < rows; ++r) {
      const uint8_t* row = from + r * row_stride;
      for (int64_t c = 0; c < columns; ++c) {
        std::memcpy(to + r * pitch + c * kSize, row + c * column_stride, kSize);
      }
    }
    return;
  }
  for (int64_t c = 0; c < columns; c += kTile) {
    const int64_t width = std::min(kTile, columns - c);
    for (int64_t r = 0; r < rows; r += kTile) {
      const int64_t height = std::min(kTile, rows - r);
      TurnSquare<T>(from + r * kSize + c * column_stride, column_stride, height,
                    width, to + r * pitch + c * kSize, pitch);
    }
  }
}

void Copy(int64_t size, const uint8_t* from, int64_t row_stride,
          int64_t column_stride, int64_t rows, int64_t columns, uint8_t* to,
          int64_t pitch) {
  if (column_stride == size) {
    for (int64_t r = 0; r < rows; ++r) {
      std::memcpy(to + r * pitch, from + r * row_stride, columns * size);
    }
    return;
  }
  switch (size) {
    case 2:
      return Copy<uint16_t>(from, row_stride, column_stride, rows, columns, to,
                            pitch);
    case 4:
      return Copy<uint32_t>(from, row_stride, column_stride, rows, columns, to,
                            pitch);
    default:
      DS_CHECK(size == 8);
      return Copy<uint64_t>(from, row_stride, column_stride, rows, columns, to,
                            pitch);
  }
}

}  // namespace

absl::optional<RawRuns> RawRuns::Of(const Checkpoint& checkpoint,
                                    const TensorInfo& t, bool turned) {
  if (t.storage != Storage::kPlain || t.rotary_heads != 0 ||
      !t.unreadable.empty() || t.synthetic.has_value() || !IsFloat(t.dtype) ||
      (!t.strides.empty() && t.shape.size() > 2)) {
    return absl::nullopt;
  }
  RawRuns out;
  out.dtype_ = t.dtype;
  out.rows_ = t.rows();
  out.columns_ = t.row_elements();
  if (!t.parts.empty()) {
    for (const TensorPart& part : t.parts) {
      out.AddPart(checkpoint, part, turned);
    }
  } else if (t.num_elements() > 0) {
    TensorPart whole;
    whole.rows = t.rows();
    whole.columns = t.row_elements();
    whole.file = t.file;
    whole.offset = t.offset;
    whole.row_stride = t.strides.empty() ? whole.columns : t.strides[0];
    if (t.strides.size() == 2) whole.column_stride = t.strides[1];
    out.AddPart(checkpoint, whole, turned);
  }
  if (turned) std::swap(out.rows_, out.columns_);
  out.MakeBands();
  return out;
}

void RawRuns::AddPart(const Checkpoint& checkpoint, const TensorPart& part,
                      bool turned) {
  if (part.rows <= 0 || part.columns <= 0) return;
  const int64_t size = DTypeSize(dtype_);
  const absl::string_view bytes = checkpoint.file_bytes(part.file);
  const int64_t reach = (part.rows - 1) * part.row_stride +
                        (part.columns - 1) * part.column_stride + 1;
  DS_CHECK(part.offset <= bytes.size() &&
           static_cast<uint64_t>(reach * size) <= bytes.size() - part.offset);
  Part p;
  p.row = part.row;
  p.column = part.column;
  p.rows = part.rows;
  p.columns = part.columns;
  p.data = reinterpret_cast<const uint8_t*>(bytes.data()) + part.offset;
  p.row_stride = part.row_stride * size;
  p.column_stride = part.column_stride * size;
  if (turned) {
    std::swap(p.row, p.column);
    std::swap(p.rows, p.columns);
    std::swap(p.row_stride, p.column_stride);
  }
  // Of a single column no stride is ever taken.
  if (p.columns == 1) p.column_stride = size;
  parts_.push_back(p);
}

void RawRuns::MakeBands() {
  std::sort(parts_.begin(), parts_.end(),
            [](const Part& a, const Part& b) { return a.row < b.row; });
  std::vector<int64_t> borders;
  for (const Part& p : parts_) {
    borders.push_back(p.row);
    borders.push_back(p.row + p.rows);
  }
  std::sort(borders.begin(), borders.end());
  borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
  std::vector<size_t> now;  // parts that reach into the band
  size_t next = 0;
  for (size_t b = 0; b + 1 < borders.size(); ++b) {
    now.erase(std::remove_if(now.begin(), now.end(),
                             [&](size_t i) {
                               return parts_[i].row + parts_[i].rows <=
                                      borders[b];
                             }),
              now.end());
    for (; next < parts_.size() && parts_[next].row == borders[b]; ++next) {
      now.push_back(next);
    }
    std::sort(now.begin(), now.end(), [&](size_t i, size_t j) {
      return parts_[i].column < parts_[j].column;
    });
    bands_.push_back(
        {borders[b], borders[b + 1], in_bands_.size(), now.size()});
    in_bands_.insert(in_bands_.end(), now.begin(), now.end());
  }
}

absl::Status RawRuns::ForEach(int64_t begin, int64_t end, int64_t first,
                              int64_t last, RawRun run) const {
  DS_CHECK(begin >= 0 && end <= rows_ && first >= 0 && last <= columns_);
  if (begin >= end || first >= last) return absl::OkStatus();
  const int64_t size = DTypeSize(dtype_);
  auto band =
      std::upper_bound(bands_.begin(), bands_.end(), begin,
                       [](int64_t r, const Band& b) { return r < b.end; });
  std::vector<Part> cut;
  int64_t covered = 0;  // elements
  for (; band != bands_.end() && band->begin < end; ++band) {
    const int64_t from = std::max(begin, band->begin);
    const int64_t to = std::min(end, band->end);
    cut.clear();
    bool apart = false;
    int64_t width = 0;
    for (size_t i = 0; i < band->num_parts; ++i) {
      Part p = parts_[in_bands_[band->first_part + i]];
      const int64_t left = std::max(first, p.column);
      const int64_t right = std::min(last, p.column + p.columns);
      if (left >= right) continue;
      p.data +=
          (from - p.row) * p.row_stride + (left - p.column) * p.column_stride;
      p.column = left;
      p.columns = right - left;
      apart |= p.column_stride != size && p.columns > 1;
      width += p.columns;
      cut.push_back(p);
    }
    covered += width * (to - from);
    if (width != last - first) break;
    if (apart || (width == 1 && cut[0].row_stride != size)) {
      DS_RETURN_IF_ERROR(Gather(cut, from, to, first, last, run));
      continue;
    }
    if (cut.size() == 1 && cut[0].row_stride == cut[0].columns * size) {
      DS_RETURN_IF_ERROR(run(cut[0].data, (to - from) * cut[0].columns));
      continue;
    }
    for (int64_t row = from; row < to; ++row) {
      for (Part& p : cut) {
        DS_RETURN_IF_ERROR(run(p.data, p.columns));
        p.data += p.row_stride;
      }
    }
  }
  if (covered != (end - begin) * (last - first)) {
    return absl::InternalError("the parts of a tensor don't cover it once");
  }
  return absl::OkStatus();
}

absl::Status RawRuns::Gather(const std::vector<Part>& parts, int64_t begin,
                             int64_t end, int64_t first, int64_t last,
                             RawRun run) const {
  const int64_t size = DTypeSize(dtype_);
  const int64_t pitch = (last - first) * size;
  const int64_t line = kLine / size;  // elements
  const int64_t at_once = std::min(
      end - begin, std::max<int64_t>(1, kGatherBytes / pitch / line) * line);
  std::vector<uint8_t> buffer(at_once * pitch);
  for (int64_t row = begin; row < end; row += at_once) {
    const int64_t n = std::min(at_once, end - row);
    for (const Part& p : parts) {
      Copy(size, p.data + (row - begin) * p.row_stride, p.row_stride,
           p.columns == 1 ? size : p.column_stride, n, p.columns,
           buffer.data() + (p.column - first) * size, pitch);
    }
    DS_RETURN_IF_ERROR(run(buffer.data(), n * (last - first)));
  }
  return absl::OkStatus();
}

}  // namespace deepslice
