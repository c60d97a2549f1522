#include "runtime/api/answers.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/api/answer_gatherer.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// How many new tokens: what was asked for must fit, a default of the plan's or
// ours is cut to what fits.
absl::Status SetLengths(const Session& session, const GenerationChoice& asked,
                        const GenerationChoice& full, Request* request) {
  const auto prompt = static_cast<int64_t>(request->prompt.size());
  const int64_t room = session.max_seq_len() - prompt;
  const int64_t least = request->min_new_tokens;
  int64_t wanted;
  if (asked.max_new_tokens.has_value()) {
    wanted = *asked.max_new_tokens;
  } else {
    wanted = std::max(full.max_new_tokens.value_or(kDefaultNewTokens),
                      asked.min_new_tokens.value_or(0));
    if (wanted > room) {
      wanted = std::max<int64_t>({1, room, asked.min_new_tokens.value_or(0)});
    }
  }
  if (wanted > room) {
    return absl::FailedPreconditionError(absl::StrCat(
        session.folder(), ": a prompt of ", prompt, " tokens and ", wanted,
        " new ones exceed the sequence ceiling of ", session.max_seq_len(),
        session.options().limits.max_seq_len > 0
            ? "; raise --max-seq-len"
            : "; shorten one of them, or compile with a higher --max-seq-len"));
  }
  request->max_new_tokens = wanted;
  if (!asked.min_new_tokens.has_value()) {
    request->min_new_tokens = std::min(least, wanted);
  }
  return absl::OkStatus();
}

absl::StatusOr<Request> MakeRequest(const Session& session,
                                    const Question& question,
                                    const GenerationChoice& full) {
  DS_ASSIGN_OR_RETURN(Request request, RequestOf(session.plan().fb(), full));
  request.prompt = question.ids;
  // What an encoder reads is no part of the answer's sequence.
  if (session.executor().decoder_start() >= 0) {
    request.source = std::move(request.prompt);
    request.prompt = {session.executor().decoder_start()};
  }
  const GenerationChoice& asked = question.choice;
  DS_RETURN_IF_ERROR(SetLengths(session, asked, full, &request));
  if (request.beams.width == 1 &&
      (asked.length_penalty.has_value() || asked.early_stopping.has_value())) {
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

}  // namespace

absl::StatusOr<std::vector<std::vector<AnswerRecord>>> AnswerAll(
    Session& session, const Tokenizer* tokenizer,
    const std::vector<Question>& questions, const OnAnswerEvent& on_event) {
  std::vector<Request> requests;
  std::vector<std::unique_ptr<AnswerGatherer>> gatherers;
  const auto prepare = [&](size_t i) -> absl::Status {
    const Question& q = questions[i];
    GenerationChoice full = q.choice;
    if (q.use_plan_defaults) {
      full.FillFrom(ChoiceOf(session.plan().fb().generation()));
    }
    DS_ASSIGN_OR_RETURN(Request request, MakeRequest(session, q, full));
    const bool has_stops = full.stop.has_value() && !full.stop->empty();
    if (has_stops && tokenizer == nullptr) {
      return absl::FailedPreconditionError(
          absl::StrCat(session.folder(),
                       ": the plan holds no tokenizer, and stop texts need "
                       "one; give stop ids"));
    }
    DS_ASSIGN_OR_RETURN(
        auto gatherer,
        AnswerGatherer::Make(i, request, full,
                             q.want_text || has_stops ? tokenizer : nullptr,
                             &on_event));
    gatherers.push_back(std::move(gatherer));
    request.watch = [g = gatherers.back().get()](const NewToken& token) {
      return g->See(token);
    };
    requests.push_back(std::move(request));
    return absl::OkStatus();
  };
  for (size_t i = 0; i < questions.size(); ++i) {
    const absl::Status status = prepare(i);
    if (status.ok()) continue;
    // One prompt needs no number.
    return questions.size() == 1 ? status : Annotate(status, "prompt ", i);
  }
  std::vector<int> counts;
  for (const Request& r : requests) counts.push_back(r.n);
  DS_ASSIGN_OR_RETURN(std::vector<Completion> done,
                      session.engine().Generate(std::move(requests)));
  std::vector<std::vector<AnswerRecord>> answers;
  auto next = done.begin();
  for (size_t i = 0; i < questions.size(); ++i) {
    const auto end = next + counts[i];
    DS_ASSIGN_OR_RETURN(answers.emplace_back(),
                        gatherers[i]->Finish({std::make_move_iterator(next),
                                              std::make_move_iterator(end)}));
    next = end;
    if (questions[i].want_text) continue;
    // Stop texts may have needed one.
    for (AnswerRecord& a : answers.back()) {
      a.has_text = false;
      a.text.clear();
    }
  }
  return answers;
}

}  // namespace deepslice
