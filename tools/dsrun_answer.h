// Answers to prompts, as text that is printed while it comes or whole: what
// generating and chatting share.
#ifndef DEEPSLICE_TOOLS_DSRUN_ANSWER_H_
#define DEEPSLICE_TOOLS_DSRUN_ANSWER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "runtime/api/session.h"
#include "runtime/engine.h"
#include "runtime/generation_choice.h"
#include "tools/dsrun_options.h"

namespace deepslice {

struct Answer {
  // Tokens without the stop id; with those of a stop string.
  std::vector<int32_t> ids;
  std::string text;  // where it was asked for; valid UTF-8, no stop string
  FinishReason finish = FinishReason::kLength;
  std::optional<std::string> stop_string;  // that ended it
  std::optional<int32_t> stop_id;
  std::vector<TokenLogprobs> logprobs;  // of each of ids, where asked for
  double score = 0;                     // of beam search
  absl::Status error;                   // of kError
  absl::Duration first;  // until the first token: reading the prompt
  absl::Duration rest;   // from there to the last
};

// What is asked of an answer, the request's own word first, then the command
// line's, then, unless it is to be ignored, the plan's.
GenerationChoice FullChoice(const GenerationChoice& request,
                            const DsrunOptions& options, const Plan& plan);

struct PreparedPrompt {
  std::vector<int32_t> ids;
  GenerationChoice choice;  // the request's own word
};

enum class AnswerForm {
  kIds,     // no text: the plan may hold no tokenizer
  kText,    // text, whole
  kStream,  // printed token by token; of one prompt and one answer
};

// Answers all prompts as one continuous batch; n answers of each, in order.
// FailedPrecondition, with the numbers, for a prompt and answer beyond the
// sequence ceiling and for more beams than run together. What befalls one
// answer alone (NaN logits) is in its `error`. SIGINT ends answers (kCancelled)
// where HandleInterrupts was called.
absl::StatusOr<std::vector<std::vector<Answer>>> AnswerPrompts(
    Session& session, const std::vector<PreparedPrompt>& prompts,
    const DsrunOptions& options, AnswerForm form);

// One answer to one prompt, streamed; its error is the call's.
absl::StatusOr<Answer> AnswerPrompt(Session& session,
                                    const std::vector<int32_t>& prompt,
                                    const DsrunOptions& options);

// Ends the line that an answer's text left open on stdout.
absl::Status EndLine(absl::string_view text);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_DSRUN_ANSWER_H_
