// Attends runs of tokens that share their keys: whole sequences of an encoder,
// and a decoder's tokens over an encoder's keys.
#include <algorithm>
#include <atomic>

#include "kernels/attention_cpu.h"
#include "kernels/simd_targets.h"
#include "schema/base/checked_math.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attend_runs_cpu.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "kernels/attention_decode-inl.h"
#include "kernels/attention_prefill-inl.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace deepslice {
namespace HWY_NAMESPACE {

// One token over many keys, chunk by chunk.
template <typename T>
void AttendToken(const AttentionArgs& args, const AttentionLayout& layout,
                 const KeyedRun& run, int64_t token, int64_t kv,
                 float* scratch) {
  const int64_t first_head = args.FirstHead(kv);
  const int64_t heads = args.FirstHead(kv + 1) - first_head;
  const int64_t at = (token * args.heads + first_head) * args.head_dim;
  const int64_t position = run.first_position + token - run.first_token;
  float* q = scratch;
  float* scores = q + layout.heads_per_kv * layout.padded_dim;
  float* rest = scores + layout.heads_per_kv * (kAttentionChunk + 16);
  const Partial all(rest, layout), next(rest + layout.partial_floats, layout);
  ScaleHeads(args.q + at, heads, args.head_dim, args.scale, layout.padded_dim,
             q);
  const int64_t end = args.EndKey(position);
  for (int64_t begin = 0; begin < end; begin += kAttentionChunk) {
    AttendChunk<T>(args, layout, run.slot, position, kv, heads, begin,
                   std::min(end, begin + kAttentionChunk), q, scores,
                   begin == 0 ? all : next);
    if (begin > 0) MergePartial(layout, heads, next, all);
  }
  WriteHeads(all.sums, layout.padded_dim, all.total, heads, args.head_dim,
             args.out + at);
}

template <typename T>
void RunUnit(AttentionArgs args, const AttentionLayout& layout,
             const KeyedRun& run, int64_t unit, float* scratch) {
  const int64_t part = unit / args.kv_heads, kv = unit % args.kv_heads;
  const int64_t first_head = args.FirstHead(kv);
  const int64_t heads = args.FirstHead(kv + 1) - first_head;
  if (heads == 0) return;
  args.all_keys = run.all_keys;
  const int64_t first = part * layout.tile_tokens;
  const int64_t tokens = std::min(layout.tile_tokens, run.num_tokens - first);
  const int64_t token = run.first_token + first;
  if (args.EndKey(run.first_position) == 0) {
    for (int64_t t = token; t < token + tokens; ++t) {
      std::fill_n(args.out + (t * args.heads + first_head) * args.head_dim,
                  heads * args.head_dim, 0.0f);
    }
  } else if (run.num_tokens <= kAttentionDecodeRun) {
    for (int64_t t = token; t < token + tokens; ++t) {
      AttendToken<T>(args, layout, run, t, kv, scratch);
    }
  } else {
    AttendTile<T>(args, layout, token, tokens, run.slot,
                  run.first_position + first, kv, scratch);
  }
}

void AttendRuns(const AttentionArgs& args, KeyedRun* runs, int64_t num_runs) {
  if (args.heads == 0 || args.kv_heads == 0 || num_runs == 0) return;
  const AttentionLayout layout =
      MakeAttentionLayout(args.tokens, args.heads, args.kv_heads, args.group,
                          args.head_dim, 0, args.pool->num_threads());
  int64_t units = 0, multiply_adds = 0;
  for (int64_t r = 0; r < num_runs; ++r) {
    runs[r].first_unit = units;
    units += CeilDiv(runs[r].num_tokens, layout.tile_tokens) * args.kv_heads;
    multiply_adds += runs[r].num_tokens *
                     std::max(runs[r].all_keys, runs[r].num_tokens) *
                     args.heads * args.head_dim * 2;
  }
  std::atomic<int64_t> left{units};
  const auto work = [&](int thread) HWY_ATTR {
    float* scratch = reinterpret_cast<float*>(args.scratch + layout.threads +
                                              thread * layout.thread_bytes);
    WithElementType(
        args.state->encoding, args.state->data, [&](auto* data) HWY_ATTR {
          using T = std::remove_cv_t<std::remove_pointer_t<decltype(data)>>;
          while (true) {
            const int64_t unit =
                left.fetch_sub(1, std::memory_order_relaxed) - 1;
            if (unit < 0) return;
            const KeyedRun* run =
                std::upper_bound(static_cast<const KeyedRun*>(runs),
                                 static_cast<const KeyedRun*>(runs) + num_runs,
                                 unit,
                                 [](int64_t u, const KeyedRun& k) {
                                   return u < k.first_unit;
                                 }) -
                1;
            RunUnit<T>(args, layout, *run, unit - run->first_unit, scratch);
          }
        });
  };
  // As in attend_cpu.cc.
  constexpr int64_t kWorthAThread = 100000;
  if (units == 1 || multiply_adds < kWorthAThread) {
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
HWY_EXPORT(AttendRuns);
void AttendRunsCpu(const AttentionArgs& args, KeyedRun* runs,
                   int64_t num_runs) {
  HWY_DYNAMIC_DISPATCH(AttendRuns)(args, runs, num_runs);
}
}  // namespace deepslice
#endif
