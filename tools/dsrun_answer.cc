#include "tools/dsrun_answer.h"

#include <deque>
#include <utility>

#include "absl/strings/match.h"
#include "runtime/api/deepslice.h"
#include "runtime/api/generate_params.h"
#include "runtime/api/handle.h"
#include "schema/base/status_macros.h"
#include "tools/command_line.h"
#include "tools/dsrun_work.h"

namespace deepslice {
namespace {

// What the callback of a generation sees.
struct Watcher {
  AnswerForm form;
  absl::Status status;  // of printing
};

int OnEvent(void* user, const ds_event* event) {
  Watcher& w = *static_cast<Watcher*>(user);
  if (w.form == AnswerForm::kStream && w.status.ok() && event->text_size > 0) {
    w.status = Print({event->text, event->text_size});
  }
  if (!w.status.ok()) return 1;
  return event->finish == DS_GOES_ON && TakeInterrupt();
}

FinishReason FinishOf(ds_finish finish) {
  switch (finish) {
    case DS_STOP:
      return FinishReason::kStop;
    case DS_LENGTH:
      return FinishReason::kLength;
    case DS_STOPPED:
      return FinishReason::kCancelled;
    default:
      return FinishReason::kError;
  }
}

TokenLogprobs LogprobsOf(const ds_logprobs& from) {
  TokenLogprobs out = {{from.chosen.id, from.chosen.logprob}, {}};
  for (size_t i = 0; i < from.num_top; ++i) {
    out.top.push_back({from.top[i].id, from.top[i].logprob});
  }
  return out;
}

Answer AnswerOf(const ds_answer& from, const GenerationChoice& choice) {
  Answer a;
  a.ids.assign(from.ids, from.ids + from.num_ids);
  if (from.text != nullptr) a.text.assign(from.text, from.text_size);
  a.finish = FinishOf(from.finish);
  if (from.stop_index >= 0) a.stop_string = (*choice.stop)[from.stop_index];
  if (from.stop_id >= 0) a.stop_id = from.stop_id;
  if (from.logprobs != nullptr) {
    for (size_t i = 0; i < from.num_ids; ++i) {
      a.logprobs.push_back(LogprobsOf(from.logprobs[i]));
    }
  }
  a.score = from.score;
  a.error = absl::Status(static_cast<absl::StatusCode>(from.error),
                         from.error_message);
  a.first = absl::Seconds(from.first_token_seconds);
  a.rest = absl::Seconds(from.other_tokens_seconds);
  return a;
}

}  // namespace

GenerationChoice FullChoice(const GenerationChoice& request,
                            const DsrunOptions& options, const Plan& plan) {
  GenerationChoice full = request;
  full.FillFrom(options.generation);
  if (!options.ignore_generation_config) {
    full.FillFrom(ChoiceOf(plan.fb().generation()));
  }
  return full;
}

absl::StatusOr<std::vector<std::vector<Answer>>> AnswerPrompts(
    Session& session, const std::vector<PreparedPrompt>& prompts,
    const DsrunOptions& options, AnswerForm form) {
  // A plan without one is told so, where text is wanted.
  if (form != AnswerForm::kIds) {
    DS_RETURN_IF_ERROR(session.tokenizer().status());
  }
  std::vector<GenerationChoice> choices;
  for (const PreparedPrompt& p : prompts) {
    GenerationChoice& typed = choices.emplace_back(p.choice);
    typed.FillFrom(options.generation);
    if (form == AnswerForm::kStream) typed.n = 1;
  }
  std::deque<GenerateParams> params;
  std::vector<ds_request> requests;
  for (size_t i = 0; i < prompts.size(); ++i) {
    ds_generate_params& p = params.emplace_back(choices[i]).params();
    p.ignore_plan_defaults = options.ignore_generation_config;
    p.want_text = form != AnswerForm::kIds;
    requests.push_back(
        {{nullptr, 0}, prompts[i].ids.data(), prompts[i].ids.size(), &p});
  }
  const Handle<ds_model> model = ModelOver(&session);
  Watcher watcher = {form, absl::OkStatus()};
  ds_generation* made = nullptr;
  const ds_status status = ds_generate(
      model.get(), requests.data(), requests.size(), OnEvent, &watcher, &made);
  const Handle<ds_generation> generation(made);
  DS_RETURN_IF_ERROR(StatusOf(status));
  DS_RETURN_IF_ERROR(watcher.status);
  std::vector<std::vector<Answer>> answers(prompts.size());
  for (size_t i = 0; i < prompts.size(); ++i) {
    while (const ds_answer* a =
               ds_get_answer(generation.get(), i, answers[i].size())) {
      answers[i].push_back(AnswerOf(*a, choices[i]));
    }
  }
  return answers;
}

absl::StatusOr<Answer> AnswerPrompt(Session& session,
                                    const std::vector<int32_t>& prompt,
                                    const DsrunOptions& options) {
  DS_ASSIGN_OR_RETURN(
      auto answers,
      AnswerPrompts(session, {{prompt, {}}}, options, AnswerForm::kStream));
  Answer& answer = answers[0][0];
  DS_RETURN_IF_ERROR(answer.error);
  return std::move(answer);
}

absl::Status EndLine(absl::string_view text) {
  return absl::EndsWith(text, "\n") ? absl::OkStatus() : Print("\n");
}

}  // namespace deepslice
