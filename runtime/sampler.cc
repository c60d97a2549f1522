#include "runtime/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "runtime/philox.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// exp((logit - top) / temperature): 1 for the likeliest.
class Weight {
 public:
  Weight(const float* logits, float top, float temperature)
      : logits_(logits), top_(top), inverse_(1.0 / temperature) {}
  double Log(int64_t id) const { return (logits_[id] - top_) * inverse_; }
  double operator()(int64_t id) const { return std::exp(Log(id)); }

 private:
  const float* const logits_;
  const double top_, inverse_;
};

// Ids by some order, the first ones first, as far as they are asked for. A heap
// rather than a sort: a nucleus is a few tokens of a large vocabulary.
template <typename Later>
class FirstOf {
 public:
  FirstOf(absl::Span<int32_t> ids, const Later& later)
      : ids_(ids), later_(later) {
    std::make_heap(ids_.begin(), ids_.end(), later_);
  }
  int32_t operator[](int64_t i) {
    while (popped_ <= i) {
      std::pop_heap(ids_.begin(), ids_.end() - popped_, later_);
      ++popped_;
    }
    return ids_[ids_.size() - 1 - i];
  }
  // The first `n` in no order.
  absl::Span<int32_t> Take(int64_t n) {
    (*this)[n - 1];
    return ids_.last(n);
  }

 private:
  absl::Span<int32_t> ids_;
  const Later later_;
  int64_t popped_ = 0;
};

// Of equal logits the lower id is the likelier.
auto LikeliestFirst(const float* logits) {
  return [logits](int32_t a, int32_t b) {
    return logits[a] < logits[b] || (logits[a] == logits[b] && a > b);
  };
}

// Locally typical sampling (Meister et al. 2022).
absl::Span<int32_t> KeepTypical(absl::Span<int32_t> ids, const Weight& weight,
                                float typical_p) {
  double total = 0, dot = 0;
  for (const int32_t id : ids) {
    const double w = weight(id);
    if (w <= 0) continue;
    total += w;
    dot += w * weight.Log(id);
  }
  // |-log p - entropy|, both plus the logarithm of the total.
  const double mean = dot / total;
  const auto distance = [&](int32_t id) {
    return std::abs(weight.Log(id) - mean);
  };
  FirstOf list(ids, [&](int32_t a, int32_t b) {
    const double da = distance(a), db = distance(b);
    return da > db || (da == db && a > b);
  });
  const auto count = static_cast<int64_t>(ids.size());
  const double wanted = typical_p * total;
  double mass = 0;
  int64_t n = 0;
  while (n < count && mass < wanted) mass += weight(list[n++]);
  const double last = distance(list[n - 1]);
  while (n < count && distance(list[n]) <= last) ++n;
  return list.Take(n);
}

int32_t DrawUncut(const Weight& weight, int64_t vocab, int32_t best,
                  double uniform) {
  double total = 0;
  for (int64_t id = 0; id < vocab; ++id) total += weight(id);
  const double target = uniform * total;
  double sum = 0;
  int32_t last = best;
  for (int64_t id = 0; id < vocab; ++id) {
    const double w = weight(id);
    if (w <= 0) continue;
    sum += w;
    last = static_cast<int32_t>(id);
    if (sum > target) break;
  }
  return last;
}

}  // namespace

absl::Status CheckSampling(const SamplingParams& p) {
  const auto bad = [](auto... text) {
    return absl::InvalidArgumentError(absl::StrCat(text...));
  };
  if (!p.greedy && (!(p.temperature > 0) || !std::isfinite(p.temperature))) {
    return bad("temperature is ", p.temperature,
               "; it must be above 0 (greedy needs none)");
  }
  if (p.top_k < 0) {
    return bad("top-k is ", p.top_k, "; it must be 0 (off) or above");
  }
  if (!(p.top_p > 0) || p.top_p > 1) {
    return bad("top-p is ", p.top_p,
               "; it must be above 0 and at most 1 (off)");
  }
  if (!(p.min_p >= 0) || p.min_p > 1) {
    return bad("min-p is ", p.min_p, "; it must be 0 (off) to 1");
  }
  if (!(p.typical_p > 0) || p.typical_p > 1) {
    return bad("typical-p is ", p.typical_p,
               "; it must be above 0 and at most 1 (off)");
  }
  return absl::OkStatus();
}

bool FitsRecord(const SamplingParams& params) {
  return params.greedy || params.typical_p >= 1.0f;
}

SamplerRecord RecordOf(const SamplingParams& params, int64_t position) {
  SamplerRecord record = {};
  record.temperature = params.greedy ? 0.0f : params.temperature;
  record.top_k = params.top_k;
  record.top_p = params.top_p;
  record.min_p = params.min_p;
  record.seed = params.seed;
  record.position = static_cast<uint64_t>(position);
  return record;
}

SamplingParams ParamsOf(const SamplerRecord& record) {
  return {.greedy = record.temperature == 0.0f,
          .temperature = record.temperature,
          .top_k = record.top_k,
          .top_p = record.top_p,
          .min_p = record.min_p,
          .seed = record.seed};
}

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

absl::StatusOr<int32_t> SampleToken(const float* logits, int64_t vocab,
                                    const SamplingParams& params,
                                    int64_t position,
                                    std::vector<int32_t>* scratch) {
  return DrawToken(logits, vocab, params,
                   PhiloxUniform(params.seed, static_cast<uint64_t>(position)),
                   scratch);
}

absl::StatusOr<int32_t> DrawToken(const float* logits, int64_t vocab,
                                  const SamplingParams& params, double uniform,
                                  std::vector<int32_t>* scratch) {
  DS_ASSIGN_OR_RETURN(const int32_t best, LargestLogit(logits, vocab));
  if (params.greedy) return best;

  const Weight weight(logits, logits[best], params.temperature);
  const bool cut_k = params.top_k > 0 && params.top_k < vocab;
  const bool typical = params.typical_p < 1.0f;
  if (!cut_k && !typical && params.top_p >= 1.0f && params.min_p <= 0.0f) {
    return DrawUncut(weight, vocab, best, uniform);
  }

  scratch->resize(vocab);
  std::iota(scratch->begin(), scratch->end(), 0);
  absl::Span<int32_t> ids = absl::MakeSpan(*scratch);
  if (cut_k) ids = FirstOf(ids, LikeliestFirst(logits)).Take(params.top_k);
  if (typical) ids = KeepTypical(ids, weight, params.typical_p);
  const auto count = static_cast<int64_t>(ids.size());
  FirstOf list(ids, LikeliestFirst(logits));
  double total = 0;
  if (cut_k || typical) {
    for (int64_t i = 0; i < count; ++i) total += weight(list[i]);
  } else {
    for (int64_t id = 0; id < vocab; ++id) total += weight(id);
  }
  // Both cuts leave the likeliest: the shorter list counts.
  const double wanted = params.top_p * total;
  int64_t size = 0;
  double mass = 0;
  while (size < count) {
    const double w = weight(list[size]);
    if (size > 0 && w < params.min_p) break;
    mass += w;
    ++size;
    if (params.top_p < 1.0f && mass >= wanted) break;
  }
  const double target = uniform * mass;
  double sum = 0;
  for (int64_t i = 0; i < size; ++i) {
    sum += weight(list[i]);
    if (sum > target) return list[i];
  }
  return list[0];
}

}  // namespace deepslice
