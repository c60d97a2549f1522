// Generation from a text or from ids.
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
    return RunLimits{.max_batch = 1};
  }

  absl::Status Run(Session& session) override {
    std::vector<int32_t> prompt = options_.prompt_ids;
    if (prompt.empty()) {
      DS_ASSIGN_OR_RETURN(prompt, EncodeText(session));
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
