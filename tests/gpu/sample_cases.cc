// Drawn ids against SampleToken: equal, not close.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/rows.h"
#include "runtime/sampler.h"
#include "tests/gpu/gpu_case.h"

namespace deepslice {
namespace {

enum class Logits { kNormal, kEqual, kCoarse, kPeaked };

// kCoarse: few distinct values, so that ties are at every border.
std::vector<float> MakeLogits(Logits kind, int64_t vocab, Random* random) {
  std::vector<float> x(vocab);
  for (float& v : x) {
    double sum = 0;
    for (int i = 0; i < 6; ++i) sum += random->Unit() - 0.5;
    switch (kind) {
      case Logits::kNormal: v = static_cast<float>(3 * sum); break;
      case Logits::kEqual: v = 2.5f; break;
      case Logits::kCoarse: v = static_cast<float>(std::round(sum)); break;
      case Logits::kPeaked: v = static_cast<float>(30 * sum); break;
    }
  }
  return x;
}

std::vector<SamplingParams> AllParams(int64_t vocab) {
  std::vector<SamplingParams> all(1);  // greedy
  const auto add = [&](float temperature, int64_t k, float p,
                       float min_p = 0) {
    SamplingParams s;
    s.greedy = false;
    s.temperature = temperature;
    s.top_k = static_cast<int32_t>(k);
    s.top_p = p;
    s.min_p = min_p;
    s.seed = 1000003 * all.size() + (1ull << 40);
    all.push_back(s);
  };
  add(1.0f, 0, 1.0f);
  add(0.7f, 0, 1.0f);
  add(30.0f, 0, 1.0f);
  add(1.0f, 1, 1.0f);
  add(1.0f, 50, 1.0f);
  add(5.0f, 50, 0.9f);
  add(1.0f, vocab - 1, 1.0f);
  add(1.3f, vocab / 2, 0.99f);
  add(1.0f, vocab, 0.8f);  // no cut by k
  add(1.0f, 0, 0.5f);
  add(1.0f, 0, 0.95f);
  add(20.0f, 0, 0.9f);
  add(20.0f, 0, 0.999999f);
  add(1e-3f, 0, 0.9f);
  add(1e-30f, 3, 0.9f);
  add(1.0f, 0, 1e-6f);
  add(1.0f, 0, 1.0f, 0.05f);
  add(0.8f, 0, 0.9f, 0.1f);
  add(1.5f, 40, 0.95f, 0.02f);
  add(1.0f, 40, 1.0f, 0.3f);
  add(30.0f, 0, 1.0f, 1e-30f);  // beyond the bins
  add(2.0f, 0, 1.0f, 1.0f);     // the largest alone, and its equals
  return all;
}

GpuCase Make(const KernelSpec& spec, const SampleShape& shape, Logits kind,
             uint64_t seed) {
  Random random(seed);
  const std::vector<SamplingParams> all = AllParams(shape.vocab);
  const int64_t rows = shape.max_rows - 1;  // one is not asked for
  std::vector<char> logits(shape.max_rows * shape.logits_stride * 4, '\xff');
  std::vector<SamplerRecord> records(shape.max_rows);
  std::vector<double> want(shape.max_rows, kUntouched);
  std::vector<int32_t> scratch;
  for (int64_t r = 0; r < rows; ++r) {
    std::vector<float> x = MakeLogits(kind, shape.vocab, &random);
    const float inf = std::numeric_limits<float>::infinity();
    const int64_t place = random.Below(shape.vocab);
    if (r % 17 == 3) x[place] = -inf;
    if (r % 17 == 5) x[place] = std::nanf("");
    if (r % 17 == 9) x[place] = inf;
    if (r == 11) std::fill(x.begin(), x.end(), -inf);
    if (r == 13) x[place] = -0.0f;
    const int64_t position = 5 + 1000 * r;
    const SamplingParams& params = all[(r + seed) % all.size()];
    records[r] = RecordOf(params, position);
    const absl::StatusOr<int32_t> id =
        SampleToken(x.data(), shape.vocab, params, position, &scratch);
    want[r] = id.ok() ? *id : kNoSampledId;
    std::memcpy(logits.data() + r * shape.logits_stride * 4, x.data(),
                4 * shape.vocab);
  }
  StepInfo info = {};
  info.rows = static_cast<int32_t>(shape.max_rows);
  info.sampled_rows = static_cast<int32_t>(rows);
  GpuCase c;
  const int in = c.AddBytes(logits);
  const char* p = reinterpret_cast<const char*>(records.data());
  const int samplers = c.AddBytes({p, p + sizeof(SamplerRecord) * rows});
  const int work = c.AddZeros(SampleScratchBytes(shape), true);
  const int sync = c.AddZeros(4 * kSampleSyncWords * shape.max_rows);
  const int out = c.AddOutput(DType::kI32, shape.max_rows);
  c.AddStep(spec, info,
            {GpuParam::At(in), GpuParam::At(samplers), GpuParam::At(work),
             GpuParam::At(sync)},
            {GpuParam::At(out)});
  c.checks.push_back({out, DType::kI32, want, {}});
  return c;
}

}  // namespace

void AddSampleCases(const GpuTarget& target,
                    std::vector<GpuCaseEntry>* entries) {
  const SampleShape shapes[] = {
      {7, 7, 20},       {131, 131, 35},    {131, 133, 18},
      {2048, 2048, 18}, {5003, 5004, 18},  {50257, 50257, 18},
      {128256, 128256, 18}, {128256, 128256, 2}, {151937, 151940, 5}};
  for (const SampleShape& shape : shapes) {
    const KernelSpec spec = SpecializeSample(shape, target);
    int kind = 0;
    for (const char* name : {"normal", "equal", "coarse", "peaked"}) {
      const Logits logits = static_cast<Logits>(kind);
      // Two deals of the samplers where rows are few.
      for (uint64_t seed : {0, 7}) {
        entries->push_back({absl::StrCat(spec.label, " of ",
                                         shape.logits_stride, ", ",
                                         shape.max_rows, " rows, ", name,
                                         " logits, seed ", seed),
                            {spec},
                            [=] { return Make(spec, shape, logits, seed); }});
      }
      ++kind;
    }
  }
}

}  // namespace deepslice
