// Pieces joined, interleaved, cut and turned as a recipe says.
#include "compiler/weight_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/checkpoint/dequantize.h"
#include "passes/formula.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// Stored rows read at once: 1 MiB of floats, or one row when that is more.
constexpr int64_t kElementsAtOnce = 1 << 18;

// Rows and columns of a stored tensor: its first dim and all others; where it
// makes a vector, all are rows.
absl::Status StoredSize(const TensorInfo& t, bool vector, int64_t* rows,
                        int64_t* cols) {
  if (t.shape.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor \"", t.name, "\": found a scalar; allowed: 1 dim or more"));
  }
  *rows = t.shape[0];
  *cols = t.row_elements();
  if (vector) *rows *= std::exchange(*cols, 1);
  return absl::OkStatus();
}

absl::Status CheckPiece(const Checkpoint& checkpoint, const SourcePiece& piece,
                        bool vector, int64_t* full_cols) {
  const TensorInfo* t = checkpoint.Find(piece.tensor);
  if (t == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("tensor \"", piece.tensor, "\" is not in the checkpoint"));
  }
  int64_t rows = 0, cols = 0;
  DS_RETURN_IF_ERROR(StoredSize(*t, vector, &rows, &cols));
  if (piece.transposed) std::swap(rows, cols);
  const int64_t last = piece.rows.size() > 0 ? piece.Row(piece.rows.end - 1) + 1
                       : piece.block > 0     ? 0
                                             : piece.rows.end;
  if (piece.rows.begin < 0 || piece.rows.end < piece.rows.begin ||
      last > rows || piece.cols.begin < 0 ||
      piece.cols.end < piece.cols.begin || piece.cols.end > cols) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor \"", piece.tensor, "\": found rows ", piece.rows.begin, ":",
        last, " and columns ", piece.cols.begin, ":", piece.cols.end,
        "; allowed: up to ", rows, " and ", cols));
  }
  if (*full_cols != 0 && *full_cols != cols) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor \"", piece.tensor, "\": found ", cols,
        " columns; allowed: ", *full_cols, ", as the other pieces have"));
  }
  *full_cols = cols;
  return absl::OkStatus();
}

}  // namespace

WeightReader::WeightReader(const Checkpoint& checkpoint, const Weight& weight)
    : checkpoint_(checkpoint), weight_(weight) {
  const std::vector<Dim>& dims = weight.type.dims;
  rows_ = dims.empty() ? 0 : dims[0].size;
  cols_ = dims.size() == 2 ? dims[1].size : 1;
  const WeightSource& source = weight.source;
  if (source.pieces.empty()) {
    full_cols_ = cols_;
    absl::StatusOr<std::vector<float>> made = EvaluateFormula(source);
    if (!made.ok()) {
      status_ = made.status();
    } else if (static_cast<int64_t>(made->size()) != rows_ * cols_) {
      status_ = absl::InvalidArgumentError(
          absl::StrCat("formula ", source.formula, " makes ", made->size(),
                       " values; allowed: ", rows_ * cols_));
    } else {
      made_ = *std::move(made);
    }
  }
  int64_t rows = 0;
  for (const SourcePiece& piece : source.pieces) {
    status_.Update(
        CheckPiece(checkpoint, piece, dims.size() == 1, &full_cols_));
    rows += piece.rows.size();
    if (piece.cols.size() != cols_ ||
        (source.interleaved &&
         piece.rows.size() != source.pieces[0].rows.size())) {
      status_.Update(absl::InvalidArgumentError(absl::StrCat(
          "tensor \"", piece.tensor, "\": a piece of ", piece.rows.size(),
          " rows and ", piece.cols.size(), " columns does not fit")));
    }
  }
  if (!source.pieces.empty() && rows != rows_) {
    status_.Update(absl::InvalidArgumentError(
        absl::StrCat("the pieces have ", rows, " rows; allowed: ", rows_)));
  }
  status_ = Annotate(status_, "weight @", weight.name);
  if (!status_.ok()) return;
  for (const SourcePiece& piece : source.pieces) {
    const TensorInfo& t = *checkpoint.Find(piece.tensor);
    // A vector out of two dims is rare and small.
    const bool flat = dims.size() == 1 && t.row_elements() > 1;
    runs_.push_back(flat ? absl::nullopt
                         : RawRuns::Of(checkpoint, t, piece.transposed));
  }
}

absl::Status WeightReader::ReadRows(int64_t begin, int64_t end,
                                    absl::Span<float> out) {
  return Read(begin, end, /*full=*/false, out);
}

absl::Status WeightReader::ReadFullRows(int64_t begin, int64_t end,
                                        absl::Span<float> out) {
  return Read(begin, end, /*full=*/true, out);
}

