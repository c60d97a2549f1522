// How one token is drawn from a row of logits.
#ifndef DEEPSLICE_RUNTIME_SAMPLER_H_
#define DEEPSLICE_RUNTIME_SAMPLER_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "schema/plan_format.h"

namespace deepslice {

// The distribution that a token is drawn from: softmax(logits / temperature),
// cut by top_k, typical_p, top_p and min_p, in this order, each applied to what
// the one before left, renormalised. A cut always leaves a token.
struct SamplingParams {
  bool greedy = true;        // the likeliest token; nothing below counts
  float temperature = 1.0f;  // > 0
  int32_t top_k = 0;         // the K likeliest; 0: off
  float top_p = 1.0f;        // the fewest likeliest with a share of P; (0, 1]
  float min_p = 0.0f;        // p >= min_p * the largest p; [0, 1]
  // The fewest with a share of P whose -log p is nearest to the entropy, and
  // those as near as the last of them; (0, 1], 1: off.
  float typical_p = 1.0f;
  uint64_t seed = 0;  // random numbers are Philox(seed, position)
};

// InvalidArgument, with the value, for one that is out of range.
absl::Status CheckSampling(const SamplingParams& params);

// Whether a SamplerRecord says all of it: a device's sampler knows the rest.
bool FitsRecord(const SamplingParams& params);
// The record that draws the token at `position` by `params`, and back.
SamplerRecord RecordOf(const SamplingParams& params, int64_t position);
SamplingParams ParamsOf(const SamplerRecord& record);

// The lowest id of the largest logit. NaN logits, and a largest one that is
// infinite (no distribution follows from it), are an Internal error.
absl::StatusOr<int32_t> LargestLogit(const float* logits, int64_t vocab);

// One id of logits[0, vocab): greedy takes LargestLogit; else `uniform`, in
// [0, 1), picks the first id, in order of the ids without a cut and the
// likeliest first with one, at which the running sum of probabilities exceeds
// it. Errors are LargestLogit's.
absl::StatusOr<int32_t> DrawToken(const float* logits, int64_t vocab,
                                  const SamplingParams& params, double uniform,
                                  std::vector<int32_t>* scratch);
// The same with the number that Philox gives for seed and position.
absl::StatusOr<int32_t> SampleToken(const float* logits, int64_t vocab,
                                    const SamplingParams& params,
                                    int64_t position,
                                    std::vector<int32_t>* scratch);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_SAMPLER_H_
