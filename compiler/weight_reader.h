// A graph weight's numbers, read from the checkpoint through its recipe.
#ifndef DEEPSLICE_COMPILER_WEIGHT_READER_H_
#define DEEPSLICE_COMPILER_WEIGHT_READER_H_

#include <map>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "compiler/checkpoint/checkpoint.h"
#include "compiler/checkpoint/raw_runs.h"
#include "ir/graph.h"

namespace deepslice {

// Reads one weight, in any order of rows, as logical f32 values. A tensor of
// blocks that is published transposed is read whole at first use, the rows that
// the weight takes of it only, and kept while the reader lives; of all others
// only the rows asked for are in memory, a few at a time. Both arguments must
// outlive the reader. Not thread-safe.
//
// Errors: NotFound for a tensor that is not in the checkpoint, InvalidArgument
// for a piece outside its tensor or rows outside the weight, and what
// Checkpoint::ReadRows and EvaluateFormula say.
class WeightReader {
 public:
  WeightReader(const Checkpoint& checkpoint, const Weight& weight);

  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }  // 1 of a vector
  // Columns of the whole tensors that the pieces are cut from: cols() unless
  // the weight is a cut along columns.
  int64_t full_cols() const { return full_cols_; }

  // Rows [begin, end): out holds (end - begin) * cols().
  absl::Status ReadRows(int64_t begin, int64_t end, absl::Span<float> out);
  // The same rows with every column of their tensors, so that scales over whole
  // rows don't depend on the cut: out holds (end - begin) * full_cols().
  absl::Status ReadFullRows(int64_t begin, int64_t end, absl::Span<float> out);

  // Whether the weight is nothing but stored elements in some order; then
  // ForEachRun gives them all, row-major, as they are stored: `count` of a type
  // that may differ from run to run, up to the first error of `run`.
  bool has_runs() const;
  absl::Status ForEachRun(
      absl::FunctionRef<absl::Status(DType type, const uint8_t* elements,
                                     int64_t count)>
          run) const;

 private:
  // Rows [begin, end) of a piece, counted in the piece, and columns `cols` of
  // its tensor, to every stride-th row of `out` (a row is cols.size() wide).
  absl::Status ReadPiece(const SourcePiece& piece, int64_t begin, int64_t end,
                         Range cols, int64_t stride, absl::Span<float> out);
  // The same through the piece's runs, where it has them.
  absl::Status ReadRuns(const SourcePiece& piece, const RawRuns& runs,
                        int64_t begin, int64_t end, Range cols, int64_t stride,
                        absl::Span<float> out);
  absl::Status ReadStored(const SourcePiece& piece, const TensorInfo& tensor,
                          int64_t begin, int64_t end, Range cols,
                          int64_t stride, absl::Span<float> out);
  // A vector out of a tensor of two dims.
  absl::Status ReadFlat(const SourcePiece& piece, const TensorInfo& tensor,
                        int64_t begin, int64_t end, int64_t stride,
                        absl::Span<float> out);
  absl::Status ReadTransposed(const SourcePiece& piece,
                              const TensorInfo& tensor, int64_t begin,
                              int64_t end, Range cols, int64_t stride,
                              absl::Span<float> out);
  absl::Status Read(int64_t begin, int64_t end, bool full,
                    absl::Span<float> out);

  const Checkpoint& checkpoint_;
  const Weight& weight_;
  absl::Status status_;  // of the recipe
  int64_t rows_ = 0, cols_ = 0, full_cols_ = 0;
  std::vector<float> made_;  // by formula
  std::vector<absl::optional<RawRuns>> runs_;  // one a piece
  // By piece: its rows with every column, in [out, in] order.
  std::map<const SourcePiece*, std::vector<float>> transposed_;
  std::vector<float> buffer_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_WEIGHT_READER_H_
