#include "compiler/emit_weight.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "absl/strings/str_format.h"
#include "compiler/weight_reader.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

constexpr int64_t kBatchElements = 64 << 10;

std::optional<DType> PlainType(Encoding e) {
  switch (e) {
    case Encoding::kF32:
      return DType::kF32;
    case Encoding::kF16:
      return DType::kF16;
    case Encoding::kBF16:
      return DType::kBF16;
    default:
      return std::nullopt;
  }
}

int64_t RowsOf(const Weight& w) { return w.type.dims[0].size; }
int64_t ColsOf(const Weight& w) {
  return w.type.rank() < 2 ? 1 : w.type.dims[1].size;
}

// A piece whose stored bytes already are what the plan wants.
struct RawPiece {
  absl::string_view rows;  // of the piece's rows, whole
  uint64_t row_bytes;      // in the source
  uint64_t begin, bytes;   // the columns wanted, within a row
};

std::optional<std::vector<RawPiece>> MatchRaw(const Checkpoint& checkpoint,
                                              const Weight& w) {
  const std::optional<DType> type = PlainType(w.encoding);
  if (!type.has_value() || w.source.pieces.empty() || w.source.plus != 0) {
    return std::nullopt;
  }
  std::vector<RawPiece> pieces;
  for (const SourcePiece& p : w.source.pieces) {
    if (p.block > 0 && w.source.interleaved) return std::nullopt;
    const TensorInfo* t = checkpoint.Find(p.tensor);
    if (t == nullptr || p.transposed || !t->has_raw_rows() ||
        t->dtype != *type || t->transposed_from_published ||
        (w.type.rank() == 1 && t->shape.size() != 1)) {
      return std::nullopt;
    }
    const uint64_t size = DTypeSize(*type);
    const auto add = [&](int64_t begin, int64_t end) {
      pieces.push_back({checkpoint.RawRows(*t, begin, end),
                        t->row_elements() * size, p.cols.begin * size,
                        p.cols.size() * size});
    };
    if (p.block == 0) {
      add(p.rows.begin, p.rows.end);
      continue;
    }
    for (int64_t row = p.rows.begin; row < p.rows.end;) {
      const int64_t n = p.RunLength(row, p.rows.end);
      add(p.Row(row), p.Row(row) + n);
      row += n;
    }
  }
  return pieces;
}

absl::Status EmitRaw(const std::vector<RawPiece>& pieces, bool interleaved,
                     ByteSink sink) {
  if (interleaved) {
    const RawPiece& first = pieces[0];
    const uint64_t rows =
        first.row_bytes == 0 ? 0 : first.rows.size() / first.row_bytes;
    for (uint64_t r = 0; r < rows; ++r) {
      for (const RawPiece& p : pieces) {
        DS_RETURN_IF_ERROR(
            sink(p.rows.data() + r * p.row_bytes + p.begin, p.bytes));
      }
    }
    return absl::OkStatus();
  }
  for (const RawPiece& p : pieces) {
    if (p.bytes == p.row_bytes) {
      DS_RETURN_IF_ERROR(sink(p.rows.data(), p.rows.size()));
      continue;
    }
    for (uint64_t at = 0; at + p.row_bytes <= p.rows.size();
         at += p.row_bytes) {
      DS_RETURN_IF_ERROR(sink(p.rows.data() + at + p.begin, p.bytes));
    }
  }
  return absl::OkStatus();
}

// Rounds values to a 16-bit type and measures what that costs.
template <typename ToBits, typename FromBits>
void Round16(const float* v, int64_t n, ToBits to, FromBits from, uint16_t* out,
             StorageError* error) {
  double sum = 0, reference = 0, max = 0;
  for (int64_t i = 0; i < n; ++i) {
    out[i] = to(v[i]);
    const float back = from(out[i]);
    if (std::isinf(back) && !std::isinf(v[i])) ++error->infinities;
    if (!std::isfinite(back)) continue;
    const double d = static_cast<double>(back) - v[i];
    sum += d * d;
    reference += static_cast<double>(v[i]) * v[i];
    max = std::max(max, std::fabs(d));
  }
  error->sum_squares += sum;
  error->reference_sum_squares += reference;
  error->max_abs = std::max(error->max_abs, max);
}

absl::Status EmitPlain(const Checkpoint& checkpoint, const Weight& w,
                       ByteSink sink, StorageError* error) {
  WeightReader reader(checkpoint, w);
  const int64_t rows = RowsOf(w), cols = ColsOf(w);
  const int64_t batch =
      std::max<int64_t>(1, kBatchElements / std::max<int64_t>(cols, 1));
  std::vector<float> values(std::min(batch, rows) * cols);
  std::vector<uint16_t> halves(w.encoding == Encoding::kF32 ? 0
                                                            : values.size());
  for (int64_t r = 0; r < rows; r += batch) {
    const int64_t n = std::min(batch, rows - r);
    const absl::Span<float> span(values.data(), n * cols);
    DS_RETURN_IF_ERROR(reader.ReadRows(r, r + n, span));
    const void* out = values.data();
    if (w.encoding == Encoding::kF16) {
      Round16(values.data(), span.size(), FloatToF16, F16ToFloat, halves.data(),
              error);
      out = halves.data();
    } else if (w.encoding == Encoding::kBF16) {
      Round16(values.data(), span.size(), FloatToBF16, BF16ToFloat,
              halves.data(), error);
      out = halves.data();
    }
    DS_RETURN_IF_ERROR(sink(out, n * cols * EncodingBits(w.encoding) / 8));
  }
  return absl::OkStatus();
}