absl::Status WeightReader::Read(int64_t begin, int64_t end, bool full,
                                absl::Span<float> out) {
  DS_RETURN_IF_ERROR(status_);
  const int64_t width = full ? full_cols_ : cols_;
  if (begin < 0 || end < begin || end > rows_ ||
      static_cast<int64_t>(out.size()) != (end - begin) * width) {
    return absl::InvalidArgumentError(absl::StrCat(
        "weight @", weight_.name, ": found rows ", begin, ":", end, " into ",
        out.size(), " values; allowed: up to ", rows_, " rows of ", width));
  }
  const WeightSource& source = weight_.source;
  if (source.pieces.empty()) {
    std::copy(made_.begin() + begin * cols_, made_.begin() + end * cols_,
              out.begin());
    return absl::OkStatus();
  }
  const int64_t num_pieces = static_cast<int64_t>(source.pieces.size());
  int64_t piece_begin = 0;  // first row of the piece when joined end to end
  for (int64_t p = 0; p < num_pieces; ++p) {
    const SourcePiece& piece = source.pieces[p];
    const Range cols = full ? Range{0, full_cols_} : piece.cols;
    // Rows of this piece among [begin, end), the weight's row of the first of
    // them, and the step between them in the weight.
    Range local;
    int64_t first = 0, stride = 1;
    if (source.interleaved) {
      const auto rows_before = [&](int64_t row) {
        return (row - p + num_pieces - 1) / num_pieces;
      };
      local = {std::max<int64_t>(0, rows_before(begin)),
               std::max<int64_t>(0, rows_before(end))};
      first = local.begin * num_pieces + p;
      stride = num_pieces;
    } else {
      local.begin = std::max(begin, piece_begin) - piece_begin;
      local.end = std::min(end, piece_begin + piece.rows.size()) - piece_begin;
      first = piece_begin + local.begin;
    }
    piece_begin += piece.rows.size();
    if (local.size() <= 0) continue;
    DS_RETURN_IF_ERROR(ReadPiece(piece, local.begin, local.end, cols, stride,
                                 out.subspan((first - begin) * width)));
  }
  if (source.plus != 0) {
    const float plus = static_cast<float>(source.plus);
    for (float& v : out) v += plus;
  }
  return absl::OkStatus();
}

absl::Status WeightReader::ReadPiece(const SourcePiece& piece, int64_t begin,
                                     int64_t end, Range cols, int64_t stride,
                                     absl::Span<float> out) {
  const TensorInfo& tensor = *checkpoint_.Find(piece.tensor);
  const auto& runs = runs_[&piece - weight_.source.pieces.data()];
  if (runs.has_value()) {
    return ReadRuns(piece, *runs, begin, end, cols, stride, out);
  }
  return piece.transposed
             ? ReadTransposed(piece, tensor, begin, end, cols, stride, out)
             : ReadStored(piece, tensor, begin, end, cols, stride, out);
}

bool WeightReader::has_runs() const {
  return status_.ok() && !runs_.empty() && weight_.source.plus == 0 &&
         std::all_of(runs_.begin(), runs_.end(),
                     [](const auto& r) { return r.has_value(); });
}

absl::Status WeightReader::ForEachRun(
    absl::FunctionRef<absl::Status(DType, const uint8_t*, int64_t)> run) const {
  const std::vector<SourcePiece>& pieces = weight_.source.pieces;
  // Rows [row, end) of a piece, counted as piece.rows counts them.
  const auto read = [&](size_t p, int64_t row, int64_t end) -> absl::Status {
    const SourcePiece& piece = pieces[p];
    for (int64_t n = 0; row < end; row += n) {
      n = piece.RunLength(row, end);
      DS_RETURN_IF_ERROR(runs_[p]->ForEach(
          piece.Row(row), piece.Row(row) + n, piece.cols.begin, piece.cols.end,
          [&](const uint8_t* elements, int64_t count) {
            return run(runs_[p]->dtype(), elements, count);
          }));
    }
    return absl::OkStatus();
  };
  if (!weight_.source.interleaved) {
    for (size_t p = 0; p < pieces.size(); ++p) {
      DS_RETURN_IF_ERROR(read(p, pieces[p].rows.begin, pieces[p].rows.end));
    }
    return absl::OkStatus();
  }
  for (int64_t i = 0; i < pieces[0].rows.size(); ++i) {
    for (size_t p = 0; p < pieces.size(); ++p) {
      const int64_t row = pieces[p].rows.begin + i;
      DS_RETURN_IF_ERROR(read(p, row, row + 1));
    }
  }
  return absl::OkStatus();
}

