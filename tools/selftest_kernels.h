// The CPU kernels that a plan uses, each beside the double-precision reference
// on small random tensors.
#ifndef DEEPSLICE_TOOLS_SELFTEST_KERNELS_H_
#define DEEPSLICE_TOOLS_SELFTEST_KERNELS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kernels/cpu.h"
#include "kernels/thread_pool.h"
#include "runtime/plan.h"
#include "schema/encoding.h"
#include "schema/ops.h"

namespace deepslice {

// An op as a plan uses it: what its kernel may choose by.
struct KernelUse {
  struct Operand {
    enum class Source { kAbsent, kValue, kInput, kWeight };
    Source source = Source::kAbsent;
    std::string name;  // of the op's operand: "x", "ids"
    Encoding encoding = Encoding::kF32;
    int64_t rows = 0;  // of weights, 1 of vectors; else as many as tokens
    int64_t cols = 0;
    bool vector = false;
  };
  OpKind op;
  std::vector<Attr> attrs;
  std::vector<Operand> operands;
  int64_t out_cols = 0;
  bool out_rows_are_wanted = false;  // those of logits: R, not T
  // Of State ops.
  Encoding cache = Encoding::kF32;
  int64_t block_tokens = 0, block_bytes = 0;

  std::string Text() const;  // "linear bf16[512, 64]"
};

// The uses of a CPU program, each once, in order.
std::vector<KernelUse> KernelUses(const fb::Plan& plan,
                                  const fb::Program& program);

// Runs the kernel and the reference over the same tensors, the same each time.
// Matrices have at most 512 rows. Internal with the first element that is wrong
// by more than the encodings' rounding explains; ResourceExhausted when the
// tensors of the test itself would be too large. `kernel`: to be tested in the
// op's stead, for tests of this.
absl::Status TestKernel(const KernelUse& use, ThreadPool* pool,
                        CpuKernel kernel = nullptr);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_SELFTEST_KERNELS_H_
