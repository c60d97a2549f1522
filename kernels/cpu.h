// The CPU back end's kernels: one CpuX per op in ops.def that is no collective.
// Activations are float, row-major; weights come in any encoding of
// schema/encoding.h that the kernel's check accepts.
#ifndef DEEPSLICE_KERNELS_CPU_H_
#define DEEPSLICE_KERNELS_CPU_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/thread_pool.h"
#include "schema/encoding.h"
#include "schema/ops.h"

namespace deepslice {

// An operand: an activation (float), an integer parameter (int32) or a weight.
// [rows, cols], rows contiguous. Vectors have rows 1.
struct CpuOperand {
  const void* data = nullptr;  // nullptr: absent
  Encoding encoding = Encoding::kF32;
  const float* scales = nullptr;  // kI8Row: one per row
  int64_t rows = 0;
  int64_t cols = 0;

  const float* f32() const { return static_cast<const float*>(data); }
  const int32_t* i32() const { return static_cast<const int32_t*>(data); }
};

// Keys and values of one attention layer in blocks: block b holds
// [2 (k, v)][kv_heads][block_tokens][head_dim] elements of `encoding`
// (kF32, kF16 or kBF16) from data + b * block_bytes.
struct CpuState {
  void* data = nullptr;
  Encoding encoding = Encoding::kF32;
  int64_t block_tokens = 0;
  int64_t block_bytes = 0;
  int64_t num_blocks = 0;
};

struct CpuCall {
  CpuOperand in[kMaxOperands];
  float* out = nullptr;  // [out_rows, out_cols]; may alias in[0] where noted
  int64_t out_rows = 0;
  int64_t out_cols = 0;
  const Attr* attrs = nullptr;
  const CpuState* state = nullptr;  // State ops
  ThreadPool* pool = nullptr;
  void* scratch = nullptr;  // CpuScratchBytes of this op, 64-byte aligned
};

// Runs in a step: no allocation, no system call but the pool's, no failure
// (everything was checked by CpuCheck). Rows may be 0. `out` may be in[0] of
// AddBias, Add, Mul, RmsNorm, LayerNorm, HeadNorm, RmsNormOver, Rope,
// Activation, Scale and Softcap. A token's result has the same bits whatever
// else is in the step and however many threads run.
#define DS_CPU_Pure(Name) void Cpu##Name(const CpuCall&);
#define DS_CPU_State(Name) void Cpu##Name(const CpuCall&);
#define DS_CPU_Collective(Name)
#define OP(Name, spelling, tag, operands, attrs, shape, effect) \
  DS_CPU_##effect(Name)
#include "schema/ops.def"

using CpuKernel = void (*)(const CpuCall&);
// The kernel of an op; nullptr for a collective.
CpuKernel FindCpuKernel(OpKind kind);

// What a step needs at most, from the maxima of its shapes.
struct CpuShape {
  int64_t max_rows = 0;  // rows of in[0]
  int64_t in_cols = 0;   // columns of in[0]
  int64_t out_cols = 0;
  int64_t max_context = 0;  // longest sequence, for attention
  Encoding weight_encoding = Encoding::kF32;
  const Attr* attrs = nullptr;
  int num_threads = 1;
};
int64_t CpuScratchBytes(OpKind kind, const CpuShape& shape);

// Whether this back end runs the op with these encodings of its operands
// (Unimplemented with the names when not). `encodings` in operand order; after
// those of a State op, the encoding of its state may follow.
absl::Status CpuCheck(OpKind kind, const Encoding* encodings, int count);

// "AVX3", "AVX2", ...: the instruction set that will be used.
const char* CpuTargetName();

}  // namespace deepslice

#endif  // DEEPSLICE_KERNELS_CPU_H_
