// Gathers the answers to one question while their tokens come.
#ifndef DEEPSLICE_RUNTIME_API_ANSWER_GATHERER_H_
#define DEEPSLICE_RUNTIME_API_ANSWER_GATHERER_H_

#include <memory>
#include <string>
#include <vector>

#include "runtime/answer_text.h"
#include "runtime/api/answers.h"

namespace deepslice {

class AnswerGatherer {
 public:
  // `request` is made of `full`, all sources' word on the question. No
  // tokenizer: no text. What the pointers name must outlive it.
  static absl::StatusOr<std::unique_ptr<AnswerGatherer>> Make(
      size_t question, const Request& request, const GenerationChoice& full,
      const Tokenizer* tokenizer, const OnAnswerEvent* on_event);

  Verdict See(const NewToken& token);
  // The end: the engine's answers, in order.
  absl::StatusOr<std::vector<AnswerRecord>> Finish(
      std::vector<Completion> done);

 private:
  struct State {
    std::unique_ptr<AnswerText> text;  // nullptr: none wanted
    int64_t tokens = 0;
    bool stopped_by_text = false, told_last = false;
    absl::Time first, last;  // tokens
  };

  AnswerGatherer(size_t question, const Request& request,
                 const OnAnswerEvent* on_event);
  // Adds `id` to the text and what is decided to *piece; whether a stop text
  // was found.
  absl::StatusOr<bool> AddText(int answer, int32_t id, int64_t count,
                               std::string* piece);
  absl::Status EndText(int answer, std::string* piece);
  absl::StatusOr<Verdict> Take(const NewToken& token);
  // The last event of one that ends between tokens; `piece` is not told yet.
  absl::Status TellEnd(int answer, FinishReason finish, std::string piece);
  bool Tell(AnswerEvent event, const std::string& piece);

  const size_t question_;
  const bool beams_;
  const int64_t min_tokens_, max_tokens_;
  const OnAnswerEvent& on_event_;
  const absl::Time start_;
  std::vector<std::string> stops_;
  std::vector<AnswerRecord> answers_;
  std::vector<State> states_;
  absl::Status status_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_API_ANSWER_GATHERER_H_
