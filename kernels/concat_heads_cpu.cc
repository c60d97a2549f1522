// CPU kernel of ConcatHeads: each head's part of a, then of b.
#include <algorithm>

#include "kernels/cpu.h"

namespace deepslice {

void CpuConcatHeads(const CpuCall& call) {
  const CpuOperand& a = call.in[operand::ConcatHeads::a];
  const CpuOperand& b = call.in[operand::ConcatHeads::b];
  const int64_t heads =
      std::max<int64_t>(1, call.attrs[attr::ConcatHeads::heads].i);
  const int64_t of_a = a.cols / heads, of_b = b.cols / heads;
  call.pool->ParallelFor(call.out_rows, 16384 / (call.out_cols + 1) + 1,
                         [&](int64_t begin, int64_t end, int) {
                           float* to = call.out + begin * call.out_cols;
                           for (int64_t part = begin * heads;
                                part < end * heads; ++part) {
                             to = std::copy_n(a.f32() + part * of_a, of_a, to);
                             to = std::copy_n(b.f32() + part * of_b, of_b, to);
                           }
                         });
}

}  // namespace deepslice
