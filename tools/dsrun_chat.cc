// --chat: one turn, or a conversation in the terminal.
#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/text/chat_encode.h"
#include "runtime/text/chat_template.h"
#include "schema/base/status_macros.h"
#include "tools/dsrun_answer.h"
#include "tools/dsrun_work.h"

namespace deepslice {
namespace {

// The text of a special token, "" where the model has none.
std::string TokenText(const Tokenizer& tokenizer, int32_t id) {
  return id < 0 ? "" : tokenizer.IdToToken(id);
}

enum class LineResult { kLine, kEnd, kInterrupted };

// Lines of stdin, waited for together with SIGINT.
class LineReader {
 public:
  // A line without its end; kEnd at the end of stdin, kInterrupted by SIGINT.
  LineResult Read(std::string* line) {
    while (true) {
      const size_t end = pending_.find('\n');
      if (end != std::string::npos || (at_end_ && !pending_.empty())) {
        *line = pending_.substr(0, end);
        pending_.erase(0, end == std::string::npos ? end : end + 1);
        if (!line->empty() && line->back() == '\r') line->pop_back();
        return LineResult::kLine;
      }
      if (at_end_) return LineResult::kEnd;
      pollfd polled[] = {{STDIN_FILENO, POLLIN, 0}, {InterruptFd(), POLLIN, 0}};
      if (poll(polled, 2, -1) < 0 && errno != EINTR) return LineResult::kEnd;
      if (TakeInterrupt()) return LineResult::kInterrupted;
      if (polled[0].revents == 0) continue;
      char bytes[4096];
      const ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));
      if (n > 0) {
        pending_.append(bytes, n);
      } else if (n == 0 || errno != EINTR) {
        at_end_ = true;
      }
    }
  }

 private:
  std::string pending_;
  bool at_end_ = false;
};

double PerSecond(size_t tokens, absl::Duration time) {
  const double seconds = absl::ToDoubleSeconds(time);
  return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
}

class ChatWork final : public Work {
 public:
  explicit ChatWork(const DsrunOptions& o) : options_(o) {}

  absl::StatusOr<RunLimits> Limits(const Plan& plan) override {
    // One answer, in beams where the plan says so.
    return RunLimits{.max_batch =
                         FullChoice({}, options_, plan).beams.value_or(1)};
  }
  absl::Status Run(Session& session) override;

 private:
  // Answers the conversation so far and adds the answer to it.
  absl::Status Turn(Session& session, bool tell_rates);
  absl::Status Converse(Session& session);
  void Reset();

  const DsrunOptions options_;
  std::unique_ptr<ChatTemplate> template_;
  RenderOptions render_;
  std::vector<ChatMessage> messages_;
};

void ChatWork::Reset() {
  messages_.clear();
  if (options_.system.has_value()) {
    messages_.push_back({"system", *options_.system});
  }
}

absl::Status ChatWork::Run(Session& session) {
  const fb::Plan& plan = session.plan().fb();
  if (plan.chat_template() == nullptr || plan.chat_template()->size() == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(session.folder(),
                     ": the plan holds no chat template, its checkpoint "
                     "had none; use -p without --chat"));
  }
  DS_ASSIGN_OR_RETURN(const Tokenizer* tokenizer, session.tokenizer());
  auto parsed = ChatTemplate::Parse(absl::string_view(
      plan.chat_template()->data(), plan.chat_template()->size()));
  DS_RETURN_IF_ERROR(
      Annotate(parsed.status(), session.folder(), ": chat template"));
  template_ = *std::move(parsed);
  if (plan.template_tokens() != nullptr) {
    for (const fb::NamedText* t : *plan.template_tokens()) {
      render_.tokens.emplace_back(t->name()->str(), t->text()->str());
    }
  } else {
    render_.tokens = {
        {"bos_token", TokenText(*tokenizer, tokenizer->bos_id())},
        {"eos_token", TokenText(*tokenizer, tokenizer->eos_id())}};
  }
  Reset();
  if (!options_.prompt.has_value()) return Converse(session);
  messages_.push_back({"user", *options_.prompt});
  return Turn(session, /*tell_rates=*/false);
}

absl::Status ChatWork::Turn(Session& session, bool tell_rates) {
  DS_ASSIGN_OR_RETURN(const Tokenizer* tokenizer, session.tokenizer());
  auto pieces = template_->Render(messages_, render_);
  DS_RETURN_IF_ERROR(
      Annotate(pieces.status(), session.folder(), ": chat template"));
  DS_ASSIGN_OR_RETURN(const std::vector<int32_t> prompt,
                      EncodeChat(*tokenizer, *pieces));
  DS_ASSIGN_OR_RETURN(Answer answer, AnswerPrompt(session, prompt, options_));
  DS_RETURN_IF_ERROR(EndLine(answer.text));
  if (tell_rates) {
    // The first token is the prompt's; the rest are the answer's.
    absl::FPrintF(
        stderr, "[prompt %d tokens, %.1f/s; answer %d tokens, %.1f/s%s]\n",
        prompt.size(), PerSecond(prompt.size(), answer.first),
        answer.ids.size(),
        PerSecond(answer.ids.size() - !answer.ids.empty(), answer.rest),
        answer.finish == FinishReason::kCancelled ? "; stopped"
        : answer.finish == FinishReason::kLength  ? "; cut at the "
                                                    "most allowed"
                                                  : "");
  }
  messages_.push_back({"assistant", std::move(answer.text)});
  return absl::OkStatus();
}

absl::Status ChatWork::Converse(Session& session) {
  const bool terminal = isatty(STDIN_FILENO) != 0;
  if (terminal) {
    absl::FPrintF(stderr,
                  "/reset forgets the conversation, Ctrl-C stops an answer, "
                  "Ctrl-D or /exit ends\n");
  }
  DS_RETURN_IF_ERROR(HandleInterrupts());
  LineReader reader;
  while (true) {
    if (terminal) absl::FPrintF(stderr, "> ");
    std::string line;
    const LineResult result = reader.Read(&line);
    if (result != LineResult::kLine) {
      if (terminal) absl::FPrintF(stderr, "\n");
      return result == LineResult::kEnd ? absl::OkStatus()
                                        : absl::CancelledError("interrupted");
    }
    const absl::string_view text = absl::StripAsciiWhitespace(line);
    if (text.empty()) continue;
    if (text == "/exit" || text == "/quit") return absl::OkStatus();
    if (text == "/reset") {
      Reset();
      continue;
    }
    TakeInterrupt();  // one that came while nothing ran
    messages_.push_back({"user", line});
    const absl::Status status = Turn(session, /*tell_rates=*/true);
    if (absl::IsFailedPrecondition(status) && terminal) {
      // Too long, or the template refuses: the next line may be better.
      messages_.pop_back();
      absl::FPrintF(stderr, "dsrun: %s; /reset starts anew\n",
                    std::string(status.message()));
      continue;
    }
    DS_RETURN_IF_ERROR(status);
  }
}

}  // namespace

std::unique_ptr<Work> NewChatWork(const DsrunOptions& options) {
  return std::make_unique<ChatWork>(options);
}

}  // namespace deepslice
