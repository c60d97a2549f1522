#include "tools/dsrun_answer.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "runtime/answer_text.h"
#include "schema/base/status_macros.h"
#include "tools/command_line.h"
#include "tools/dsrun_work.h"

namespace deepslice {
namespace {

constexpr int64_t kDefaultNewTokens = 128;

// How many new tokens: what the user asked for must fit, a default of the
// plan's or ours is cut to what fits.
absl::Status SetLengths(const Session& session, const GenerationChoice& typed,
                        const GenerationChoice& full,
                        const DsrunOptions& options, Request* request) {
  const auto prompt = static_cast<int64_t>(request->prompt.size());
  const int64_t room = session.max_seq_len() - prompt;
  const int64_t least = request->min_new_tokens;
  int64_t wanted;
  if (typed.max_new_tokens.has_value()) {
    wanted = *typed.max_new_tokens;
  } else {
    wanted = std::max(full.max_new_tokens.value_or(kDefaultNewTokens),
                      typed.min_new_tokens.value_or(0));
    if (wanted > room) {
      wanted = std::max<int64_t>({1, room, typed.min_new_tokens.value_or(0)});
    }
  }
  if (wanted > room) {
    return absl::FailedPreconditionError(absl::StrCat(
        session.folder(), ": a prompt of ", prompt, " tokens and ", wanted,
        " new ones exceed the sequence ceiling of ", session.max_seq_len(),
        options.limits.max_seq_len > 0
            ? "; raise --max-seq-len"
            : "; shorten one of them, or compile with a higher --max-seq-len"));
  }
  request->max_new_tokens = wanted;
  if (!typed.min_new_tokens.has_value()) {
    request->min_new_tokens = std::min(least, wanted);
  }
  return absl::OkStatus();
}

absl::StatusOr<Request> MakeRequest(Session& session,
                                    const PreparedPrompt& prompt,
                                    const GenerationChoice& full,
                                    const DsrunOptions& options) {
  DS_ASSIGN_OR_RETURN(Request request, RequestOf(session.plan().fb(), full));
  request.prompt = prompt.ids;
  GenerationChoice typed = prompt.choice;
  typed.FillFrom(options.generation);
  DS_RETURN_IF_ERROR(SetLengths(session, typed, full, options, &request));
  if (request.beams.width == 1 &&
      (typed.length_penalty.has_value() || typed.early_stopping.has_value())) {
    return absl::InvalidArgumentError(
        "a length penalty and early stopping are of beam search; ask for "
        "beams (--beams), or leave them out");
  }
  const int64_t together = session.executor().limits().max_batch;
  if (request.beams.width > together) {
    return absl::FailedPreconditionError(absl::StrCat(
        session.folder(), ": ", request.beams.width,
        " beams need as many sequences at once; ", together,
        " run together; lower --beams, or raise --max-batch, of the plan if "
        "need be"));
  }
  return request;
}

// Gathers the answers of one prompt while their tokens come.
class Gatherer {
 public:
  static absl::StatusOr<std::unique_ptr<Gatherer>> Make(
      Session& session, const Request& request, const GenerationChoice& choice,
      AnswerForm form) {
    std::unique_ptr<Gatherer> out(new Gatherer(request, form));
    if (form == AnswerForm::kIds && !choice.stop.has_value()) return out;
    DS_ASSIGN_OR_RETURN(const Tokenizer* tokenizer, session.tokenizer());
    for (int i = 0; i < request.n; ++i) {
      auto text =
          AnswerText::Make(tokenizer, request.prompt,
                           choice.stop.value_or(std::vector<std::string>()));
      DS_RETURN_IF_ERROR(text.status());
      out->texts_.push_back(*std::move(text));
    }
    return out;
  }

  Verdict See(const NewToken& token) {
    last_ = absl::Now();
    if (first_ == absl::Time()) first_ = last_;
    Answer& a = answers_[token.answer];
    if (token.is_stop) {
      a.stop_id = token.id;
      return Verdict::kGoOn;
    }
    const bool stop = AddText(token.answer, token.id, ++counts_[token.answer]);
    if (!status_.ok()) return Verdict::kCancel;
    if (stop) return Verdict::kStop;
    return TakeInterrupt() ? Verdict::kCancel : Verdict::kGoOn;
  }

