// Attention at a small model's shape: decode with a long context, and prefill.
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "benchmark/benchmark.h"
#include "kernels/cpu.h"

namespace deepslice {
namespace {

constexpr int64_t kHeads = 9, kKvHeads = 3, kHeadDim = 64;
constexpr int64_t kBlockTokens = 64;

// `tokens` tokens of one sequence that end at `context`.
void RunAttention(benchmark::State& bench, int64_t tokens, Encoding encoding) {
  const int64_t context = bench.range(0);
  const int threads = static_cast<int>(bench.range(1));
  std::vector<Attr> attrs(attr::Attention::kCount);
  attrs[attr::Attention::heads].i = kHeads;
  attrs[attr::Attention::kv_heads].i = kKvHeads;
  attrs[attr::Attention::group].i = kHeads / kKvHeads;
  attrs[attr::Attention::head_dim].i = kHeadDim;
  attrs[attr::Attention::scale].f = 1 / std::sqrt(kHeadDim);

  const int64_t num_blocks = (context + kBlockTokens - 1) / kBlockTokens;
  CpuState state;
  state.encoding = encoding;
  state.block_tokens = kBlockTokens;
  state.block_bytes =
      2 * kKvHeads * kBlockTokens * kHeadDim * EncodingBits(encoding) / 8;
  state.num_blocks = num_blocks;
  std::vector<char> cache(num_blocks * state.block_bytes, 0);
  state.data = cache.data();

  std::mt19937 rng(1);
  std::normal_distribution<float> normal;
  std::vector<float> q(tokens * kHeads * kHeadDim), out(q.size());
  std::vector<float> k(tokens * kKvHeads * kHeadDim), v(k.size());
  for (auto* x : {&q, &k, &v}) {
    for (float& f : *x) f = normal(rng);
  }
  std::vector<int32_t> positions(tokens), slots(tokens, 0), blocks(num_blocks);
  for (int64_t t = 0; t < tokens; ++t) {
    positions[t] = static_cast<int32_t>(context - tokens + t);
  }
  for (int64_t b = 0; b < num_blocks; ++b) {
    blocks[b] = static_cast<int32_t>((b * 7 + 3) % num_blocks);
  }

  ThreadPool pool(threads);
  CpuShape shape;
  shape.max_rows = tokens;
  shape.max_context = context;
  shape.attrs = attrs.data();
  shape.num_threads = threads;
  std::vector<char> scratch(CpuScratchBytes(OpKind::kAttention, shape) + 64);
  CpuCall call;
  const auto operand = [](const void* data, int64_t rows, int64_t cols) {
    return CpuOperand{data, Encoding::kF32, nullptr, rows, cols};
  };
  call.in[0] = operand(q.data(), tokens, kHeads * kHeadDim);
  call.in[1] = operand(k.data(), tokens, kKvHeads * kHeadDim);
  call.in[2] = operand(v.data(), tokens, kKvHeads * kHeadDim);
  call.in[3] = operand(positions.data(), 1, tokens);
  call.in[4] = operand(slots.data(), 1, tokens);
  call.in[5] = operand(blocks.data(), 1, num_blocks);
  call.out = out.data();
  call.out_rows = tokens;
  call.out_cols = kHeads * kHeadDim;
  call.attrs = attrs.data();
  call.state = &state;
  call.pool = &pool;
  call.scratch = scratch.data() +
                 (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64;

  for (auto _ : bench) {
    CpuAttention(call);
    benchmark::DoNotOptimize(out.data());
  }
  // Scores and values: 4 operations a key, a query head and an element.
  double seen = 0;
  for (int64_t t = 0; t < tokens; ++t) {
    seen += static_cast<double>(positions[t] + 1);
  }
  bench.counters["GFLOP/s"] =
      benchmark::Counter(4 * seen * kHeads * kHeadDim * 1e-9,
                         benchmark::Counter::kIsIterationInvariantRate);
  bench.counters["GB/s"] = benchmark::Counter(
      static_cast<double>(num_blocks * state.block_bytes) * 1e-9,
      benchmark::Counter::kIsIterationInvariantRate);
  bench.SetLabel(CpuTargetName());
}

void DecodeF32(benchmark::State& s) { RunAttention(s, 1, Encoding::kF32); }
void DecodeBF16(benchmark::State& s) { RunAttention(s, 1, Encoding::kBF16); }
void PrefillF32(benchmark::State& s) {
  RunAttention(s, s.range(0), Encoding::kF32);
}
void Chunk512(benchmark::State& s) { RunAttention(s, 512, Encoding::kBF16); }

BENCHMARK(DecodeF32)->ArgsProduct({{512, 4096}, {1, 2}})->UseRealTime();
BENCHMARK(DecodeBF16)->ArgsProduct({{512, 4096}, {1, 2}})->UseRealTime();
BENCHMARK(PrefillF32)->ArgsProduct({{512}, {1, 2}})->UseRealTime();
BENCHMARK(Chunk512)->ArgsProduct({{512, 4096}, {1, 2}})->UseRealTime();

}  // namespace
}  // namespace deepslice

BENCHMARK_MAIN();
