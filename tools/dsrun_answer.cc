#include "tools/dsrun_answer.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "schema/base/status_macros.h"
#include "tools/command_line.h"
#include "tools/dsrun_work.h"

namespace deepslice {
namespace {

constexpr int64_t kDefaultNewTokens = 128;
// Tokens before the answer that its text may depend on: whether a leading space
// is dropped, and the bytes of a split code point.
constexpr size_t kContextTokens = 8;

absl::StatusOr<int64_t> NewTokens(const Session& session, int64_t prompt,
                                  const DsrunOptions& options) {
  const int64_t room = session.max_seq_len() - prompt;
  const int64_t wanted = options.max_new_tokens.value_or(
      std::max<int64_t>(1, std::min(kDefaultNewTokens, room)));
  if (wanted > room) {
    return absl::FailedPreconditionError(absl::StrCat(
        session.folder(), ": a prompt of ", prompt, " tokens and ", wanted,
        " new ones exceed the sequence ceiling of ", session.max_seq_len(),
        options.limits.max_seq_len > 0
            ? "; raise --max-seq-len"
            : "; shorten one of them, or compile with a higher --max-seq-len"));
  }
  return wanted;
}

absl::StatusOr<Request> MakeRequest(Session& session,
                                    const std::vector<int32_t>& prompt,
                                    const DsrunOptions& options) {
  Request request;
  request.prompt = prompt;
  DS_ASSIGN_OR_RETURN(
      request.max_new_tokens,
      NewTokens(session, static_cast<int64_t>(prompt.size()), options));
  request.sampling =
      ResolveSampling(options.sampling, session.plan().fb().generation());
  if (!options.ignore_eos) request.stop_ids = StopIds(session.plan());
  return request;
}

// Prints tokens as text.
class TextStream {
 public:
  static absl::StatusOr<std::unique_ptr<TextStream>> Open(
      const Tokenizer* tokenizer, const std::vector<int32_t>& prompt) {
    std::unique_ptr<TextStream> out(new TextStream(tokenizer));
    const size_t begin =
        prompt.size() - std::min(prompt.size(), kContextTokens);
    for (size_t i = begin; i < prompt.size(); ++i) {
      DS_RETURN_IF_ERROR(out->Decode(prompt[i]).status());
    }
    return out;
  }
  absl::Status Add(int32_t id) {
    DS_ASSIGN_OR_RETURN(const std::string piece, Decode(id));
    return Put(piece);
  }
  absl::Status Finish() {
    DS_ASSIGN_OR_RETURN(const std::string piece, decoder_.Finish());
    return Put(piece);
  }
  std::string TakeText() { return std::move(text_); }

 private:
  explicit TextStream(const Tokenizer* tokenizer)
      : tokenizer_(tokenizer), decoder_(*tokenizer, /*skip_special=*/true) {}
  absl::StatusOr<std::string> Decode(int32_t id) {
    // Padded rows of a vocabulary have ids, but no text.
    if (id >= tokenizer_->vocab_size()) return std::string();
    return decoder_.Add(id);
  }
  absl::Status Put(const std::string& piece) {
    text_ += piece;
    return piece.empty() ? absl::OkStatus() : Print(piece);
  }

  const Tokenizer* tokenizer_;
  StreamDecoder decoder_;
  std::string text_;
};

}  // namespace

SamplingParams ResolveSampling(const SamplingFlags& flags,
                               const fb::GenerationDefaults* defaults) {
  SamplingParams params;
  params.seed = flags.seed.value_or(0);
  bool sampled = false;
  if (defaults != nullptr) {
    sampled = defaults->do_sample();
    params.temperature = defaults->temperature();
    params.top_k = defaults->top_k();
    params.top_p = defaults->top_p();
  }
  if (flags.temperature.has_value() || flags.top_k.has_value() ||
      flags.top_p.has_value()) {
    sampled = true;
  }
  params.temperature = flags.temperature.value_or(params.temperature);
  params.top_k = flags.top_k.value_or(params.top_k);
  params.top_p = flags.top_p.value_or(params.top_p);
  params.greedy = flags.greedy || !sampled || params.temperature == 0;
  return params;
}

std::vector<int32_t> StopIds(const Plan& plan) {
  std::vector<int32_t> ids;
  const fb::GenerationDefaults* g = plan.fb().generation();
  if (g == nullptr || g->eos_ids() == nullptr) return ids;
  for (const int32_t id : *g->eos_ids()) {
    if (id >= 0 && id < plan.fb().vocab_size()) ids.push_back(id);
  }
  return ids;
}

absl::StatusOr<Answer> AnswerPrompt(Session& session,
                                    const std::vector<int32_t>& prompt,
                                    const DsrunOptions& options) {
  DS_ASSIGN_OR_RETURN(Request request, MakeRequest(session, prompt, options));
  std::unique_ptr<TextStream> stream;  // where text is wanted
  if (!options.print_ids) {
    DS_ASSIGN_OR_RETURN(const Tokenizer* tokenizer, session.tokenizer());
    DS_ASSIGN_OR_RETURN(stream, TextStream::Open(tokenizer, prompt));
  }
  Answer answer;
  absl::Status printed;
  const absl::Time start = absl::Now();
  absl::Time first, last;
  request.on_token = [&, stops = request.stop_ids](int32_t id) {
    last = absl::Now();
    if (first == absl::Time()) first = last;
    if (std::find(stops.begin(), stops.end(), id) != stops.end()) return true;
    if (stream != nullptr) printed = stream->Add(id);
    return printed.ok() && !TakeInterrupt();
  };
  std::vector<Request> requests;
  requests.push_back(std::move(request));
  DS_ASSIGN_OR_RETURN(std::vector<Completion> done,
                      session.engine().Generate(std::move(requests)));
  DS_RETURN_IF_ERROR(printed);
  DS_RETURN_IF_ERROR(done[0].error);
  if (stream != nullptr) {
    DS_RETURN_IF_ERROR(stream->Finish());
    answer.text = stream->TakeText();
  }
  answer.ids = std::move(done[0].ids);
  answer.finish = done[0].finish;
  answer.first = first - start;
  answer.rest = last - first;
  return answer;
}

absl::StatusOr<std::vector<Completion>> AnswerPrompts(
    Session& session, const std::vector<std::vector<int32_t>>& prompts,
    const DsrunOptions& options) {
  std::vector<Request> requests;
  for (size_t i = 0; i < prompts.size(); ++i) {
    auto request = MakeRequest(session, prompts[i], options);
    if (!request.ok()) return Annotate(request.status(), "prompt ", i);
    requests.push_back(*std::move(request));
  }
  DS_ASSIGN_OR_RETURN(std::vector<Completion> done,
                      session.engine().Generate(std::move(requests)));
  for (size_t i = 0; i < done.size(); ++i) {
    DS_RETURN_IF_ERROR(Annotate(done[i].error, "prompt ", i));
  }
  return done;
}

absl::Status EndLine(absl::string_view text) {
  return absl::EndsWith(text, "\n") ? absl::OkStatus() : Print("\n");
}

}  // namespace deepslice
