// The stored elements of a plain tensor, in order, as runs of bytes: views of
// the files wherever elements lie side by side, whatever the tensor is cut
// into.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_RAW_RUNS_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_RAW_RUNS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "compiler/checkpoint/checkpoint.h"
#include "schema/base/dtype.h"

namespace deepslice {

// `count` elements; they live until the call returns.
using RawRun =
    absl::FunctionRef<absl::Status(const uint8_t* elements, int64_t count)>;

// Thread-safe; the checkpoint must outlive it.
class RawRuns {
 public:
  // Of the tensor seen as [rows(), row_elements()], or turned, as
  // [row_elements(), rows()]. Nothing where the elements must be computed
  // (blocks, made up, in another order of rows) or can't be read, are no
  // floats, or are those of a view that is no matrix.
  static absl::optional<RawRuns> Of(const Checkpoint& checkpoint,
                                    const TensorInfo& t, bool turned);

  DType dtype() const { return dtype_; }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }

  // The elements of rows [begin, end) and columns [first, last), row-major:
  // runs are as long as the files allow. Elements that lie apart are gathered,
  // some MiB of rows at a time. The first error of `run` ends it.
  absl::Status ForEach(int64_t begin, int64_t end, int64_t first, int64_t last,
                       RawRun run) const;

 private:
  // A rectangle of the tensor; strides in bytes.
  struct Part {
    int64_t row, column, rows, columns;
    const uint8_t* data;
    int64_t row_stride, column_stride;
  };
  // Rows that the same parts cover, from left to right.
  struct Band {
    int64_t begin, end;
    size_t first_part, num_parts;  // of in_bands_
  };

  void AddPart(const Checkpoint& checkpoint, const TensorPart& part,
               bool turned);
  void MakeBands();
  absl::Status Gather(const std::vector<Part>& parts, int64_t begin,
                      int64_t end, int64_t first, int64_t last,
                      RawRun run) const;

  DType dtype_ = DType::kF32;
  int64_t rows_ = 0, columns_ = 0;
  std::vector<Part> parts_;
  std::vector<Band> bands_;  // by row
  std::vector<size_t> in_bands_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_RAW_RUNS_H_
