// dsrun --json: answers as one JSON document.
#ifndef DEEPSLICE_TOOLS_ANSWER_JSON_H_
#define DEEPSLICE_TOOLS_ANSWER_JSON_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "runtime/text/tokenizer.h"
#include "schema/base/json.h"
#include "tools/dsrun_answer.h"

namespace deepslice {

// Grows when a field changes its meaning or goes; new fields leave it alone.
inline constexpr int kAnswerSchemaVersion = 1;

struct PromptAnswers {
  int64_t line = 0;  // of the prompts' file; 0: of none
  int64_t prompt_tokens = 0;
  bool beams = false;
  std::vector<Answer> answers;
};

// {"schema_version", "plan_set_id",
//  "results": [{"index", "line", "prompt_tokens", "answers": [{"index", "text",
//     "ids", "finish_reason", "stop_reason", "score", "logprobs", "error"}]}],
//  "usage": {"prompt_tokens", "completion_tokens", "total_tokens"},
//  "timings": {"first_token_seconds", "total_seconds", "tokens_per_second"}}
//   text           null where the plan holds no tokenizer
//   finish_reason  stop, length, cancelled or error
//   stop_reason    the stop string or id that ended it, else null
//   score          with beams only
//   logprobs       where asked for, of each of ids: [{"id", "token" as in the
//                  vocabulary, "text" by itself, "logprob", "top_logprobs":
//                  [the same four]}]; -9999 is minus infinity, which JSON lacks
//   error          with finish_reason error only
json::Value AnswersJson(const std::vector<PromptAnswers>& prompts,
                        const std::string& plan_set_id,
                        const Tokenizer* tokenizer, absl::Duration total);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_ANSWER_JSON_H_
