// Numbers of the plan folder that its writer and its reader share.
#ifndef DEEPSLICE_SCHEMA_PLAN_FORMAT_H_
#define DEEPSLICE_SCHEMA_PLAN_FORMAT_H_

#include <cstdint>

namespace deepslice {

// Of plan.fbs and manifest.json. 0.x releases promise nothing to older plans.
inline constexpr uint32_t kPlanFormatVersion = 1;
// A weights file is hashed (XXH3-64) in blocks of this many bytes.
inline constexpr uint64_t kHashBlock = 1 << 20;
// Weights and scales start at multiples of this; the file's size is one of
// kSegment.
inline constexpr uint64_t kBlobAlignment = 256;
inline constexpr uint64_t kSegment = 4096;
// Slots of the arena start at multiples of this.
inline constexpr int64_t kSlotAlignment = 256;

// When RenderTests were rendered, in seconds since 1970: some templates print
// the date.
inline constexpr int64_t kRenderTestTime = 1721952000;  // 2024-07-26

// ---- what a GPU step program reads besides weights and caches ----------------

// Lies in device memory; the first parameter of every launched kernel, which
// must not touch rows at or above its count. Kernels declare it themselves
// (kernels/cuda/base.cuh), with this layout.
struct StepInfo {
  int32_t tokens;          // of this step, at most the dim T
  int32_t rows;            // whose logits are wanted, at most R
  int32_t tiles;           // of input "tiles", at most Q
  int32_t blocks_per_seq;  // row stride of the block table in this run
  int32_t sampled_rows;    // rows that the sampler serves: 0 or `rows`, then
                           // at most S (a row of each sequence)
  int32_t image_tokens;    // at most the dim P
  int32_t images;          // at most I
  int32_t source_tokens;   // at most E
  int32_t reserved[8];
};
static_assert(sizeof(StepInfo) == 64);

// Inputs of a GPU program by name (those that its steps use), all int32 but
// samplers, which are uint32, and pixels, which are float:
//   ids [T]: a token, or ~r for the one that row r of the step before sampled
//   positions [T], slots [T], rows [R]: as in StepBatch
//   blocks [S, B]: the block table, row stride StepInfo::blocks_per_seq
//   tiles [Q, 4]: first token, tokens (at most tile_tokens), slot, position of
//     the first token; together they cover all tokens in order
//   sampled [R]: the ids that the last step drew; kept from step to step,
//     written by the step program itself
//   samplers [R, 8]: a SamplerRecord for each row
//   types [T], image_positions [P], image_slots [P], image_rows [I],
//     pixels [P, N]: of an encoder, as in StepBatch
//   source_ids [E], source_positions [E], source_slots [E], sources [S, 2]: of
//     an encoder beside a decoder, as in StepBatch; programs of a bucket run in
//     steps without sources (E is 0) and have but the last
struct SamplerRecord {
  float temperature;  // 0: greedy
  int32_t top_k;      // 0: off
  float top_p;        // 1: off
  float min_p;        // 0: off
  uint64_t seed;
  uint64_t position;  // of the token to be drawn
};
static_assert(sizeof(SamplerRecord) == 32);
// The id that stands for "no id: the row's logits hold NaN or infinity".
inline constexpr int32_t kNoSampledId = -1;

}  // namespace deepslice

#endif  // DEEPSLICE_SCHEMA_PLAN_FORMAT_H_
