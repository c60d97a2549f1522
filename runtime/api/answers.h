// Answers to prompts as text that is told while it comes: what stands between
// tokens of the engine and what a person reads.
#ifndef DEEPSLICE_RUNTIME_API_ANSWERS_H_
#define DEEPSLICE_RUNTIME_API_ANSWERS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/api/session.h"
#include "runtime/generation_choice.h"
#include "runtime/request.h"
#include "runtime/text/tokenizer.h"

namespace deepslice {

inline constexpr int64_t kDefaultNewTokens = 128;

// What is asked for.
struct Question {
  std::vector<int32_t> ids;
  GenerationChoice choice;  // the asker's own word
  bool use_plan_defaults = true;
  bool want_text = true;  // no effect without a tokenizer
};

struct AnswerRecord {
  // Tokens without the stop id; with those of a stop text.
  std::vector<int32_t> ids;
  bool has_text = false;
  std::string text;  // valid UTF-8, no stop text
  FinishReason finish = FinishReason::kLength;
  int stop_index = -1;  // of the question's stop texts, which ended it
  int32_t stop_id = -1;
  std::vector<TokenLogprobs> logprobs;  // of each of ids, where asked for
  double score = 0;                     // of beam search
  absl::Status error;                   // of kError
  absl::Duration first;  // until the first token: reading the prompt
  absl::Duration rest;   // from there to the last
};

// News of an answer.
struct AnswerEvent {
  size_t question = 0;
  int answer = 0;
  int32_t id = -1;  // the new token; -1: none
  bool is_stop = false;
  absl::string_view text;  // what is decided of it since the last event
  const TokenLogprobs* logprobs = nullptr;
  bool is_last = false;  // of this answer, which ended by `finish`
  FinishReason finish = FinishReason::kLength;
};
// False: stop this answer.
using OnAnswerEvent = std::function<bool(const AnswerEvent&)>;

// Answers all as one continuous batch; n answers of each, in order. The
// tokenizer is the session's, or nullptr where its plan holds none. Errors are
// Engine::Generate's, and, before anything runs: FailedPrecondition, with the
// numbers, for a prompt and answer beyond the sequence ceiling, more beams than
// run together, and stop texts without a tokenizer; "prompt 2: ..." with
// several. What befalls one answer alone is in its `error`.
absl::StatusOr<std::vector<std::vector<AnswerRecord>>> AnswerAll(
    Session& session, const Tokenizer* tokenizer,
    const std::vector<Question>& questions, const OnAnswerEvent& on_event);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_API_ANSWERS_H_
