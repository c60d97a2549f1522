#include "runtime/token_logprobs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace deepslice {
namespace {

double LogSumExp(const float* logits, int64_t vocab) {
  const double top = *std::max_element(logits, logits + vocab);
  double sum = 0;
  for (int64_t i = 0; i < vocab; ++i) sum += std::exp(logits[i] - top);
  return top + std::log(sum);
}

}  // namespace

void LogSoftmax(const float* logits, int64_t vocab, float* logprobs) {
  const double log_sum = LogSumExp(logits, vocab);
  for (int64_t i = 0; i < vocab; ++i) {
    logprobs[i] = static_cast<float>(logits[i] - log_sum);
  }
}

TokenLogprobs LogprobsOf(const float* logits, int64_t vocab, int32_t chosen,
                         int top) {
  const double log_sum = LogSumExp(logits, vocab);
  const auto of = [&](int32_t id) {
    return TokenLogprob{id, static_cast<float>(logits[id] - log_sum)};
  };
  TokenLogprobs out;
  out.chosen = of(chosen);
  std::vector<int32_t> ids(vocab);
  std::iota(ids.begin(), ids.end(), 0);
  const auto n = std::min<int64_t>(top, vocab);
  std::partial_sort(
      ids.begin(), ids.begin() + n, ids.end(), [logits](int32_t a, int32_t b) {
        return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
      });
  for (int64_t i = 0; i < n; ++i) out.top.push_back(of(ids[i]));
  return out;
}

}  // namespace deepslice
