#include "runtime/api/answer_gatherer.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "schema/base/status_macros.h"

namespace deepslice {

AnswerGatherer::AnswerGatherer(size_t question, const Request& request,
                               const OnAnswerEvent* on_event)
    : question_(question),
      beams_(request.beams.width > 1),
      min_tokens_(request.min_new_tokens),
      max_tokens_(request.max_new_tokens),
      on_event_(*on_event),
      start_(absl::Now()),
      answers_(request.n),
      states_(request.n) {
  for (State& s : states_) s.first = s.last = start_;
}

absl::StatusOr<std::unique_ptr<AnswerGatherer>> AnswerGatherer::Make(
    size_t question, const Request& request, const GenerationChoice& full,
    const Tokenizer* tokenizer, const OnAnswerEvent* on_event) {
  std::unique_ptr<AnswerGatherer> out(
      new AnswerGatherer(question, request, on_event));
  out->stops_ = full.stop.value_or(std::vector<std::string>());
  if (tokenizer == nullptr) return out;
  for (State& s : out->states_) {
    DS_ASSIGN_OR_RETURN(
        s.text, AnswerText::Make(tokenizer, request.prompt, out->stops_));
  }
  return out;
}

bool AnswerGatherer::Tell(AnswerEvent event, const std::string& piece) {
  event.question = question_;
  event.text = piece;
  answers_[event.answer].text += piece;
  if (event.is_last) states_[event.answer].told_last = true;
  return on_event_ == nullptr || on_event_(event);
}

absl::StatusOr<bool> AnswerGatherer::AddText(int answer, int32_t id,
                                             int64_t count,
                                             std::string* piece) {
  State& s = states_[answer];
  if (s.text == nullptr) return false;
  DS_ASSIGN_OR_RETURN(s.stopped_by_text,
                      s.text->Add(id, count > min_tokens_, piece));
  return s.stopped_by_text;
}

absl::Status AnswerGatherer::EndText(int answer, std::string* piece) {
  State& s = states_[answer];
  if (s.text == nullptr) return absl::OkStatus();
  DS_RETURN_IF_ERROR(s.text->Finish(piece));
  s.stopped_by_text = s.text->stopped_by() != nullptr;
  return absl::OkStatus();
}

absl::StatusOr<Verdict> AnswerGatherer::Take(const NewToken& token) {
  State& s = states_[token.answer];
  s.last = absl::Now();
  if (s.tokens++ == 0) s.first = s.last;
  AnswerEvent event;
  event.answer = token.answer;
  event.id = token.id;
  event.is_stop = token.is_stop;
  event.logprobs = token.logprobs;
  std::string piece;
  bool stop = token.is_stop;
  if (token.is_stop) {
    answers_[token.answer].stop_id = token.id;
  } else {
    DS_ASSIGN_OR_RETURN(stop,
                        AddText(token.answer, token.id, s.tokens, &piece));
  }
  if (stop || s.tokens >= max_tokens_) {
    DS_RETURN_IF_ERROR(EndText(token.answer, &piece));
    event.is_last = true;
    event.finish =
        stop || s.stopped_by_text ? FinishReason::kStop : FinishReason::kLength;
  }
  const bool go_on = Tell(event, piece);
  if (event.is_last) return stop ? Verdict::kStop : Verdict::kGoOn;
  if (go_on) return Verdict::kGoOn;
  DS_RETURN_IF_ERROR(TellEnd(token.answer, FinishReason::kCancelled, ""));
  return Verdict::kCancel;
}

absl::Status AnswerGatherer::TellEnd(int answer, FinishReason finish,
                                     std::string piece) {
  DS_RETURN_IF_ERROR(EndText(answer, &piece));
  AnswerEvent event;
  event.answer = answer;
  event.is_last = true;
  event.finish = finish;
  Tell(event, piece);
  return absl::OkStatus();
}

Verdict AnswerGatherer::See(const NewToken& token) {
  if (!status_.ok()) return Verdict::kCancel;
  const absl::StatusOr<Verdict> verdict = Take(token);
  status_ = verdict.status();
  return verdict.ok() ? *verdict : Verdict::kCancel;
}

absl::StatusOr<std::vector<AnswerRecord>> AnswerGatherer::Finish(
    std::vector<Completion> done) {
  DS_RETURN_IF_ERROR(status_);
  for (size_t i = 0; i < done.size(); ++i) {
    const auto answer = static_cast<int>(i);
    AnswerRecord& a = answers_[i];
    State& s = states_[i];
    Completion& c = done[i];
    a.finish = c.finish;
    std::string piece;
    if (beams_) {
      for (const int32_t id : c.ids) {
        DS_RETURN_IF_ERROR(AddText(answer, id, 1, &piece).status());
      }
    }
    if (!s.told_last) {
      DS_RETURN_IF_ERROR(TellEnd(answer, a.finish, std::move(piece)));
    }
    if (s.stopped_by_text) {
      const auto at =
          std::find(stops_.begin(), stops_.end(), *s.text->stopped_by());
      a.stop_index = static_cast<int>(at - stops_.begin());
      a.finish = FinishReason::kStop;
    }
    a.has_text = s.text != nullptr;
    a.ids = std::move(c.ids);
    a.logprobs = std::move(c.logprobs);
    a.score = c.score;
    a.error = c.error;
    a.first = s.first - start_;
    a.rest = s.last - s.first;
  }
  return std::move(answers_);
}

}  // namespace deepslice
