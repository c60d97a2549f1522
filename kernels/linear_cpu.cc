// CpuLinear: chunks of x are packed once and shared; the threads split the rows
// of w between them.
#include "kernels/linear_cpu.h"

#include <algorithm>
#include <cstdint>

#include "kernels/cpu.h"
#include "kernels/thread_pool.h"
#include "schema/base/check.h"
#include "schema/encoding.h"

namespace deepslice {
namespace {

// A chunk of x stays in L2 or near it beside the stream of w, but a decode
// batch is never cut, since each chunk reads the whole weight.
constexpr int64_t kChunkFloats = (1 << 20) / sizeof(float);
constexpr int64_t kMinChunkRows = 8;
// Borders between threads, in rows of w: whole cache lines of out, mostly.
constexpr int64_t kGrain = 16;
// Below these, waking threads costs more than it saves.
constexpr int64_t kMinThreadedMacs = 48 << 10;
constexpr int64_t kMinThreadedPack = 16 << 10;

int64_t MaxChunkRows(int64_t x_stride) {
  return std::max(kChunkFloats / std::max<int64_t>(x_stride, 1), kMinChunkRows);
}

// Chunks of almost equal size, because small ones pay more for reading w.
int64_t ChunkRows(int64_t rows, int64_t x_stride) {
  const int64_t most = MaxChunkRows(x_stride);
  const int64_t chunks = (rows + most - 1) / most;
  return (rows + chunks - 1) / chunks;
}

int64_t WholeCacheLines(int64_t floats) { return (floats + 15) / 16 * 16; }

int64_t PackedFloats(int64_t chunk_rows, int64_t x_stride) {
  return WholeCacheLines(chunk_rows * x_stride);
}
int64_t PartFloats(int64_t chunk_rows, int64_t k) {
  return WholeCacheLines(LinearPartScratchFloats(chunk_rows, k));
}

void For(ThreadPool* pool, bool threaded, int64_t n, int64_t grain,
         absl::FunctionRef<void(int64_t, int64_t, int)> job) {
  if (threaded && pool != nullptr) {
    pool->ParallelFor(n, grain, job);
  } else {
    job(0, n, 0);
  }
}

}  // namespace

int64_t LinearScratchBytes(const CpuShape& shape) {
  const int64_t x_stride = LinearXStride(shape.in_cols);
  // Not ChunkRows: fewer rows than max_rows may make larger chunks.
  const int64_t rows = std::min(shape.max_rows, MaxChunkRows(x_stride));
  const int64_t floats = PackedFloats(rows, x_stride) +
                         shape.num_threads * PartFloats(rows, shape.in_cols);
  return floats * static_cast<int64_t>(sizeof(float));
}

void CpuLinear(const CpuCall& call) {
  const CpuOperand& x = call.in[0];
  const CpuOperand& w = call.in[1];
  const CpuOperand& bias = call.in[2];
  const float* residual = call.in[3].f32();
  const int64_t rows = x.rows, k = x.cols, n = w.rows;
  DS_CHECK(w.cols == k && call.out_rows == rows && call.out_cols == n);
  if (rows == 0 || n == 0) return;

  const int64_t x_stride = LinearXStride(k);
  const int64_t chunk = ChunkRows(rows, x_stride);
  float* packed = static_cast<float*>(call.scratch);
  float* part_scratch = packed + PackedFloats(chunk, x_stride);
  const int64_t part_floats = PartFloats(chunk, k);
  int64_t count;
  for (int64_t m = 0; m < rows; m += count) {
    count = std::min(chunk, rows - m);
    For(call.pool, count * k >= kMinThreadedPack, count, 1,
        [&](int64_t begin, int64_t end, int thread) {
          for (int64_t r = begin; r < end; ++r) {
            LinearPackX(x.f32() + (m + r) * k, k, w.encoding,
                        packed + r * x_stride);
          }
        });
    For(call.pool, count * n * k >= kMinThreadedMacs, n, kGrain,
        [&](int64_t begin, int64_t end, int thread) {
          RunLinearPart(
              {.x = packed,
               .x_stride = x_stride,
               .rows = count,
               .w = w.data,
               .encoding = w.encoding,
               .scales = w.encoding == Encoding::kI8Row ? w.scales : nullptr,
               .k = k,
               .bias = bias.data,
               .bias_encoding = bias.encoding,
               .residual = residual == nullptr ? nullptr : residual + m * n,
               .out = call.out + m * n,
               .out_stride = n,
               .n_begin = begin,
               .n_end = end,
               .scratch = part_scratch + thread * part_floats});
        });
  }
}

}  // namespace deepslice
