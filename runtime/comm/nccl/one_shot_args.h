// The last parameter of kernels/cuda/all_reduce_one_shot.cuh, as it lies there.
#ifndef DEEPSLICE_RUNTIME_COMM_NCCL_ONE_SHOT_ARGS_H_
#define DEEPSLICE_RUNTIME_COMM_NCCL_ONE_SHOT_ARGS_H_

#include <cstdint>

namespace deepslice {

inline constexpr int kOneShotRanks = 8;           // at most
inline constexpr int64_t kOneShotLineData = 8;    // bytes of data in a line
inline constexpr int64_t kOneShotLineBytes = 16;  // as it lies in a buffer

enum class OneShotMode : int32_t { kSum = 0, kGather = 1, kBroadcast = 2 };

struct OneShotArgs {
  uint64_t
      peers[kOneShotRanks];  // receive buffers: [2][world][lines][16 bytes]
  uint64_t lines;
  uint64_t state;  // own: two words, calls so far and blocks done
  uint64_t stop;   // host memory, a word: not 0 ends every wait
  int32_t rank, world;
  OneShotMode mode;
  int32_t reserved;
};
static_assert(sizeof(OneShotArgs) == 104);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_COMM_NCCL_ONE_SHOT_ARGS_H_
