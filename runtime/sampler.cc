#include "runtime/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "runtime/philox.h"

namespace deepslice {
namespace {

// The lowest id of the largest logit; an Internal error for NaN, for +infinity
// (no distribution follows from it) and when every logit is -infinity.
absl::StatusOr<int32_t> LargestLogit(const float* logits, int64_t vocab) {
  int64_t best = 0;
  bool nan = false;
  for (int64_t i = 0; i < vocab; ++i) {
    nan |= std::isnan(logits[i]);
    if (logits[i] > logits[best]) best = i;
  }
  if (nan) {
    const int64_t at = std::find_if(logits, logits + vocab,
                                    [](float x) { return std::isnan(x); }) -
                       logits;
    return absl::InternalError(
        absl::StrCat("the logits hold NaN, first at id ", at, " of ", vocab,
                     "; the model overflows in this dtype, try another"));
  }
  if (!std::isfinite(logits[best])) {
    return absl::InternalError(
        absl::StrCat("the largest logit is ", logits[best], " at id ", best,
                     "; the model overflows in this dtype, try another"));
  }
  return static_cast<int32_t>(best);
}

}  // namespace

SamplerRecord RecordOf(const SamplingParams& params, int64_t position) {
  SamplerRecord record = {};
  record.temperature = params.greedy ? 0.0f : params.temperature;
  record.top_k = params.top_k;
  record.top_p = params.top_p;
  record.seed = params.seed;
  record.position = static_cast<uint64_t>(position);
  return record;
}

SamplingParams ParamsOf(const SamplerRecord& record) {
  return {.greedy = record.temperature == 0.0f,
          .temperature = record.temperature,
          .top_k = record.top_k,
          .top_p = record.top_p,
          .seed = record.seed};
}

absl::StatusOr<int32_t> SampleToken(const float* logits, int64_t vocab,
                                    const SamplingParams& params,
                                    int64_t position,
                                    std::vector<int32_t>* scratch) {
  const absl::StatusOr<int32_t> best = LargestLogit(logits, vocab);
  if (!best.ok() || params.greedy) return best;

  const double top = logits[*best];
  const double inverse = 1.0 / params.temperature;
  const auto weight = [&](int64_t id) {
    return std::exp((logits[id] - top) * inverse);
  };
  const double uniform =
      PhiloxUniform(params.seed, static_cast<uint64_t>(position));

  double total = 0;
  const bool cut_k = params.top_k > 0 && params.top_k < vocab;
  if (!cut_k) {
    for (int64_t id = 0; id < vocab; ++id) total += weight(id);
    if (params.top_p >= 1.0f) {
      const double target = uniform * total;
      double sum = 0;
      int32_t last = *best;
      for (int64_t id = 0; id < vocab; ++id) {
        const double w = weight(id);
        if (w <= 0) continue;
        sum += w;
        last = static_cast<int32_t>(id);
        if (sum > target) break;
      }
      return last;
    }
  }

  // A heap rather than a sort: a nucleus is a few tokens of a large vocabulary.
  // Popped ids gather at the end of scratch, largest last; equal logits leave
  // the lower id first.
  scratch->resize(vocab);
  for (int64_t id = 0; id < vocab; ++id) (*scratch)[id] = id;
  const auto less = [&](int32_t a, int32_t b) {
    return logits[a] < logits[b] || (logits[a] == logits[b] && a > b);
  };
  std::make_heap(scratch->begin(), scratch->end(), less);
  int64_t kept = 0;
  const auto nth = [&](int64_t i) { return (*scratch)[vocab - 1 - i]; };
  const auto pop = [&] {
    std::pop_heap(scratch->begin(), scratch->end() - kept, less);
    ++kept;
  };
  if (cut_k) {
    while (kept < params.top_k) {
      pop();
      total += weight(nth(kept - 1));
    }
  }
  // The smallest set of the likeliest whose share of `total` reaches top_p.
  int64_t size = 0;
  double mass = 0;
  const double wanted = params.top_p * total;
  while (size < (cut_k ? kept : vocab)) {
    if (size == kept) pop();
    mass += weight(nth(size++));
    if (params.top_p < 1.0f && mass >= wanted) break;
  }
  const double target = uniform * mass;
  double sum = 0;
  for (int64_t i = 0; i < size; ++i) {
    sum += weight(nth(i));
    if (sum > target) return nth(i);
  }
  return nth(0);
}

}  // namespace deepslice
