#include "tests/gpu/row_case.h"

namespace deepslice {

StepInfo InfoOf(CountDim dim, int64_t count) {
  StepInfo info = {};
  info.tokens = info.rows = info.tiles = 1 << 20;
  info.image_tokens = info.images = info.source_tokens = 1 << 20;
  const int32_t n = static_cast<int32_t>(count);
  if (dim == CountDim::kTokens) info.tokens = n;
  if (dim == CountDim::kRows) info.rows = n;
  if (dim == CountDim::kTiles) info.tiles = n;
  if (dim == CountDim::kImageTokens) info.image_tokens = n;
  if (dim == CountDim::kImages) info.images = n;
  if (dim == CountDim::kSourceTokens) info.source_tokens = n;
  return info;
}
int64_t RowsOf(CountDim dim, int64_t max_rows) {
  return dim == CountDim::kNone || max_rows == 1 ? max_rows : max_rows - 1;
}

double Allowed(DType t, double want, double magnitude) {
  return RoundingOf(t, want) + 0x1p-20 * magnitude;
}

GpuCheck OutputCheck(int buffer, DType type, int64_t max_rows, int64_t stride) {
  GpuCheck check;
  check.buffer = buffer;
  check.type = type;
  check.want.assign(max_rows * stride, kUntouched);
  check.allowed.assign(max_rows * stride, 0);
  return check;
}

RefTensor Dense(const HostTensor& t, int64_t rows, int64_t stride,
                int64_t cols) {
  RefTensor out = {{rows, cols}, {}};
  for (int64_t r = 0; r < rows; ++r) {
    const auto row = t.values.begin() + r * stride;
    out.data.insert(out.data.end(), row, row + cols);
  }
  return out;
}

RefTensor Vector(const HostTensor& t) {
  return {{static_cast<int64_t>(t.values.size())}, t.values};
}
RefTensor Vector(const std::vector<int32_t>& values) {
  return {{static_cast<int64_t>(values.size())},
          {values.begin(), values.end()}};
}

GpuCheck CheckOf(const RefTensor& want, int buffer, DType type,
                 int64_t max_rows, int64_t stride, double magnitude) {
  GpuCheck check = OutputCheck(buffer, type, max_rows, stride);
  for (int64_t r = 0; r < want.rows(); ++r) {
    for (int64_t c = 0; c < want.cols(); ++c) {
      const double y = want.row(r)[c];
      check.want[r * stride + c] = y;
      check.allowed[r * stride + c] = Allowed(type, y, magnitude);
    }
  }
  return check;
}

}  // namespace deepslice
