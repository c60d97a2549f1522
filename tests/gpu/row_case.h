// What cases of kernels over rows share.
#ifndef DEEPSLICE_TESTS_GPU_ROW_CASE_H_
#define DEEPSLICE_TESTS_GPU_ROW_CASE_H_

#include <cstdint>
#include <vector>

#include "kernels/cuda/kernel_spec.h"
#include "kernels/reference.h"
#include "tests/gpu/gpu_case.h"

namespace deepslice {

inline constexpr DType kRowTypes[] = {DType::kF32, DType::kF16, DType::kBF16};

// A count of `count` rows in the field that `dim` names, other fields wrong.
StepInfo InfoOf(CountDim dim, int64_t count);
int64_t RowsOf(CountDim dim, int64_t max_rows);

// Rounding of the output and a few roundings of float on the way.
double Allowed(DType t, double want, double magnitude);

// What the launch must leave: y[r, c] for `rows` rows, nothing else.
GpuCheck OutputCheck(int buffer, DType type, int64_t max_rows, int64_t stride);

// The first rows and columns of rows of `stride` elements.
RefTensor Dense(const HostTensor& t, int64_t rows, int64_t stride,
                int64_t cols);
RefTensor Vector(const HostTensor& t);
RefTensor Vector(const std::vector<int32_t>& values);

// Of what a reference makes; `magnitude`: of the numbers on the way.
GpuCheck CheckOf(const RefTensor& want, int buffer, DType type,
                 int64_t max_rows, int64_t stride, double magnitude);

}  // namespace deepslice

#endif  // DEEPSLICE_TESTS_GPU_ROW_CASE_H_
