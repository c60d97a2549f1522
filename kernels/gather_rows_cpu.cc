// CPU kernel of GatherRows: the rows whose logits are wanted.
#include <algorithm>

#include "kernels/cpu.h"

namespace deepslice {

void CpuGatherRows(const CpuCall& call) {
  const CpuOperand& x = call.in[operand::GatherRows::x];
  const int32_t* rows = call.in[operand::GatherRows::rows].i32();
  const int64_t cols = x.cols;
  call.pool->ParallelFor(call.out_rows, 65536 / (cols + 1) + 1,
                         [&](int64_t begin, int64_t end, int) {
                           for (int64_t r = begin; r < end; ++r) {
                             std::copy_n(x.f32() + rows[r] * cols, cols,
                                         call.out + r * cols);
                           }
                         });
}

}  // namespace deepslice
