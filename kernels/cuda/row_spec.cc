#include "kernels/cuda/row_spec.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace deepslice {

std::string FloatBitsText(double value) {
  const float f = static_cast<float>(value);
  uint32_t bits;
  std::memcpy(&bits, &f, 4);
  return absl::StrFormat("0x%08xu", bits);
}

std::string EntryText(absl::string_view name,
                      std::initializer_list<absl::AlphaNum> args) {
  return absl::StrCat(
      name, "<",
      absl::StrJoin(args, ", ",
                    [](std::string* out, const absl::AlphaNum& a) {
                      absl::StrAppend(out, a);
                    }),
      ">");
}

int64_t VectorOf(int64_t cols, std::initializer_list<DType> types) {
  int64_t v = 8;
  for (DType t : types) v = std::min(v, 16 / DTypeSize(t));
  return std::gcd(v, cols);
}

int64_t WidthOf(DType type, int64_t vec, int64_t stride) {
  return std::gcd<int64_t>(
      16, std::gcd(vec * DTypeSize(type), stride * DTypeSize(type)));
}

GridExtent RowsExtent(CountDim count, int64_t max_rows, int64_t per_block) {
  if (count == CountDim::kNone) {
    return {(max_rows + per_block - 1) / per_block, 1, count};
  }
  return {1, per_block, count};
}

}  // namespace deepslice
