// Joins the columns that an all-gather leaves as a block a rank.
#pragma once
#include "row_util.cuh"

// Grid: rows x blocks of kThreads vectors. Vectors lie within one rank's part.
template <typename T, int kWorld, int64_t kPart, int64_t kTotal, int kCount,
          int kMaxRows, int kVec, int kWidth, int kThreads>
__global__ void __launch_bounds__(kThreads)
    Ungather(const StepInfo* info, const T* gathered, T* y) {
  GridDone();
  GridWait();
  const int r = blockIdx.x;
  if (r >= RowCount<kCount>(info, kMaxRows)) return;
  const int64_t c =
      static_cast<int64_t>(blockIdx.y * kThreads + threadIdx.x) * kVec;
  if (c >= kTotal) return;
  // The last rank whose first column, floor(rank * kTotal / kWorld), is not
  // above c.
  const int64_t rank = ((c + 1) * kWorld - 1) / kTotal;
  const int64_t first = rank * kTotal / kWorld;
  float v[kVec];
  LoadRow<kWidth>(gathered + (rank * kMaxRows + r) * kPart + (c - first), v);
  StoreRow<kWidth>(y + r * kTotal + c, v);
}
