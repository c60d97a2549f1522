// Generation from a text or from ids.
#include <algorithm>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/base/status_macros.h"
#include "tools/command_line.h"
#include "tools/dsrun_answer.h"
#include "tools/dsrun_work.h"

namespace deepslice {
namespace {

class GenerateWork final : public Work {
 public:
  explicit GenerateWork(const DsrunOptions& o) : options_(o) {}

  absl::StatusOr<RunLimits> Limits(const Plan& plan) override {
    const auto prompts = static_cast<int64_t>(options_.prompt_ids.size());
    return RunLimits{.max_batch = std::max<int64_t>(1, prompts)};
  }

  absl::Status Run(Session& session) override {
    if (options_.prompt_ids.size() > 1) {
      DS_ASSIGN_OR_RETURN(
          const std::vector<Completion> done,
          AnswerPrompts(session, options_.prompt_ids, options_));
      std::string lines;
      for (const Completion& c : done) {
        absl::StrAppend(&lines, absl::StrJoin(c.ids, ","), "\n");
      }
      return Print(lines);
    }
    std::vector<int32_t> prompt;
    if (options_.prompt_ids.empty()) {
      DS_ASSIGN_OR_RETURN(prompt, EncodeText(session));
    } else {
      prompt = options_.prompt_ids[0];
    }
    DS_ASSIGN_OR_RETURN(const Answer answer,
                        AnswerPrompt(session, prompt, options_));
    if (options_.print_ids) {
      return Print(absl::StrCat(absl::StrJoin(answer.ids, ","), "\n"));
    }
    return EndLine(answer.text);
  }

 private:
  absl::StatusOr<std::vector<int32_t>> EncodeText(Session& session) {
    std::string text = options_.prompt.value_or("-");
    if (text == "-") {
      text.assign(std::istreambuf_iterator<char>(std::cin), {});
    }
    DS_ASSIGN_OR_RETURN(const Tokenizer* tokenizer, session.tokenizer());
    DS_ASSIGN_OR_RETURN(std::vector<int32_t> ids, tokenizer->Encode(text));
    if (ids.empty()) {
      return absl::InvalidArgumentError(
          "the prompt is empty, and this tokenizer adds no token to it; give "
          "-p TEXT, --prompt-ids, or text on stdin");
    }
    return ids;
  }

  const DsrunOptions options_;
};

}  // namespace

std::unique_ptr<Work> NewGenerateWork(const DsrunOptions& options) {
  return std::make_unique<GenerateWork>(options);
}

}  // namespace deepslice
