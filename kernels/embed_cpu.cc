// CPU kernel of Embed: rows of a table by id, zeros for another rank's rows.
#include "kernels/cpu.h"
#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/embed_cpu.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace deepslice {
namespace HWY_NAMESPACE {

template <typename T>
void WidenRow(const T* from, float* to, int64_t cols) {
  const Floats d;
  const int64_t lanes = FloatLanes();
  for (int64_t c = 0; c < cols; c += lanes) {
    StoreSome(d, LoadSome(d, from + c, cols - c), to + c, cols - c);
  }
}

void EmbedRow(const CpuOperand& table, int64_t row, float* to) {
  const int64_t cols = table.cols;
  if (table.encoding == Encoding::kI8Row) {
    const int8_t* from = static_cast<const int8_t*>(table.data) + row * cols;
    const float scale = table.scales[row];
    // Left to the compiler: a few rows a step.
    for (int64_t c = 0; c < cols; ++c) {
      to[c] = static_cast<float>(from[c]) * scale;
    }
    return;
  }
  WithElementType(table.encoding, table.data, [&](auto* from) HWY_ATTR {
    WidenRow(from + row * cols, to, cols);
  });
}

void Embed(const CpuCall& call) {
  const int32_t* ids = call.in[operand::Embed::ids].i32();
  const CpuOperand& table = call.in[operand::Embed::table];
  const int64_t first = call.attrs[attr::Embed::begin].i;
  const int64_t cols = call.out_cols;
  call.pool->ParallelFor(call.out_rows, 16384 / (cols + 1) + 1,
                         [&](int64_t begin, int64_t end, int) HWY_ATTR {
                           for (int64_t t = begin; t < end; ++t) {
                             const int64_t row = ids[t] - first;
                             float* to = call.out + t * cols;
                             if (row < 0 || row >= table.rows) {
                               std::fill_n(to, cols, 0.0f);
                             } else {
                               EmbedRow(table, row, to);
                             }
                           }
                         });
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace deepslice
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deepslice {
HWY_EXPORT(Embed);
void CpuEmbed(const CpuCall& call) { HWY_DYNAMIC_DISPATCH(Embed)(call); }
}  // namespace deepslice
#endif
