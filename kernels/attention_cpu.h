// What the two attention kernels share on the CPU: their arguments, the walk
// over a block table, and how a step is cut into units of work.
#ifndef DEEPSLICE_KERNELS_ATTENTION_CPU_H_
#define DEEPSLICE_KERNELS_ATTENTION_CPU_H_

#include <algorithm>
#include <cstdint>

#include "kernels/cpu.h"

namespace deepslice {

// Keys of one partial softmax in the decode path. Part of the result's bits:
// cuts depend on positions alone, never on the number of threads.
inline constexpr int64_t kAttentionChunk = 128;
// Keys and query rows of one tile in the prefill path.
inline constexpr int64_t kAttentionTileKeys = 64;
inline constexpr int64_t kAttentionTileRows = 48;
// Rows that the prefill path multiplies at once.
inline constexpr int64_t kAttentionRowGrain = 6;
// Columns between rows of the transposed keys: groups of 4 keys may run over.
inline constexpr int64_t kAttentionKeyStride = kAttentionTileKeys + 16;
// At most so many consecutive tokens of a sequence take the decode path.
inline constexpr int64_t kAttentionDecodeRun = 4;
// Contexts are split over threads when there are fewer units a thread.
inline constexpr int64_t kAttentionUnitsPerThread = 4;

struct AttentionArgs {
  int64_t tokens = 0;
  int64_t heads = 0, kv_heads = 0, group = 1, head_offset = 0, head_dim = 0;
  int64_t value_dim = 0;  // of a result's head: head_dim, or its beginning
  int value_part = 1;     // rows that are values; 0: the keys are
  int64_t window = 0;
  float scale = 1;
  float softcap = 0;              // 0: none
  const float* slopes = nullptr;  // [heads]; nullptr: no ALiBi
  Alibi alibi = Alibi::kPlain;
  // [heads, 2 * max_distance + 1]: what a score grows by for a key that far
  // behind (at 0) to that far ahead; beyond, as at the ends. nullptr: nothing.
  const float* relative = nullptr;
  int64_t max_distance = 0;
  // > 0: every token sees all of so many keys, whatever its own position.
  int64_t all_keys = 0;
  const float* q = nullptr;  // [tokens, heads * head_dim]; may be `out`
  float* out = nullptr;      // [tokens, heads * value_dim]
  const int32_t* positions = nullptr;
  const int32_t* slots = nullptr;
  // [slots, blocks_per_slot]; nullptr: slot s has block s alone.
  const int32_t* blocks = nullptr;
  int64_t blocks_per_slot = 0;
  const CpuState* state = nullptr;
  ThreadPool* pool = nullptr;
  char* scratch = nullptr;

