#include "tools/weight_rows.h"

#include <cstring>

#include "schema/base/dtype.h"

namespace deepslice {
namespace {

template <typename T>
T At(const char* data, int64_t i) {
  T value;
  std::memcpy(&value, data + i * sizeof(T), sizeof(T));
  return value;
}

}  // namespace

WeightRows::WeightRows(const Plan& plan, int index)
    : encoding_(
          static_cast<Encoding>(plan.fb().weights()->Get(index)->encoding())),
      data_(static_cast<const char*>(plan.weight_data(index))),
      scales_(plan.weight_scales(index)) {
  const auto& shape = *plan.fb().weights()->Get(index)->shape();
  if (shape.size() == 2) rows_ = shape.Get(0);
  cols_ = shape.Get(shape.size() - 1);
}

void WeightRows::Read(int64_t row, float* out) const {
  const int64_t begin = row * cols_;
  for (int64_t i = 0; i < cols_; ++i) {
    switch (encoding_) {
      case Encoding::kF32:
        out[i] = At<float>(data_, begin + i);
        break;
      case Encoding::kF16:
        out[i] = F16ToFloat(At<uint16_t>(data_, begin + i));
        break;
      case Encoding::kBF16:
        out[i] = BF16ToFloat(At<uint16_t>(data_, begin + i));
        break;
      default:
        out[i] = At<int8_t>(data_, begin + i) * scales_[row];
    }
  }
}

}  // namespace deepslice