absl::Status EmitI8Row(const Checkpoint& checkpoint, const Weight& w,
                       ByteSink sink, std::vector<float>* scales,
                       StorageError* error) {
  WeightReader reader(checkpoint, w);
  const int64_t rows = RowsOf(w), cols = ColsOf(w);
  const int64_t full = reader.full_cols();
  const int64_t first_col =
      w.source.pieces.empty() ? 0 : w.source.pieces[0].cols.begin;
  const int64_t batch =
      std::max<int64_t>(1, kBatchElements / std::max<int64_t>(full, 1));
  std::vector<float> values(std::min(batch, rows) * full);
  std::vector<int8_t> out(std::min(batch, rows) * cols);
  for (int64_t r = 0; r < rows; r += batch) {
    const int64_t n = std::min(batch, rows - r);
    DS_RETURN_IF_ERROR(
        reader.ReadFullRows(r, r + n, absl::MakeSpan(values.data(), n * full)));
    for (int64_t i = 0; i < n; ++i) {
      const float* row = values.data() + i * full;
      const float scale = RowScale(row, full);
      if (!std::isfinite(scale)) {
        return absl::InvalidArgumentError(absl::StrFormat(
            "@%s: row %d holds NaN or infinity, which int8 cannot; use a "
            "16-bit dtype or repair the checkpoint",
            w.name, r + i));
      }
      scales->push_back(scale);
      const float* part = row + first_col;
      int8_t* q = out.data() + i * cols;
      QuantizeRow(part, cols, scale, q);
      double sum = 0, reference = 0, max = 0;
      for (int64_t c = 0; c < cols; ++c) {
        const double d = static_cast<double>(q[c]) * scale - part[c];
        sum += d * d;
        reference += static_cast<double>(part[c]) * part[c];
        max = std::max(max, std::fabs(d));
      }
      error->sum_squares += sum;
      error->reference_sum_squares += reference;
      error->max_abs = std::max(error->max_abs, max);
    }
    DS_RETURN_IF_ERROR(sink(out.data(), n * cols));
  }
  return absl::OkStatus();
}

}  // namespace

void StorageError::Merge(const StorageError& o) {
  max_abs = std::max(max_abs, o.max_abs);
  sum_squares += o.sum_squares;
  reference_sum_squares += o.reference_sum_squares;
  infinities += o.infinities;
}

uint64_t StoredBytes(const Weight& w) {
  return static_cast<uint64_t>(RowsOf(w)) * ColsOf(w) *
         EncodingBits(w.encoding) / 8;
}

float RowScale(const float* w, int64_t n) {
  constexpr float kSmallestNormal = 1.17549435e-38f;
  // Four maxima keep the loop free of a chain; max is exact in any order.
  float m[4] = {0, 0, 0, 0};
  bool finite = true;
  for (int64_t i = 0; i < n; ++i) {
    const float a = std::fabs(w[i]);
    finite = finite && a <= 3.4028235e38f;
    m[i & 3] = a > m[i & 3] ? a : m[i & 3];
  }
  if (!finite) return INFINITY;
  const float amax = std::max(std::max(m[0], m[1]), std::max(m[2], m[3]));
  // Below, the scale would be denormal or zero: quotients beyond 127, or
  // infinite. Nothing that small can show beside a number of usual size.
  return amax < 127.0f * kSmallestNormal ? 1.0f : amax / 127.0f;
}

void QuantizeRow(const float* w, int64_t n, float scale, int8_t* q) {
  // Adding 1.5 * 2^23 leaves the rounded integer in the low bits, rounded to
  // even as the addition rounds: the same on every machine, and vectorisable.
  constexpr float kMagic = 12582912.0f;
  for (int64_t i = 0; i < n; ++i) {
    const float rounded = (w[i] / scale + kMagic) - kMagic;
    q[i] = static_cast<int8_t>(static_cast<int32_t>(rounded));
  }
}

absl::Status EmitWeight(const Checkpoint& checkpoint, const Weight& w,
                        ByteSink sink, std::vector<float>* scales,
                        StorageError* error) {
  if (w.encoding == Encoding::kI8Row) {
    return EmitI8Row(checkpoint, w, sink, scales, error);
  }
  if (!PlainType(w.encoding).has_value()) {
    return absl::UnimplementedError(absl::StrFormat(
        "@%s: encoding %s can't be written; use fp32, fp16, bf16 or int8",
        w.name, EncodingName(w.encoding)));
  }
  if (const auto raw = MatchRaw(checkpoint, w)) {
    return EmitRaw(*raw, w.source.interleaved, sink);
  }
  DS_RETURN_IF_ERROR(EmitPlain(checkpoint, w, sink, error));
  if (error->infinities > 0) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "@%s: %d values are too large for %s (its largest is 65504); use "
        "--dtype bf16 or fp32",
        w.name, error->infinities, EncodingName(w.encoding)));
  }
  return absl::OkStatus();
}

}  // namespace deepslice
