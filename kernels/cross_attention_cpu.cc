// CPU kernel of CrossAttention: keeps an encoder's keys and values, and attends
// a decoder's tokens to them.
#include "kernels/attention_cpu.h"
#include "kernels/cpu.h"
#include "kernels/cpu_scratch.h"
#include "schema/base/checked_math.h"

namespace deepslice {
namespace {

int64_t RunBytes(int64_t tokens) {
  constexpr int64_t kAlign = 64;
  return RoundUp(tokens * static_cast<int64_t>(sizeof(KeyedRun)), kAlign);
}

}  // namespace

void CpuCrossAttention(const CpuCall& call) {
  using O = operand::CrossAttention;
  using A = attr::CrossAttention;
  AttentionArgs args;
  args.heads = call.attrs[A::heads].i;
  args.kv_heads = call.attrs[A::kv_heads].i;
  args.group = std::max<int64_t>(1, call.attrs[A::group].i);
  args.head_offset = call.attrs[A::head_offset].i;
  args.head_dim = args.value_dim = call.attrs[A::head_dim].i;
  args.scale = static_cast<float>(call.attrs[A::scale].f);
  args.state = call.state;
  args.pool = call.pool;
  args.tokens = call.in[O::k].rows;
  args.positions = call.in[O::source_positions].i32();
  args.slots = call.in[O::source_slots].i32();
  if (args.tokens > 0) {
    AppendKeysAndValuesCpu(args, call.in[O::k].f32(), call.in[O::v].f32());
  }

  args.tokens = call.out_rows;
  args.q = call.in[O::q].f32();
  args.out = call.out;
  KeyedRun* runs = reinterpret_cast<KeyedRun*>(call.scratch);
  args.scratch = static_cast<char*>(call.scratch) + RunBytes(args.tokens);
  const int32_t* slots = call.in[O::slots].i32();
  const int32_t* sources = call.in[O::sources].i32();
  int64_t num_runs = 0;
  for (int64_t t = 0; t < args.tokens;) {
    int64_t end = t + 1;
    while (end < args.tokens && slots[end] == slots[t]) ++end;
    KeyedRun& run = runs[num_runs++];
    run = KeyedRun();
    run.first_token = t;
    run.num_tokens = end - t;
    run.slot = sources[2 * slots[t]];
    run.first_position = -1;  // no key but those that all see
    run.all_keys = sources[2 * slots[t] + 1];
    t = end;
  }
  AttendRunsCpu(args, runs, num_runs);
}

int64_t CrossAttentionScratchBytes(const CpuShape& shape) {
  using A = attr::CrossAttention;
  return RunBytes(shape.max_rows) + AttentionScratch<A>(shape);
}

}  // namespace deepslice
