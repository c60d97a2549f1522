// What a generation is asked for, and what comes out of it.
#ifndef DEEPSLICE_RUNTIME_REQUEST_H_
#define DEEPSLICE_RUNTIME_REQUEST_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "runtime/beam_search.h"
#include "runtime/logit_edits.h"
#include "runtime/sampler.h"
#include "runtime/token_logprobs.h"

namespace deepslice {

enum class FinishReason { kStop, kLength, kCancelled, kError };

// One token of an answer, as it comes.
struct NewToken {
  int answer;  // 0 .. n - 1
  int32_t id;
  bool is_stop;                   // one of the stop ids: no part of the answer
  const TokenLogprobs* logprobs;  // nullptr where none were asked for
};
enum class Verdict { kGoOn, kStop, kCancel };

// How a token is chosen: logits -> edits -> stop ids while fewer than
// min_new_tokens are there -> sampling. Beam search edits log-probabilities
// instead, as transformers does, and has no sampling.
struct Request {
  std::vector<int32_t> prompt;  // not empty
  // What an encoder reads beside a decoder, whose first tokens `prompt` is
  // then. Empty for such a plan: the prompt is the encoder's, and the decoder
  // begins with the plan's start token.
  std::vector<int32_t> source;
  int64_t max_new_tokens = 0;   // > 0
  // Stop ids can't be chosen before so many tokens are there.
  int64_t min_new_tokens = 0;
  std::vector<int32_t> stop_ids;  // end-of-sequence ids
  SamplingParams sampling;
  LogitEdits edits;
  // Answers. They share the prompt's part of the cache; each has random numbers
  // of its own, the first those that it has alone. With beams the n best.
  int n = 1;
  BeamParams beams;
  int logprobs = -1;  // of each token, and of so many likeliest; -1: none

  // Called for each new token, stop ids included; false cancels. With n above
  // 1, for those of all answers. Not called by beam search.
  std::function<bool(int32_t id)> on_token;
  // The same, knowing more; asked in place of on_token where it is set. A token
  // with which it says kStop is part of the answer.
  std::function<Verdict(const NewToken&)> watch;
};

struct Completion {
  std::vector<int32_t> ids;  // new tokens, without the stop id that ended it
  FinishReason finish = FinishReason::kLength;
  std::vector<TokenLogprobs> logprobs;  // one for each of ids, where asked for
  double score = 0;                     // of beam search
  absl::Status error;                   // of kError
};

// What requests are checked against.
struct RequestLimits {
  int64_t vocab = 0;
  int64_t max_seq_len = 0;
  int64_t max_batch = 0;
  int64_t block_tokens = 0;
  int64_t num_blocks = 0;
  int64_t max_source_tokens = 0;  // 0: there is no encoder
};

// InvalidArgument, with the numbers, for what can't run.
absl::Status CheckRequest(const Request& request, const RequestLimits& limits);
absl::Status CheckIds(absl::Span<const int32_t> ids, int64_t vocab,
                      absl::string_view what);
// Whether `tokens` of a sequence can be in the cache.
absl::Status CheckFitsCache(int64_t tokens, const RequestLimits& limits);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_REQUEST_H_
