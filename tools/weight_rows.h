// The rows of a plan's weight as the numbers that they mean.
#ifndef DEEPSLICE_TOOLS_WEIGHT_ROWS_H_
#define DEEPSLICE_TOOLS_WEIGHT_ROWS_H_

#include <cstdint>

#include "runtime/plan.h"
#include "schema/encoding.h"

namespace deepslice {

class WeightRows {
 public:
  // The plan must outlive it, and hold the weight's numbers (FillSynthetic).
  // Encodings up to i8_row.
  WeightRows(const Plan& plan, int index);

  int64_t rows() const { return rows_; }  // 1 of a vector
  int64_t cols() const { return cols_; }
  // Row `row`, cols() numbers.
  void Read(int64_t row, float* out) const;

 private:
  const Encoding encoding_;
  const char* const data_;
  const float* const scales_;
  int64_t rows_ = 1, cols_ = 1;
};

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_WEIGHT_ROWS_H_
