// A ragged batch over a cache in blocks, and what attention makes of it.
#ifndef DEEPSLICE_TESTS_GPU_ATTENTION_BATCH_H_
#define DEEPSLICE_TESTS_GPU_ATTENTION_BATCH_H_

#include <cstdint>
#include <vector>

#include "kernels/cuda/attention.h"
#include "tests/gpu/gpu_case.h"

namespace deepslice {

// `tokens` new ones behind `start` that the cache holds.
struct GpuSequence {
  int32_t slot;
  int64_t start;
  int64_t tokens;
};

// Adds to a case: operands, the cache and the checks of both kinds of kernel.
class AttentionBatch {
 public:
  // Fills the strides: q, k and v lie in one row when `fused`, whose stride is
  // `pad` longer than they.
  static void SetStrides(AttentionShape* shape, bool fused, int64_t pad);

  // `shape` has its strides. q_spread 0 makes every weight equal, so that one
  // forgotten or foreign key is seen in any context.
  AttentionBatch(AttentionShape shape, std::vector<GpuSequence> sequences,
                 double q_spread, bool fused);

  int64_t tokens() const { return static_cast<int64_t>(positions_.size()); }
  // Operands q, k, v, positions, slots, blocks, freqs, state.
  std::vector<GpuParam> AddOperands(GpuCase* c);
  // The last operand, of shapes with ALiBi or relative biases.
  bool has_slopes() const {
    return shape_.alibi.has_value() || shape_.relative.has_value();
  }
  GpuParam AddSlopes(GpuCase* c) const { return GpuParam::At(c->Add(slopes_)); }
  // Of the buffer `out`, [max tokens, out_stride].
  GpuCheck OutputCheck(int out) const;
  // Of a buffer of rotated queries [max tokens, heads * head_dim].
  GpuCheck RotatedCheck(int buffer) const;
  // Of the cache after the step.
  GpuCheck StateCheck() const;
  // Tiles of at most so many tokens, [n, 4].
  std::vector<int32_t> Tiles(int64_t tile_tokens) const;
  StepInfo info() const;

 private:
  // Of sequence i: [position][kv_heads * head_dim] behind each other.
  struct Cached {
    std::vector<double> k, v;
  };
  int64_t Blocks(const GpuSequence& s) const;
  double AngleError(int64_t position) const;
  // What becomes a weight, of a product of query head h and key p.
  double Score(double dot, int64_t h, int64_t p, int64_t own) const;

  AttentionShape shape_;
  std::vector<GpuSequence> sequences_;
  double q_spread_;
  bool fused_;
  std::vector<int32_t> positions_, slots_, sequence_of_, table_;
  int64_t blocks_per_seq_ = 0, num_blocks_ = 0;
  HostTensor q_, k_, v_, freqs_;  // q, k, v [tokens][heads * head_dim]
  HostTensor slopes_;             // [heads], with ALiBi; or [heads, buckets]
  std::vector<double> rotated_;   // q
  std::vector<Cached> cached_;    // after the step
  HostTensor before_;             // the cache
  int state_ = -1;                // its buffer, once added
};

}  // namespace deepslice

#endif  // DEEPSLICE_TESTS_GPU_ATTENTION_BATCH_H_
