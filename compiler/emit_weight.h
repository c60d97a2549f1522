// Turns a graph weight into the bytes a plan stores.
#ifndef DEEPSLICE_COMPILER_EMIT_WEIGHT_H_
#define DEEPSLICE_COMPILER_EMIT_WEIGHT_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "compiler/checkpoint/checkpoint.h"
#include "compiler/exact_sum.h"
#include "ir/graph.h"

namespace deepslice {

// Difference between the checkpoint's values and what a plan's bytes mean: of
// int8, and of the 16-bit types the infinities alone. Of whole rows, and summed
// exactly: the same figures however a weight is cut.
struct StorageError {
  double max_abs = 0;
  ExactSum squares;            // of differences: a sum for each row
  ExactSum reference_squares;  // of the values
  int64_t infinities = 0;      // finite values that became infinite
  void Merge(const StorageError& other);
};

using ByteSink = absl::FunctionRef<absl::Status(const void*, uint64_t)>;

// Bytes of the values (without scales) of a weight as stored.
uint64_t StoredBytes(const Weight& w);

// Gives the stored values to `sink` in order, row-major. For kI8Row `scales`
// gets one float a row: amax / 127 over the whole source row, 1 for a zero row;
// values are round-to-nearest-even(w / scale), in [-127, 127]. Reads a bounded
// number of rows at a time. Of a quantised weight `error` is that of the source
// rows, whole, whose flag in `measured` is set; nullptr: all.
absl::Status EmitWeight(const Checkpoint& checkpoint, const Weight& w,
                        ByteSink sink, std::vector<float>* scales,
                        StorageError* error,
                        const std::vector<bool>* measured = nullptr);

// q[i] = round-to-nearest-even(w[i] / scale), the same bits on every machine.
void QuantizeRow(const float* w, int64_t n, float scale, int8_t* q);
// The scale of a row: amax / 127, or 1 when all are zero or so small that
// the scale would be no normal number: then they quantise to zeros.
float RowScale(const float* w, int64_t n);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_EMIT_WEIGHT_H_