  // Query heads [FirstHead(kv), FirstHead(kv + 1)) read local KV head `kv`.
  int64_t FirstHead(int64_t kv) const {
    return std::clamp<int64_t>(kv * group - head_offset, 0, heads);
  }
  // The first position that the token at `position` sees.
  int64_t FirstKey(int64_t position) const {
    return window > 0 ? std::max<int64_t>(0, position - window + 1) : 0;
  }
  // Behind the last that it sees.
  int64_t EndKey(int64_t position) const {
    return all_keys > 0 ? all_keys : position + 1;
  }
  // Row of head_dim elements of a key (part 0) or value (part 1), in elements
  // of the state's encoding from state->data.
  template <typename T>
  T* Row(int64_t slot, int64_t position, int64_t kv, int part) const {
    const int64_t tokens_per_block = state->block_tokens;
    const int64_t block =
        blocks == nullptr
            ? slot
            : blocks[slot * blocks_per_slot + position / tokens_per_block];
    char* data = static_cast<char*>(state->data) + block * state->block_bytes;
    const int64_t row =
        (part * kv_heads + kv) * tokens_per_block + position % tokens_per_block;
    return reinterpret_cast<T*>(data) + row * head_dim;
  }
  // How many of the positions [position, end) lie in the block of `position`,
  // their rows one after the other.
  int64_t Contiguous(int64_t position, int64_t end) const {
    const int64_t left = state->block_tokens - position % state->block_tokens;
    return std::min(left, end - position);
  }
};

// All but q. The attributes of Attention and QkvAttention (A) and what they
// share of their operands (O) have the same names.
template <typename A, typename O>
AttentionArgs MakeAttentionArgs(const CpuCall& call) {
  const CpuOperand& blocks = call.in[O::blocks];
  AttentionArgs args;
  args.tokens = call.out_rows;
  args.heads = call.attrs[A::heads].i;
  args.kv_heads = call.attrs[A::kv_heads].i;
  args.group = std::max<int64_t>(1, call.attrs[A::group].i);
  args.head_offset = call.attrs[A::head_offset].i;
  args.head_dim = args.value_dim = call.attrs[A::head_dim].i;
  args.window = call.attrs[A::window].i;
  args.scale = static_cast<float>(call.attrs[A::scale].f);
  args.softcap = static_cast<float>(call.attrs[A::softcap].f);
  args.slopes = call.in[O::slopes].f32();
  args.alibi = static_cast<Alibi>(call.attrs[A::alibi].i);
  args.out = call.out;
  args.positions = call.in[O::positions].i32();
  args.slots = call.in[O::slots].i32();
  args.blocks = blocks.i32();
  args.blocks_per_slot = blocks.cols;
  args.state = call.state;
  args.pool = call.pool;
  args.scratch = static_cast<char*>(call.scratch);
  return args;
}

// Tokens that are worked on together: one, or a run of one sequence.
struct AttentionRun {
  int32_t first_token = 0;
  int32_t num_tokens = 0;
  int32_t parts = 0;          // chunks of the context, or tiles of tokens
  int32_t first_partial = 0;  // decode, split: of [kv_heads, parts]
  int32_t first_counter = 0;  // decode, split: of [kv_heads]
  int64_t first_unit = 0;
  bool decode() const { return num_tokens == 1; }
};

// Where things lie in the scratch, in bytes.
struct AttentionLayout {
  int64_t heads_per_kv = 0;  // at most
  int64_t padded_dim = 0;    // head_dim rounded up to whole vectors
  int64_t tile_tokens = 0;   // of one prefill unit
  int64_t tile_rows = 0;     // tile_tokens * heads_per_kv, rounded up
  int64_t thread_bytes = 0;
  int64_t partial_floats = 0;  // heads_per_kv * (padded_dim + 2)

  int64_t runs = 0, counters = 0, threads = 0, partials = 0, total = 0;
};
// Grows with each argument, so that the maxima of a program give its scratch.
AttentionLayout MakeAttentionLayout(int64_t tokens, int64_t heads,
                                    int64_t kv_heads, int64_t group,
                                    int64_t head_dim, int64_t context,
                                    int num_threads);

struct AttentionPlan {
  int64_t num_runs = 0;
  int64_t num_units = 0;
  int64_t multiply_adds = 0;  // about; for deciding whether threads pay
  bool split = false;         // decode contexts are cut into chunks
};
// Cuts the step into runs and units; fills at most one run a token.
AttentionPlan PlanAttention(const AttentionArgs& args,
                            const AttentionLayout& layout, AttentionRun* runs);

template <typename A>
int64_t AttentionScratch(const CpuShape& shape) {
  return MakeAttentionLayout(
             shape.max_rows, shape.attrs[A::heads].i,
             shape.attrs[A::kv_heads].i, shape.attrs[A::group].i,
             shape.attrs[A::head_dim].i, shape.max_context, shape.num_threads)
      .total;
}

// Attends all tokens; their keys and values are in the state already.
void AttendCpu(const AttentionArgs& args);

// Tokens of one sequence side by side, with the keys that all of them see (0:
// each those up to itself). A run without keys gets zeros.
struct KeyedRun {
  int64_t first_token = 0, num_tokens = 0;
  int64_t slot = 0;            // of the state
  int64_t first_position = 0;  // of the first token
  int64_t all_keys = 0;
  int64_t first_unit = 0;  // set by AttendRunsCpu
};
// Attends `num_runs` runs of a step in parallel; args.slots, positions and
// all_keys are not read. The scratch is as for `num_runs` at most the tokens.
void AttendRunsCpu(const AttentionArgs& args, KeyedRun* runs,
                   int64_t num_runs);

// AttentionArgs::relative out of a weight [heads, buckets], in the first
// RelativeBytes of *scratch, which then begins behind them.
int64_t RelativeBytes(int64_t heads, int64_t max_distance);
const float* TakeRelative(const CpuOperand& rel_bias, int64_t heads,
                          int64_t max_distance, bool both_directions,
                          char** scratch);

// Writes k, v [tokens, kv_heads * head_dim] to the state at args.positions of
// args.slots.
void AppendKeysAndValuesCpu(const AttentionArgs& args, const float* k,
                            const float* v);

}  // namespace deepslice

#endif  // DEEPSLICE_KERNELS_ATTENTION_CPU_H_
