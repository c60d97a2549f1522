// Generation through the C interface.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "runtime/api/answers.h"
#include "runtime/api/api_call.h"
#include "runtime/api/generate_params.h"
#include "runtime/api/model.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

ds_finish FinishOf(FinishReason finish) {
  switch (finish) {
    case FinishReason::kStop:
      return DS_STOP;
    case FinishReason::kLength:
      return DS_LENGTH;
    case FinishReason::kCancelled:
      return DS_STOPPED;
    case FinishReason::kError:
      return DS_FAILED;
  }
  return DS_FAILED;
}

// TokenLogprobs as the interface shows them.
class LogprobsView {
 public:
  explicit LogprobsView(const TokenLogprobs& from) {
    for (const TokenLogprob& t : from.top) top_.push_back({t.id, t.logprob});
    view_ = {{from.chosen.id, from.chosen.logprob}, top_.data(), top_.size()};
  }
  const ds_logprobs& view() const { return view_; }

 private:
  std::vector<ds_token_logprob> top_;
  ds_logprobs view_;
};

// An answer, and what ds_get_answer shows of it.
class KeptAnswer {
 public:
  KeptAnswer(AnswerRecord answer, size_t prompt_tokens)
      : answer_(std::move(answer)) {
    for (const TokenLogprobs& t : answer_.logprobs) {
      tops_.emplace_back(t);
      logprobs_.push_back(tops_.back().view());
    }
    // Vectors that were moved with their owners keep their places.
    view_.logprobs = logprobs_.empty() ? nullptr : logprobs_.data();
    view_.ids = answer_.ids.data();
    view_.num_ids = answer_.ids.size();
    view_.finish = FinishOf(answer_.finish);
    view_.stop_id = answer_.stop_id;
    view_.stop_index = answer_.stop_index;
    view_.score = answer_.score;
    view_.error = CodeOf(answer_.error);
    error_ = std::string(answer_.error.message());
    view_.prompt_tokens = prompt_tokens;
    view_.first_token_seconds = absl::ToDoubleSeconds(answer_.first);
    view_.other_tokens_seconds = absl::ToDoubleSeconds(answer_.rest);
    if (answer_.has_text) {
      view_.text = answer_.text.c_str();
      view_.text_size = answer_.text.size();
    }
    view_.error_message = error_.c_str();
  }
  KeptAnswer(const KeptAnswer&) = delete;
  KeptAnswer& operator=(const KeptAnswer&) = delete;
  const ds_answer& view() const { return view_; }

 private:
  const AnswerRecord answer_;
  std::string error_;
  std::vector<LogprobsView> tops_;
  std::vector<ds_logprobs> logprobs_;
  ds_answer view_ = {};
};

absl::Status ReadRequest(ds_model* model, const ds_request& r,
                         Question* question) {
  DS_RETURN_IF_ERROR(ReadGenerateParams(r.params, question));
  if (r.ids != nullptr) {
    question->ids.assign(r.ids, r.ids + r.num_ids);
    return absl::OkStatus();
  }
  if (r.num_ids > 0) return NullArgument("ds_generate", "ids");
  if (r.prompt.data == nullptr) {
    return absl::InvalidArgumentError("no prompt; give its text, or its ids");
  }
  DS_ASSIGN_OR_RETURN(const absl::string_view text,
                      TextOf(r.prompt, "the prompt"));
  DS_ASSIGN_OR_RETURN(const ds_tokenizer* tokenizer, TokenizerOf(*model));
  DS_ASSIGN_OR_RETURN(question->ids, tokenizer->tokenizer->Encode(text));
  if (!question->ids.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "the prompt is empty, and this tokenizer adds no token to it; give text "
      "or ids");
}

OnAnswerEvent Teller(ds_event_callback callback, void* user) {
  if (callback == nullptr) return nullptr;
  return [callback, user](const AnswerEvent& e) {
    ds_event event = {};
    event.request = e.question;
    event.answer = e.answer;
    event.id = e.id;
    event.is_stop = e.is_stop;
    const std::string text(e.text);  // with a NUL at its end
    event.text = text.c_str();
    event.text_size = text.size();
    std::unique_ptr<LogprobsView> logprobs;
    if (e.logprobs != nullptr) {
      logprobs = std::make_unique<LogprobsView>(*e.logprobs);
      event.logprobs = &logprobs->view();
    }
    if (e.is_last) event.finish = FinishOf(e.finish);
    return callback(user, &event) == 0;
  };
}

}  // namespace
}  // namespace deepslice

using namespace deepslice;  // NOLINT: the interface's functions have no other

struct ds_generation {
  std::vector<std::vector<std::unique_ptr<deepslice::KeptAnswer>>> answers;
};

void ds_init_generate_params(ds_generate_params* params, size_t size) noexcept {
  if (params != nullptr) WriteStruct(DefaultGenerateParams(), params, size);
}

ds_status ds_generate(ds_model* model, const ds_request* requests,
                      size_t num_requests, ds_event_callback callback,
                      void* user, ds_generation** generation) noexcept {
  if (generation != nullptr) *generation = nullptr;
  return RunCall("ds_generate", model, [&](Session& session) -> absl::Status {
    if (requests == nullptr && num_requests > 0) {
      return NullArgument("ds_generate", "requests");
    }
    std::vector<Question> questions(num_requests);
    for (size_t i = 0; i < num_requests; ++i) {
      const absl::Status read = ReadRequest(model, requests[i], &questions[i]);
      if (read.ok()) continue;
      return num_requests == 1 ? read : Annotate(read, "prompt ", i);
    }
    const Tokenizer* tokenizer = nullptr;
    const bool text_wanted =
        std::any_of(questions.begin(), questions.end(), [](const Question& q) {
          return q.want_text || q.choice.stop.has_value();
        });
    if (text_wanted && session.has_tokenizer()) {
      DS_ASSIGN_OR_RETURN(const ds_tokenizer* own, TokenizerOf(*model));
      tokenizer = own->tokenizer;
    }
    model->sequences.reset();  // their cache is used
    DS_ASSIGN_OR_RETURN(auto answers, AnswerAll(session, tokenizer, questions,
                                                Teller(callback, user)));
    if (generation == nullptr) return absl::OkStatus();
    auto kept = std::make_unique<ds_generation>();
    for (size_t i = 0; i < num_requests; ++i) {
      auto& list = kept->answers.emplace_back();
      for (AnswerRecord& a : answers[i]) {
        list.push_back(std::make_unique<KeptAnswer>(std::move(a),
                                                    questions[i].ids.size()));
      }
    }
    *generation = kept.release();
    return absl::OkStatus();
  });
}

const ds_answer* ds_get_answer(const ds_generation* generation, size_t request,
                               size_t answer) noexcept {
  if (generation == nullptr || request >= generation->answers.size() ||
      answer >= generation->answers[request].size()) {
    return nullptr;
  }
  return &generation->answers[request][answer]->view();
}

void ds_free_generation(ds_generation* generation) noexcept {
  delete generation;
}
