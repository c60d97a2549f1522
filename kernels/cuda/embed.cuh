// Rows of a table by id; zeros for a row of another rank.
#pragma once
#include "row_util.cuh"

// A block a row. kVec elements at a time, in pieces of kTableWidth and kYWidth
// bytes. Not __restrict__: `sampled` and `ids` are other kernels' outputs, which
// the read-only path may not see.
template <typename Table, typename Y, int64_t kRows, int64_t kCols,
          int64_t kBegin, bool kHasSampled, int kCount, int kMaxRows, int kVec,
          int kTableWidth, int kYWidth, int kThreads>
__global__ void __launch_bounds__(kThreads)
    Embed(const StepInfo* info, const int* ids, const Table* table,
          const int* sampled, Y* y) {
  GridDone();
  GridWait();
  const int t = blockIdx.x;
  if (t >= RowCount<kCount>(info, kMaxRows)) return;
  int id = ids[t];
  if (kHasSampled && id < 0) id = sampled[~id];
  const int64_t row = static_cast<int64_t>(id) - kBegin;
  const bool here = id >= 0 && row >= 0 && row < kRows;
  Y* out = y + static_cast<int64_t>(t) * kCols;
  for (int c = threadIdx.x * kVec; c < kCols; c += kThreads * kVec) {
    float v[kVec] = {};
    if (here) LoadRow<kTableWidth>(table + row * kCols + c, v);
    StoreRow<kYWidth>(out + c, v);
  }
}
