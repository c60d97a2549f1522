#include "compiler/emit_weight.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/str_format.h"
#include "compiler/convert_elements.h"
#include "compiler/weight_reader.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

constexpr int64_t kBatchElements = 64 << 10;
// Rows at once at least: of a turned matrix these lie in one line of the cache.
constexpr int64_t kBatchRows = 32;
constexpr int64_t kConverted = 8 << 10;  // elements at once, on the stack

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

// Values of a type as the plan's encoding has them, to `sink`.
absl::Status EmitAs(DType to, DType from, const uint8_t* elements,
                    int64_t count, ByteSink sink, StorageError* error) {
  if (from == to) return sink(elements, count * DTypeSize(to));
  uint8_t out[kConverted * sizeof(float)];
  for (int64_t at = 0; at < count; at += kConverted) {
    const int64_t n = std::min(kConverted, count - at);
    error->infinities += ConvertElements(from, elements + at * DTypeSize(from),
                                         n, to, out);
    DS_RETURN_IF_ERROR(sink(out, n * DTypeSize(to)));
  }
  return absl::OkStatus();
}

absl::Status EmitPlain(const Checkpoint& checkpoint, const Weight& w, DType to,
                       ByteSink sink, StorageError* error) {
  WeightReader reader(checkpoint, w);
  if (reader.has_runs()) {
    return reader.ForEachRun(
        [&](DType from, const uint8_t* elements, int64_t count) {
          return EmitAs(to, from, elements, count, sink, error);
        });
  }
  const int64_t rows = RowsOf(w), cols = ColsOf(w);
  const int64_t batch =
      std::max<int64_t>(1, kBatchElements / std::max<int64_t>(cols, 1));
  std::vector<float> values(std::min(batch, rows) * cols);
  for (int64_t r = 0; r < rows; r += batch) {
    const int64_t n = std::min(batch, rows - r);
    const absl::Span<float> span(values.data(), n * cols);
    DS_RETURN_IF_ERROR(reader.ReadRows(r, r + n, span));
    DS_RETURN_IF_ERROR(EmitAs(to, DType::kF32,
                              reinterpret_cast<const uint8_t*>(values.data()),
                              span.size(), sink, error));
  }
  return absl::OkStatus();
}

// What int8 costs a row.
void Measure(const float* row, const int8_t* q, int64_t n, float scale,
             StorageError* error) {
  double sum = 0, reference = 0, max = 0;
  for (int64_t c = 0; c < n; ++c) {
    const double d = static_cast<double>(q[c]) * scale - row[c];
    sum += d * d;
    reference += static_cast<double>(row[c]) * row[c];
    max = std::max(max, std::fabs(d));
  }
  error->squares.Add(sum);
  error->reference_squares.Add(reference);
  error->max_abs = std::max(error->max_abs, max);
}

absl::Status EmitI8Row(const Checkpoint& checkpoint, const Weight& w,
                       ByteSink sink, std::vector<float>* scales,
                       StorageError* error,
                       const std::vector<bool>* measured) {
  WeightReader reader(checkpoint, w);
  const int64_t rows = RowsOf(w), cols = ColsOf(w);
  const int64_t full = reader.full_cols();
  const int64_t first_col =
      w.source.pieces.empty() ? 0 : w.source.pieces[0].cols.begin;
  const int64_t batch =
      std::max(kBatchRows, kBatchElements / std::max<int64_t>(full, 1));
  std::vector<float> values(std::min(batch, rows) * full);
  std::vector<int8_t> out(std::min(batch, rows) * cols);
  std::vector<int8_t> whole(full);  // a row
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
      int8_t* q = out.data() + i * cols;
      if (measured != nullptr && !(*measured)[r + i]) {
        QuantizeRow(row + first_col, cols, scale, q);
        continue;
      }
      QuantizeRow(row, full, scale, whole.data());
      std::copy_n(whole.data() + first_col, cols, q);
      Measure(row, whole.data(), full, scale, error);
    }
    DS_RETURN_IF_ERROR(sink(out.data(), n * cols));
  }
  return absl::OkStatus();
}

}  // namespace

void StorageError::Merge(const StorageError& o) {
  max_abs = std::max(max_abs, o.max_abs);
  squares.Merge(o.squares);
  reference_squares.Merge(o.reference_squares);
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
                        StorageError* error,
                        const std::vector<bool>* measured) {
  if (w.encoding == Encoding::kI8Row) {
    return EmitI8Row(checkpoint, w, sink, scales, error, measured);
  }
  const std::optional<DType> type = PlainType(w.encoding);
  if (!type.has_value()) {
    return absl::UnimplementedError(absl::StrFormat(
        "@%s: encoding %s can't be written; use fp32, fp16, bf16 or int8",
        w.name, EncodingName(w.encoding)));
  }
  DS_RETURN_IF_ERROR(EmitPlain(checkpoint, w, *type, sink, error));
  if (error->infinities > 0) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "@%s: %d values are too large for %s (its largest is 65504); use "
        "--dtype bf16 or fp32",
        w.name, error->infinities, EncodingName(w.encoding)));
  }
  return absl::OkStatus();
}

}  // namespace deepslice
