// One prompt's answer, printed as it comes: what generating and chatting share.
#ifndef DEEPSLICE_TOOLS_DSRUN_ANSWER_H_
#define DEEPSLICE_TOOLS_DSRUN_ANSWER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "runtime/engine.h"
#include "schema/plan_generated.h"
#include "tools/dsrun_options.h"
#include "tools/dsrun_session.h"

namespace deepslice {

struct Answer {
  std::vector<int32_t> ids;
  std::string text;  // when it was printed
  FinishReason finish = FinishReason::kLength;
  absl::Duration first;  // until the first token: reading the prompt
  absl::Duration rest;   // from there to the last
};

// Flags over the plan's generation defaults over greedy:
//   --greedy, --temperature 0          greedy
//   --temperature, --top-k or --top-p  sampled; what is not given is the plan's
//   none of them                       as the plan says (do_sample), which for
//   a
//                                      plan without defaults is greedy
// --seed chooses random numbers and not whether there are any.
SamplingParams ResolveSampling(const SamplingFlags& flags,
                               const fb::GenerationDefaults* defaults);

// End-of-sequence ids of the plan that are in the vocabulary.
std::vector<int32_t> StopIds(const Plan& plan);

// Answers `prompt`. Unless options.print_ids, the text goes to stdout token by
// token, always valid UTF-8. FailedPrecondition, with both numbers, when prompt
// and answer exceed the sequence ceiling. SIGINT ends the answer (kCancelled)
// where HandleInterrupts was called.
absl::StatusOr<Answer> AnswerPrompt(Session& session,
                                    const std::vector<int32_t>& prompt,
                                    const DsrunOptions& options);

// New ids of each prompt, run as one batch; errors as AnswerPrompt's.
absl::StatusOr<std::vector<Completion>> AnswerPrompts(
    Session& session, const std::vector<std::vector<int32_t>>& prompts,
    const DsrunOptions& options);

// Ends the line that an answer's text left open on stdout.
absl::Status EndLine(absl::string_view text);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_DSRUN_ANSWER_H_
