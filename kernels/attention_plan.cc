// Cuts a step's attention into units of work and lays out the scratch.
#include <algorithm>

#include "kernels/attention_cpu.h"
#include "schema/base/checked_math.h"

namespace deepslice {
namespace {

constexpr int64_t kFloat = sizeof(float);
constexpr int64_t kAlign = 64;

}  // namespace

AttentionLayout MakeAttentionLayout(int64_t tokens, int64_t heads,
                                    int64_t kv_heads, int64_t group,
                                    int64_t head_dim, int64_t context,
                                    int num_threads) {
  AttentionLayout l;
  l.heads_per_kv = std::max<int64_t>(1, std::min(group, heads));
  l.padded_dim = RoundUp(head_dim, 16);
  l.tile_tokens = std::max<int64_t>(1, kAttentionTileRows / l.heads_per_kv);
  l.tile_rows = RoundUp(l.tile_tokens * l.heads_per_kv, kAttentionRowGrain);
  l.partial_floats = l.heads_per_kv * (l.padded_dim + 2);

  // Decode: q, scores, one chunk's partial and the total.
  const int64_t decode =
      l.heads_per_kv * (l.padded_dim + kAttentionChunk + 16) +
      2 * l.partial_floats;
  // Prefill: transposed keys, values, q, scores, sums, maxima and totals.
  const int64_t prefill =
      head_dim * kAttentionKeyStride + kAttentionTileKeys * l.padded_dim +
      l.tile_rows * (2 * l.padded_dim + kAttentionTileKeys + 2);
  // Append: cosines, sines and a rotated key.
  const int64_t append = 3 * l.padded_dim;
  l.thread_bytes =
      RoundUp(std::max({decode, prefill, append}) * kFloat, kAlign);

  const int64_t split_units = kAttentionUnitsPerThread * num_threads;
  l.runs = 0;
  l.counters =
      RoundUp(tokens * static_cast<int64_t>(sizeof(AttentionRun)), kAlign);
  l.threads = l.counters + RoundUp(split_units * 4, kAlign);
  l.partials = l.threads + num_threads * l.thread_bytes;
  l.total = l.partials;
  if (num_threads > 1 && kv_heads > 0) {
    l.total += split_units *
               CeilDiv(context + kAttentionChunk, kAttentionChunk) *
               l.partial_floats * kFloat;
  }
  return l;
}

AttentionPlan PlanAttention(const AttentionArgs& args,
                            const AttentionLayout& layout, AttentionRun* runs) {
  AttentionPlan plan;
  if (args.heads == 0 || args.kv_heads == 0) return plan;
  for (int64_t t = 0; t < args.tokens;) {
    int64_t end = t + 1;
    while (end < args.tokens && args.slots[end] == args.slots[t] &&
           args.positions[end] == args.positions[end - 1] + 1) {
      ++end;
    }
    // Few tokens: each is a run of its own.
    if (end - t <= kAttentionDecodeRun) end = t + 1;
    AttentionRun& run = runs[plan.num_runs++];
    run = AttentionRun();
    run.first_token = static_cast<int32_t>(t);
    run.num_tokens = static_cast<int32_t>(end - t);
    run.parts =
        run.decode()
            ? 1
            : static_cast<int32_t>(CeilDiv(end - t, layout.tile_tokens));
    const int64_t last = args.positions[end - 1];
    const int64_t keys = last + 1 - args.FirstKey(last);
    plan.multiply_adds += (end - t) * keys * args.heads * args.head_dim * 2;
    plan.num_units += run.parts * args.kv_heads;
    t = end;
  }
  const int threads = args.pool->num_threads();
  plan.split =
      threads > 1 && plan.num_units < kAttentionUnitsPerThread * threads;
  plan.num_units = 0;
  int32_t partials = 0, counters = 0;
  const int32_t kv_heads = static_cast<int32_t>(args.kv_heads);
  for (int64_t i = 0; i < plan.num_runs; ++i) {
    AttentionRun& run = runs[i];
    if (run.decode() && plan.split) {
      const int64_t position = args.positions[run.first_token];
      run.parts =
          static_cast<int32_t>(position / kAttentionChunk -
                               args.FirstKey(position) / kAttentionChunk + 1);
      run.first_partial = partials;
      run.first_counter = counters;
      partials += run.parts * kv_heads;
      counters += kv_heads;
    }
    run.first_unit = plan.num_units;
    plan.num_units += run.parts * args.kv_heads;
  }
  return plan;
}

}  // namespace deepslice
