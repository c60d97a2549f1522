// Template arguments and grids of kernels over rows.
#ifndef DEEPSLICE_KERNELS_CUDA_ROW_SPEC_H_
#define DEEPSLICE_KERNELS_CUDA_ROW_SPEC_H_

#include <cstdint>
#include <initializer_list>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/kernel_spec.h"

namespace deepslice {

// A float by its bits: a template argument can't be one.
std::string FloatBitsText(double value);
inline absl::string_view BoolText(bool b) { return b ? "true" : "false"; }

// "Name<arg, arg>".
std::string EntryText(absl::string_view name,
                      std::initializer_list<absl::AlphaNum> args);

// Elements that a thread takes at a time: at most 16 bytes of the wider type,
// and a divisor of the columns.
int64_t VectorOf(int64_t cols, std::initializer_list<DType> types);

// Bytes of the widest piece to which every vector of a row is aligned. Buffers
// and weights start at multiples of 256.
int64_t WidthOf(DType type, int64_t vec, int64_t stride);

// per_block rows in each block.
GridExtent RowsExtent(CountDim count, int64_t max_rows, int64_t per_block);

inline int CountNumber(CountDim count) { return static_cast<int>(count); }

}  // namespace deepslice

#endif  // DEEPSLICE_KERNELS_CUDA_ROW_SPEC_H_
