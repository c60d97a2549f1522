// How one token is drawn from a row of logits.
#ifndef DEEPSLICE_RUNTIME_SAMPLER_H_
#define DEEPSLICE_RUNTIME_SAMPLER_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "schema/plan_format.h"

namespace deepslice {

struct SamplingParams {
  bool greedy = true;
  float temperature = 1.0f;  // > 0
  int32_t top_k = 0;         // 0: off
  float top_p = 1.0f;        // (0, 1]
  uint64_t seed = 0;         // random numbers are Philox(seed, position)
};

// The record that draws the token at `position` by `params`, and back.
SamplerRecord RecordOf(const SamplingParams& params, int64_t position);
SamplingParams ParamsOf(const SamplerRecord& record);

// Samples one id from logits[0, vocab): greedy takes the lowest id of the
// largest value; else softmax at the temperature, cut by top_k, then top_p, and
// one Philox(seed, position) number. NaN logits, and a largest one that is
// infinite, are an Internal error.
absl::StatusOr<int32_t> SampleToken(const float* logits, int64_t vocab,
                                    const SamplingParams& params,
                                    int64_t position,
                                    std::vector<int32_t>* scratch);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_SAMPLER_H_
