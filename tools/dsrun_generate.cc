// Generation from texts or ids: one prompt as it comes, several as one batch.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "schema/base/status_macros.h"
#include "tools/answer_json.h"
#include "tools/command_line.h"
#include "tools/dsrun_answer.h"
#include "tools/dsrun_work.h"
#include "tools/prompt_file.h"

namespace deepslice {
namespace {

class GenerateWork final : public Work {
 public:
  explicit GenerateWork(const DsrunOptions& o) : options_(o) {}

  absl::StatusOr<RunLimits> Limits(const Plan& plan) override;
  absl::Status Run(Session& session) override;

 private:
  absl::Status ReadJobs();
  absl::StatusOr<std::vector<PreparedPrompt>> Prepare(Session& session) const;
  // All of it, from the answers.
  absl::Status PrintAnswers(Session& session,
                            std::vector<PromptAnswers> prompts,
                            absl::Duration total) const;

  const DsrunOptions options_;
  std::vector<PromptJob> jobs_;
};

absl::Status GenerateWork::ReadJobs() {
  if (options_.prompts.has_value()) {
    DS_ASSIGN_OR_RETURN(jobs_, ReadPromptFile(*options_.prompts));
    return absl::OkStatus();
  }
  for (const std::vector<int32_t>& ids : options_.prompt_ids) {
    jobs_.emplace_back().ids = ids;
  }
  if (!jobs_.empty()) return absl::OkStatus();
  std::string& text = jobs_.emplace_back().text;
  if (options_.prompt_file.has_value()) {
    DS_ASSIGN_OR_RETURN(text, ReadText(*options_.prompt_file));
  } else if (options_.prompt.value_or("-") == "-") {
    DS_ASSIGN_OR_RETURN(text, ReadText("-"));
  } else {
    text = *options_.prompt;
  }
  return absl::OkStatus();
}

absl::StatusOr<RunLimits> GenerateWork::Limits(const Plan& plan) {
  DS_RETURN_IF_ERROR(ReadJobs());
  int64_t sequences = 0;
  for (const PromptJob& job : jobs_) {
    sequences += WidthOf(FullChoice(job.choice, options_, plan));
  }
  return RunLimits{.max_batch = sequences};
}

absl::StatusOr<std::vector<PreparedPrompt>> GenerateWork::Prepare(
    Session& session) const {
  std::vector<PreparedPrompt> prompts;
  for (size_t i = 0; i < jobs_.size(); ++i) {
    const PromptJob& job = jobs_[i];
    PreparedPrompt& p = prompts.emplace_back();
    p.choice = job.choice;
    if (job.ids.has_value()) {
      p.ids = *job.ids;
      continue;
    }
    DS_ASSIGN_OR_RETURN(const Tokenizer* tokenizer, session.tokenizer());
    DS_ASSIGN_OR_RETURN(p.ids, tokenizer->Encode(job.text));
    if (!p.ids.empty()) continue;
    const absl::Status empty = absl::InvalidArgumentError(
        "the prompt is empty, and this tokenizer adds no token to it; give "
        "-p TEXT, --prompt-ids, or text on stdin");
    return jobs_.size() == 1 ? empty : Annotate(empty, "prompt ", i);
  }
  return prompts;
}

absl::Status GenerateWork::PrintAnswers(Session& session,
                                        std::vector<PromptAnswers> prompts,
                                        absl::Duration total) const {
  if (options_.json) {
    const Tokenizer* tokenizer = nullptr;
    if (!options_.print_ids && session.has_tokenizer()) {
      DS_ASSIGN_OR_RETURN(tokenizer, session.tokenizer());
    }
    const json::Value all = AnswersJson(
        prompts, session.plan().fb().plan_set_id()->str(), tokenizer, total);
    return Print(absl::StrCat(json::Write(all, 1), "\n"));
  }
  const bool one = prompts.size() == 1 && prompts[0].answers.size() == 1;
  for (size_t i = 0; i < prompts.size(); ++i) {
    for (size_t j = 0; j < prompts[i].answers.size(); ++j) {
      const Answer& a = prompts[i].answers[j];
      if (options_.print_ids) {
        DS_RETURN_IF_ERROR(
            Print(absl::StrCat(absl::StrJoin(a.ids, ","), "\n")));
        continue;
      }
      if (!one) {
        DS_RETURN_IF_ERROR(Print(absl::StrCat(
            "==> prompt ", i,
            prompts[i].answers.size() > 1 ? absl::StrCat(", answer ", j) : "",
            " <==\n")));
      }
      DS_RETURN_IF_ERROR(Print(a.text));
      DS_RETURN_IF_ERROR(EndLine(a.text));
    }
  }
  return absl::OkStatus();
}

absl::Status GenerateWork::Run(Session& session) {
  if (options_.min_out_tokens > session.max_seq_len()) {
    return absl::FailedPreconditionError(absl::StrCat(
        session.folder(), ": a sequence holds ", session.max_seq_len(),
        " tokens at most, prompt and answer; --min-out-tokens asks for ",
        options_.min_out_tokens,
        options_.limits.max_seq_len > 0
            ? "; raise --max-out-tokens"
            : "; compile with a higher --max-seq-len"));
  }
  DS_ASSIGN_OR_RETURN(const std::vector<PreparedPrompt> prepared,
                      Prepare(session));
  const GenerationChoice first =
      FullChoice(prepared[0].choice, options_, session.plan());
  if (prepared.size() == 1 && first.n.value_or(1) == 1 && !options_.json &&
      !options_.print_ids) {
    DS_ASSIGN_OR_RETURN(
        const auto answers,
        AnswerPrompts(session, prepared, options_, AnswerForm::kStream));
    DS_RETURN_IF_ERROR(answers[0][0].error);
    return EndLine(answers[0][0].text);
  }
  const bool greedy =
      !first.sample.value_or(false) || first.temperature.value_or(1) == 0;
  if (greedy && first.n.value_or(1) > 1 && first.beams.value_or(1) == 1 &&
      !options_.verbosity.quiet) {
    std::fputs(
        "note: greedy answers are all the same; --temperature 0.8 makes them "
        "differ\n",
        stderr);
  }
  const bool text =
      !options_.print_ids && (!options_.json || session.has_tokenizer());
  const absl::Time start = absl::Now();
  DS_ASSIGN_OR_RETURN(
      std::vector<std::vector<Answer>> answers,
      AnswerPrompts(session, prepared, options_,
                    text ? AnswerForm::kText : AnswerForm::kIds));
  const absl::Duration total = absl::Now() - start;
  std::vector<PromptAnswers> prompts;
  absl::Status failed;
  for (size_t i = 0; i < answers.size(); ++i) {
    PromptAnswers& p = prompts.emplace_back();
    p.line = jobs_[i].line;
    p.prompt_tokens = static_cast<int64_t>(prepared[i].ids.size());
    p.beams = FullChoice(prepared[i].choice, options_, session.plan())
                  .beams.value_or(1) > 1;
    p.answers = std::move(answers[i]);
    for (const Answer& a : p.answers) {
      if (failed.ok() && !a.error.ok()) {
        failed =
            answers.size() == 1 ? a.error : Annotate(a.error, "prompt ", i);
      }
    }
  }
  // What did not fail is printed, whatever failed.
  DS_RETURN_IF_ERROR(PrintAnswers(session, std::move(prompts), total));
  return failed;
}

}  // namespace

std::unique_ptr<Work> NewGenerateWork(const DsrunOptions& options) {
  return std::make_unique<GenerateWork>(options);
}

}  // namespace deepslice