absl::Status WeightReader::ReadRuns(const SourcePiece& piece,
                                    const RawRuns& runs, int64_t begin,
                                    int64_t end, Range cols, int64_t stride,
                                    absl::Span<float> out) {
  const int64_t first = piece.rows.begin;
  int64_t n = 0;
  for (int64_t row = begin; row < end; row += n) {
    n = stride == 1 ? piece.RunLength(first + row, first + end) : 1;
    const int64_t stored_row = piece.Row(first + row);
    float* to = out.data() + (row - begin) * stride * cols.size();
    DS_RETURN_IF_ERROR(runs.ForEach(
        stored_row, stored_row + n, cols.begin, cols.end,
        [&](const uint8_t* elements, int64_t count) {
          WidenToFloat(runs.dtype(), elements, count, to);
          to += count;
          return absl::OkStatus();
        }));
  }
  return absl::OkStatus();
}

absl::Status WeightReader::ReadStored(const SourcePiece& piece,
                                      const TensorInfo& tensor, int64_t begin,
                                      int64_t end, Range cols, int64_t stride,
                                      absl::Span<float> out) {
  const int64_t width = cols.size();
  const int64_t stored = tensor.row_elements();
  const int64_t first = piece.rows.begin;
  if (weight_.type.rank() == 1 && stored > 1) {
    return ReadFlat(piece, tensor, begin, end, stride, out);
  }
  // Whole rows side by side need no copy in between.
  const bool straight = stride == 1 && width == stored;
  const int64_t at_once =
      std::max<int64_t>(1, kElementsAtOnce / std::max<int64_t>(1, stored));
  int64_t n = 0;
  for (int64_t row = begin; row < end; row += n) {
    n = piece.RunLength(first + row, first + end);
    const int64_t stored_row = piece.Row(first + row);
    if (straight) {
      DS_RETURN_IF_ERROR(
          checkpoint_.ReadRows(tensor, stored_row, stored_row + n,
                               out.subspan((row - begin) * width, n * width)));
      continue;
    }
    n = std::min(at_once, n);
    buffer_.resize(n * stored);
    DS_RETURN_IF_ERROR(checkpoint_.ReadRows(tensor, stored_row, stored_row + n,
                                            absl::MakeSpan(buffer_)));
    for (int64_t i = 0; i < n; ++i) {
      std::copy_n(buffer_.data() + i * stored + cols.begin, width,
                  out.data() + (row - begin + i) * stride * width);
    }
  }
  return absl::OkStatus();
}

absl::Status WeightReader::ReadFlat(const SourcePiece& piece,
                                    const TensorInfo& tensor, int64_t begin,
                                    int64_t end, int64_t stride,
                                    absl::Span<float> out) {
  // Vectors are small: read whole.
  buffer_.resize(tensor.rows() * tensor.row_elements());
  DS_RETURN_IF_ERROR(
      checkpoint_.ReadRows(tensor, 0, tensor.rows(), absl::MakeSpan(buffer_)));
  for (int64_t r = begin; r < end; ++r) {
    out[(r - begin) * stride] = buffer_[piece.Row(piece.rows.begin + r)];
  }
  return absl::OkStatus();
}

absl::Status WeightReader::ReadTransposed(const SourcePiece& piece,
                                          const TensorInfo& tensor,
                                          int64_t begin, int64_t end,
                                          Range cols, int64_t stride,
                                          absl::Span<float> out) {
  const int64_t inputs = tensor.rows();          // columns after turning
  const int64_t stored = tensor.row_elements();  // rows after turning
  std::vector<float>& turned = transposed_[&piece];
  if (turned.empty() && piece.rows.size() > 0) {
    std::vector<float> whole(piece.rows.size() * inputs);
    const int64_t at_once =
        std::max<int64_t>(1, kElementsAtOnce / std::max<int64_t>(1, stored));
    for (int64_t in = 0; in < inputs; in += at_once) {
      const int64_t n = std::min(at_once, inputs - in);
      buffer_.resize(n * stored);
      DS_RETURN_IF_ERROR(
          checkpoint_.ReadRows(tensor, in, in + n, absl::MakeSpan(buffer_)));
      for (int64_t o = 0; o < piece.rows.size(); ++o) {
        for (int64_t i = 0; i < n; ++i) {
          whole[o * inputs + in + i] =
              buffer_[i * stored + piece.Row(piece.rows.begin + o)];
        }
      }
    }
    turned = std::move(whole);
  }
  for (int64_t row = begin; row < end; ++row) {
    std::copy_n(turned.data() + row * inputs + cols.begin, cols.size(),
                out.data() + (row - begin) * stride * cols.size());
  }
  return absl::OkStatus();
}

}  // namespace deepslice
