// The numbers of a weight as the plan stores them: read from the checkpoint,
// rounded to its encoding.
#ifndef DEEPSLICE_COMPILER_STORED_ROWS_H_
#define DEEPSLICE_COMPILER_STORED_ROWS_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "compiler/weight_reader.h"

namespace deepslice {

// Of a weight of the unsliced graph, whose rows are whole: a quantised row's
// scale is its own. Not thread-safe; what it is made of must outlive it.
class StoredRows {
 public:
  StoredRows(const Checkpoint& checkpoint, const Weight& weight)
      : weight_(weight), reader_(checkpoint, weight) {}

  // Rows [begin, end): out holds (end - begin) * cols(). Errors of
  // WeightReader.
  absl::Status Read(int64_t begin, int64_t end, absl::Span<float> out);
  int64_t rows() const { return reader_.rows(); }
  int64_t cols() const { return reader_.cols(); }

 private:
  const Weight& weight_;
  WeightReader reader_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_STORED_ROWS_H_