  absl::Status Finish(std::vector<Completion> done) {
    DS_RETURN_IF_ERROR(status_);
    for (size_t i = 0; i < done.size(); ++i) {
      Answer& a = answers_[i];
      Completion& c = done[i];
      if (beams_ && !texts_.empty()) {
        for (const int32_t id : c.ids) AddText(static_cast<int>(i), id, 1);
      }
      a.ids = std::move(c.ids);
      a.finish = c.finish;
      a.logprobs = std::move(c.logprobs);
      a.score = c.score;
      a.error = c.error;
      a.first = first_ - start_;
      a.rest = last_ - first_;
      if (texts_.empty()) continue;
      std::string piece;
      DS_RETURN_IF_ERROR(texts_[i]->Finish(&piece));
      DS_RETURN_IF_ERROR(Give(&a, piece));
      if (texts_[i]->stopped_by() != nullptr) {
        a.stop_string = *texts_[i]->stopped_by();
        a.finish = FinishReason::kStop;
      }
      if (form_ == AnswerForm::kIds) a.text.clear();
    }
    return status_;
  }

  std::vector<Answer> TakeAnswers() { return std::move(answers_); }

 private:
  Gatherer(const Request& request, AnswerForm form)
      : form_(form),
        beams_(request.beams.width > 1),
        min_tokens_(request.min_new_tokens),
        start_(absl::Now()),
        first_(),
        last_(start_),
        answers_(request.n),
        counts_(request.n, 0) {}

  // Whether a stop string was found.
  bool AddText(int answer, int32_t id, int64_t count) {
    if (texts_.empty() || !status_.ok()) return false;
    std::string piece;
    const auto stop = texts_[answer]->Add(id, count > min_tokens_, &piece);
    status_ = stop.ok() ? Give(&answers_[answer], piece) : stop.status();
    return stop.ok() && *stop;
  }
  absl::Status Give(Answer* answer, const std::string& piece) {
    answer->text += piece;
    if (form_ != AnswerForm::kStream || piece.empty()) return absl::OkStatus();
    return Print(piece);
  }

  const AnswerForm form_;
  const bool beams_;
  const int64_t min_tokens_;
  const absl::Time start_;
  absl::Time first_, last_;
  std::vector<Answer> answers_;
  std::vector<int64_t> counts_;
  std::vector<std::unique_ptr<AnswerText>> texts_;  // empty: none wanted
  absl::Status status_;
};

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
  std::vector<Request> requests;
  std::vector<std::unique_ptr<Gatherer>> gatherers;
  const auto prepare = [&](const PreparedPrompt& p) -> absl::Status {
    GenerationChoice full = FullChoice(p.choice, options, session.plan());
    if (form == AnswerForm::kStream) full.n = 1;
    DS_ASSIGN_OR_RETURN(Request request,
                        MakeRequest(session, p, full, options));
    DS_ASSIGN_OR_RETURN(auto gatherer,
                        Gatherer::Make(session, request, full, form));
    gatherers.push_back(std::move(gatherer));
    request.watch = [g = gatherers.back().get()](const NewToken& token) {
      return g->See(token);
    };
    requests.push_back(std::move(request));
    return absl::OkStatus();
  };
  for (size_t i = 0; i < prompts.size(); ++i) {
    const absl::Status status = prepare(prompts[i]);
    if (status.ok()) continue;
    // One prompt needs no number.
    return prompts.size() == 1 ? status : Annotate(status, "prompt ", i);
  }
  std::vector<int> counts;
  for (const Request& r : requests) counts.push_back(r.n);
  DS_ASSIGN_OR_RETURN(std::vector<Completion> done,
                      session.engine().Generate(std::move(requests)));
  std::vector<std::vector<Answer>> answers;
  auto next = done.begin();
  for (size_t i = 0; i < prompts.size(); ++i) {
    const auto end = next + counts[i];
    DS_RETURN_IF_ERROR(gatherers[i]->Finish(
        {std::make_move_iterator(next), std::make_move_iterator(end)}));
    next = end;
    answers.push_back(gatherers[i]->TakeAnswers());
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
