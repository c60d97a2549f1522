// CPU kernel of EncoderAttention: lays keys and values out head by head, then
// attends sequence by sequence.
#include <cstring>

#include "kernels/attention_cpu.h"
#include "kernels/cpu.h"
#include "kernels/cpu_scratch.h"
#include "schema/base/checked_math.h"

namespace deepslice {
namespace {

constexpr int64_t kAlign = 64;

// Scratch behind that of the biases: runs, then keys and values as
// [2][kv_heads][tokens][head_dim], then AttentionLayout's.
int64_t RunBytes(int64_t tokens) {
  return RoundUp(tokens * static_cast<int64_t>(sizeof(KeyedRun)), kAlign);
}
int64_t PackedBytes(int64_t tokens, int64_t kv_heads, int64_t head_dim) {
  return RoundUp(
      2 * kv_heads * tokens * head_dim * static_cast<int64_t>(sizeof(float)),
      kAlign);
}

void PackHeads(const AttentionArgs& args, const float* from, float* to) {
  const int64_t cols = args.kv_heads * args.head_dim;
  args.pool->ParallelFor(
      args.tokens, 8192 / (cols + 1) + 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t t = begin; t < end; ++t) {
          for (int64_t kv = 0; kv < args.kv_heads; ++kv) {
            std::memcpy(to + (kv * args.tokens + t) * args.head_dim,
                        from + t * cols + kv * args.head_dim,
                        args.head_dim * sizeof(float));
          }
        }
      });
}

}  // namespace

void CpuEncoderAttention(const CpuCall& call) {
  using O = operand::EncoderAttention;
  using A = attr::EncoderAttention;
  AttentionArgs args;
  args.tokens = call.out_rows;
  args.heads = call.attrs[A::heads].i;
  args.kv_heads = call.attrs[A::kv_heads].i;
  args.group = std::max<int64_t>(1, call.attrs[A::group].i);
  args.head_offset = call.attrs[A::head_offset].i;
  args.head_dim = args.value_dim = call.attrs[A::head_dim].i;
  args.scale = static_cast<float>(call.attrs[A::scale].f);
  args.q = call.in[O::q].f32();
  args.out = call.out;
  args.pool = call.pool;
  args.scratch = static_cast<char*>(call.scratch);
  const bool full = static_cast<Mask>(call.attrs[A::mask].i) == Mask::kFull;
  if (call.in[O::rel_bias].data != nullptr) {
    args.max_distance = call.attrs[A::max_distance].i;
    args.relative = TakeRelative(call.in[O::rel_bias], args.heads,
                                 args.max_distance, full, &args.scratch);
  }
  KeyedRun* runs = reinterpret_cast<KeyedRun*>(args.scratch);
  args.scratch += RunBytes(args.tokens);
  float* keys = reinterpret_cast<float*>(args.scratch);
  args.scratch += PackedBytes(args.tokens, args.kv_heads, args.head_dim);
  float* values = keys + args.kv_heads * args.tokens * args.head_dim;
  PackHeads(args, call.in[O::k].f32(), keys);
  PackHeads(args, call.in[O::v].f32(), values);

  // One block of all tokens, and a slot for the sequence that begins at any.
  CpuState packed;
  packed.data = keys;
  packed.block_tokens = args.tokens;
  packed.block_bytes = args.head_dim * static_cast<int64_t>(sizeof(float));
  args.state = &packed;
  const int32_t* slots = call.in[O::slots].i32();
  int64_t num_runs = 0;
  for (int64_t t = 0; t < args.tokens;) {
    int64_t end = t + 1;
    while (end < args.tokens && slots[end] == slots[t]) ++end;
    KeyedRun& run = runs[num_runs++];
    run = KeyedRun();
    run.first_token = t;
    run.num_tokens = end - t;
    run.slot = t;
    run.all_keys = full ? end - t : 0;
    t = end;
  }
  AttendRunsCpu(args, runs, num_runs);
}

int64_t EncoderAttentionScratchBytes(const CpuShape& shape) {
  using A = attr::EncoderAttention;
  const int64_t heads = shape.attrs[A::heads].i;
  const int64_t kv_heads = shape.attrs[A::kv_heads].i;
  const int64_t head_dim = shape.attrs[A::head_dim].i;
  return RelativeBytes(heads, shape.attrs[A::max_distance].i) +
         RunBytes(shape.max_rows) +
         PackedBytes(shape.max_rows, kv_heads, head_dim) +
         MakeAttentionLayout(shape.max_rows, heads, kv_heads,
                             shape.attrs[A::group].i, head_dim, 0,
                             shape.num_threads)
             .total;
}

}  // namespace deepslice
