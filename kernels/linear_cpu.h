// The CPU back end's linear kernel: how work and scratch are laid out, and the
// vectorised inner part that linear_cpu.cc spreads over threads.
//
// Every result is a dot product summed in one fixed order that depends on K,
// the encoding and the instruction set alone: vector lane j of L sums elements
// of k in steps of 2 L, then the lanes are added as a tree. Neither the other
// rows of the batch, nor the thread count, nor the choice between the streaming
// and the blocked loop changes a bit.
#ifndef DEEPSLICE_KERNELS_LINEAR_CPU_H_
#define DEEPSLICE_KERNELS_LINEAR_CPU_H_

#include <cstdint>

#include "kernels/cpu.h"
#include "schema/encoding.h"

namespace deepslice {

// Bytes that CpuLinear needs at CpuCall.scratch for any call with at most
// shape.max_rows rows and exactly these in_cols, out_cols and encoding; 64-byte
// aligned. Grows with in_cols (a chunk of x) and threads, never with the
// weight.
int64_t LinearScratchBytes(const CpuShape& shape);

// Rows of x and of w handled by one thread: out[m, n] for all `rows` m and
// n in [n_begin, n_end).
struct LinearPart {
  // [rows, x_stride], by LinearPackX; rows are 64-byte aligned.
  const float* x = nullptr;
  int64_t x_stride = 0;
  int64_t rows = 0;
  const void* w = nullptr;  // [*, k], any alignment of its element type
  Encoding encoding = Encoding::kF32;
  const float* scales = nullptr;  // kI8Row
  int64_t k = 0;
  const void* bias = nullptr;  // [*]; nullptr: none
  Encoding bias_encoding = Encoding::kF32;
  const float* residual = nullptr;  // [rows, out_stride]; nullptr: none
  float* out = nullptr;             // [rows, out_stride]; may be residual
  int64_t out_stride = 0;
  int64_t n_begin = 0;
  int64_t n_end = 0;
  // LinearPartScratchFloats(rows, k), 64-byte aligned, of this thread alone.
  float* scratch = nullptr;
};

// Elements of k in one step of the inner loop: two vectors of floats.
int64_t LinearStep();
// Floats of one packed row of x: k rounded up to whole steps.
int64_t LinearXStride(int64_t k);
// Copies one row of x into the lane order of `encoding`, zeros after k.
void LinearPackX(const float* x, int64_t k, Encoding encoding, float* packed);
int64_t LinearPartScratchFloats(int64_t rows, int64_t k);
void RunLinearPart(const LinearPart& part);

}  // namespace deepslice

#endif  // DEEPSLICE_KERNELS_LINEAR_CPU_H_
