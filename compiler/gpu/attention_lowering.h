// The steps of a GPU program that attend, over caches or within a step.
#ifndef DEEPSLICE_COMPILER_GPU_ATTENTION_LOWERING_H_
#define DEEPSLICE_COMPILER_GPU_ATTENTION_LOWERING_H_

#include <cstdint>

#include "compiler/gpu/row_lowering.h"

namespace deepslice {

class AttentionLowering : protected RowLowering {
 public:
  using RowLowering::RowLowering;

 protected:
  // An Attention or a QkvAttention.
  absl::Status LowerAttention(const Node& n);
  absl::Status LowerLatentAttention(const Node& n);
  absl::Status LowerEncoderAttention(const Node& n);
  absl::Status LowerCrossAttention(const Node& n);

 private:
  // Of an attention; none when it needs none.
  Ref ScratchOf(const Node& n, int64_t bytes);
  Ref SyncOf(int64_t words);
};

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_GPU_ATTENTION_LOWERING_H_
