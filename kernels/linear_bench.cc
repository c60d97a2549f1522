// The linear at SmolLM2-135M's shapes, from decode to prefill: weight bytes and
// flops per second, with weights from memory rather than from a cache.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "kernels/cpu.h"
#include "kernels/linear_cpu.h"
#include "kernels/thread_pool.h"
#include "schema/encoding.h"

namespace deepslice {
namespace {

// Beyond any last-level cache that a weight could stay in.
constexpr int64_t kWeightBytes = 256 << 20;

struct Free {
  void operator()(void* p) const { std::free(p); }
};
using Bytes = std::unique_ptr<char, Free>;

Bytes Allocate(int64_t size) {
  const int64_t whole = (size + 4096) / 4096 * 4096;
  Bytes bytes(static_cast<char*>(std::aligned_alloc(4096, whole)));
  std::fill_n(bytes.get(), whole, 1);
  return bytes;
}

void RunLinear(benchmark::State& bench, Encoding encoding) {
  const int64_t rows = bench.range(0), k = bench.range(1), n = bench.range(2);
  const int threads = static_cast<int>(bench.range(3));
  static const Bytes* const weights = new Bytes(Allocate(kWeightBytes));
  const int64_t bytes = n * k * EncodingBits(encoding) / 8;
  const int64_t copies = kWeightBytes / bytes;
  const std::vector<float> x(rows * k, 1.0f), scales(n, 1.0f);
  std::vector<float> out(rows * n);
  ThreadPool pool(threads);
  const Bytes scratch =
      Allocate(LinearScratchBytes({.max_rows = rows,
                                   .in_cols = k,
                                   .out_cols = n,
                                   .weight_encoding = encoding,
                                   .num_threads = threads}));
  CpuCall call;
  call.in[0] = {.data = x.data(), .rows = rows, .cols = k};
  call.in[1] = {
      .encoding = encoding, .scales = scales.data(), .rows = n, .cols = k};
  call.out = out.data();
  call.out_rows = rows;
  call.out_cols = n;
  call.pool = &pool;
  call.scratch = scratch.get();
  int64_t copy = 0;
  for (auto _ : bench) {
    call.in[1].data = weights->get() + copy * bytes;
    copy = (copy + 1) % copies;
    CpuLinear(call);
    benchmark::ClobberMemory();
  }
  const auto giga_per_second = [](int64_t amount) {
    return benchmark::Counter(static_cast<double>(amount) * 1e-9,
                              benchmark::Counter::kIsIterationInvariantRate);
  };
  bench.counters["GB/s"] = giga_per_second(bytes);
  bench.counters["GFLOP/s"] = giga_per_second(2 * rows * n * k);
  bench.SetLabel(CpuTargetName());
}

int RegisterAll() {
  for (const Encoding encoding :
       {Encoding::kF32, Encoding::kF16, Encoding::kBF16, Encoding::kI8Row}) {
    auto* bench = benchmark::RegisterBenchmark(
        ("Linear/" + std::string(EncodingName(encoding))).c_str(),
        [encoding](benchmark::State& state) { RunLinear(state, encoding); });
    bench->ArgNames({"rows", "k", "n", "threads"})
        ->UseRealTime()
        ->Unit(benchmark::kMicrosecond);
    for (const int threads : {1, 2}) {
      for (const int rows : {1, 2, 4, 8, 16, 64, 512}) {
        bench->Args({rows, 576, 960, threads});
        bench->Args({rows, 576, 576, threads});
        bench->Args({rows, 576, 3072, threads});
        bench->Args({rows, 1536, 576, threads});
        // The vocabulary: of few rows only, those whose logits are wanted.
        if (rows <= 8) bench->Args({rows, 576, 49152, threads});
      }
    }
  }
  return 0;
}

const int registered = RegisterAll();

}  // namespace
}  // namespace deepslice

BENCHMARK_MAIN();
