// Runs the units of a step's attention on the pool: decode and prefill paths.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/attention_cpu.h"
#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attend_cpu.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "kernels/attention_decode-inl.h"
#include "kernels/attention_prefill-inl.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace deepslice {
namespace HWY_NAMESPACE {

// One step: what all units read.
struct AttendStep {
  const AttentionArgs& args;
  AttentionLayout layout;
  AttentionPlan plan;
  AttentionRun* runs;

  float* Thread(int thread) const {
    return reinterpret_cast<float*>(args.scratch + layout.threads +
                                    thread * layout.thread_bytes);
  }
  float* PartialData(int64_t index) const {
    return reinterpret_cast<float*>(args.scratch + layout.partials) +
           index * layout.partial_floats;
  }
};

// Chunk `c` of the keys that a token at `position` sees, counted from the
// chunk that holds the first.
void ChunkBounds(const AttentionArgs& args, int64_t position, int64_t c,
                 int64_t* begin, int64_t* end) {
  const int64_t first = args.FirstKey(position);
  const int64_t chunk = (first / kAttentionChunk + c) * kAttentionChunk;
  *begin = std::max(first, chunk);
  *end = std::min(position + 1, chunk + kAttentionChunk);
}

// A token's heads of `kv`: all chunks in order, or chunk `part` of a split
// context. Whoever finishes the last chunk of a split one merges them all, in
// order again, so both ways give the same bits.
template <typename T>
void DecodeUnit(const AttendStep& step, const AttentionRun& run, int64_t kv,
                int64_t part, float* scratch) {
  const AttentionArgs& args = step.args;
  const AttentionLayout& layout = step.layout;
  const int64_t token = run.first_token;
  const int64_t slot = args.slots[token], position = args.positions[token];
  const int64_t first_head = args.FirstHead(kv);
  const int64_t heads = args.FirstHead(kv + 1) - first_head;
  const int64_t row = token * args.heads + first_head;
  float* out = args.out + row * args.value_dim;

  float* q = scratch;
  float* scores = q + layout.heads_per_kv * layout.padded_dim;
  float* rest = scores + layout.heads_per_kv * (kAttentionChunk + 16);
  ScaleHeads(args.q + row * args.head_dim, heads, args.head_dim, args.scale,
             layout.padded_dim, q);
  const auto attend = [&](int64_t c, Partial to) HWY_ATTR {
    int64_t begin, end;
    ChunkBounds(args, position, c, &begin, &end);
    AttendChunk<T>(args, layout, slot, position, kv, heads, begin, end, q,
                   scores, to);
  };

  if (!step.plan.split) {
    const Partial all(rest, layout);
    const Partial next(rest + layout.partial_floats, layout);
    const int64_t chunks = position / kAttentionChunk -
                           args.FirstKey(position) / kAttentionChunk + 1;
    attend(0, all);
    for (int64_t c = 1; c < chunks; ++c) {
      attend(c, next);
      MergePartial(layout, heads, next, all);
    }
    WriteHeads(all.sums, layout.padded_dim, all.total, heads, args.value_dim,
               out);
    return;
  }
  const int64_t first = run.first_partial + kv * run.parts;
  attend(part, Partial(step.PartialData(first + part), layout));
  int32_t* counters =
      reinterpret_cast<int32_t*>(args.scratch + layout.counters);
  std::atomic_ref<int32_t> done(counters[run.first_counter + kv]);
  if (done.fetch_add(1, std::memory_order_acq_rel) + 1 != run.parts) return;
  const Partial all(step.PartialData(first), layout);
  for (int64_t c = 1; c < run.parts; ++c) {
    MergePartial(layout, heads, Partial(step.PartialData(first + c), layout),
                 all);
  }
  WriteHeads(all.sums, layout.padded_dim, all.total, heads, args.value_dim,
             out);
}

template <typename T>
void RunUnit(const AttendStep& step, int64_t unit, int thread) {
  const AttentionRun* end = step.runs + step.plan.num_runs;
  const AttentionRun* run =
      std::upper_bound(
          static_cast<const AttentionRun*>(step.runs), end, unit,
          [](int64_t u, const AttentionRun& r) { return u < r.first_unit; }) -
      1;
  const int64_t index = unit - run->first_unit;
  const int64_t part = index / step.args.kv_heads;
  const int64_t kv = index % step.args.kv_heads;
  if (step.args.FirstHead(kv) == step.args.FirstHead(kv + 1)) return;
  if (run->decode()) {
    DecodeUnit<T>(step, *run, kv, part, step.Thread(thread));
    return;
  }
  const int64_t first = part * step.layout.tile_tokens;
  const int64_t tokens =
      std::min(step.layout.tile_tokens, run->num_tokens - first);
  const int64_t token = run->first_token + first;
  AttendTile<T>(step.args, step.layout, token, tokens, step.args.slots[token],
                step.args.positions[token], kv, step.Thread(thread));
}

void Attend(const AttentionArgs& args) {
  if (args.tokens == 0 || args.heads == 0) return;
  int64_t context = 0;
  for (int64_t t = 0; t < args.tokens; ++t) {
    context = std::max<int64_t>(context, args.positions[t] + 1);
  }
  AttendStep step{
      args,
      MakeAttentionLayout(args.tokens, args.heads, args.kv_heads, args.group,
                          args.head_dim, context, args.pool->num_threads()),
      {},
      nullptr};
  step.runs = reinterpret_cast<AttentionRun*>(args.scratch + step.layout.runs);
  step.plan = PlanAttention(args, step.layout, step.runs);
  if (step.plan.split) {
    std::memset(args.scratch + step.layout.counters, 0,
                step.layout.threads - step.layout.counters);
  }
  // Last first: the later tiles of a prompt have the longer contexts.
  std::atomic<int64_t> left{step.plan.num_units};
  const auto work = [&](int thread) HWY_ATTR {
    WithElementType(
        args.state->encoding, args.state->data, [&](auto* data) HWY_ATTR {
          using T = std::remove_cv_t<std::remove_pointer_t<decltype(data)>>;
          while (true) {
            const int64_t unit =
                left.fetch_sub(1, std::memory_order_relaxed) - 1;
            if (unit < 0) return;
            RunUnit<T>(step, unit, thread);
          }
        });
  };
  // About 5 us of work: below it a second thread costs more than it brings.
  constexpr int64_t kWorthAThread = 100000;
  if (step.plan.num_units == 1 || step.plan.multiply_adds < kWorthAThread) {
    work(0);
  } else {
    args.pool->Run(work);
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace deepslice
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deepslice {
HWY_EXPORT(Attend);
void AttendCpu(const AttentionArgs& args) {
  HWY_DYNAMIC_DISPATCH(Attend)(args);
}
}  // namespace deepslice
#endif
