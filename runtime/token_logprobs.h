// Log-probabilities of a row of logits, as the model gave it: before penalties,
// biases, temperature and cuts.
#ifndef DEEPSLICE_RUNTIME_TOKEN_LOGPROBS_H_
#define DEEPSLICE_RUNTIME_TOKEN_LOGPROBS_H_

#include <cstdint>
#include <vector>

namespace deepslice {

struct TokenLogprob {
  int32_t id = 0;
  float logprob = 0;  // natural; -infinity where the logit is
};

// Of one place of an answer.
struct TokenLogprobs {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;  // the likeliest; of equal ones the lower id
};

// logprobs[i] = logits[i] - log(sum of exp(logits)), summed in double. The
// largest logit is finite, none is NaN.
void LogSoftmax(const float* logits, int64_t vocab, float* logprobs);

// `top` likeliest at most.
TokenLogprobs LogprobsOf(const float* logits, int64_t vocab, int32_t chosen,
                         int top);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TOKEN_LOGPROBS_H_
