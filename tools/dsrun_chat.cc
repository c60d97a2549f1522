// --chat: one turn, or a conversation in the terminal.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/text/chat_encode.h"
#include "schema/base/status_macros.h"
#include "tools/chat_lines.h"
#include "tools/chat_setup.h"
#include "tools/command_line.h"
#include "tools/dsrun_answer.h"
#include "tools/dsrun_work.h"

namespace deepslice {
namespace {

constexpr char kHelp[] =
    "  /help         this list\n"
    "  /reset        forget the conversation\n"
    "  /system TEXT  change the system message; without TEXT, drop it\n"
    "  /exit         leave, as does Ctrl-D\n"
    "A line that ends in \\ goes on in the next one. Ctrl-C stops an answer; "
    "at the\nprompt it leaves.\n";

// Tokens that an answer should have room for, where -n does not say.
constexpr int64_t kRoom = 128;

double PerSecond(size_t tokens, absl::Duration time) {
  const double seconds = absl::ToDoubleSeconds(time);
  return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
}

class ChatWork final : public Work {
 public:
  explicit ChatWork(const DsrunOptions& o) : options_(o), system_(o.system) {}

  absl::StatusOr<RunLimits> Limits(const Plan& plan) override {
    // One answer, in beams where the plan says so.
    return RunLimits{.max_batch =
                         FullChoice({}, options_, plan).beams.value_or(1)};
  }
  absl::Status Run(Session& session) override;

 private:
  enum class Next { kGoOn, kLeave };

  // Answers the conversation so far and adds the answer to it.
  absl::Status Turn(Session& session, bool tell_rates);
  // Its prompt. Leaves the oldest turns out of the conversation, and says so,
  // when they would leave the answer too little room.
  absl::StatusOr<std::vector<int32_t>> Prompt(Session& session);
  absl::StatusOr<std::vector<int32_t>> Encode(Session& session);
  bool DropOldestTurn();
  absl::Status Converse(Session& session);
  // What a line that starts with "/" asks for; false when it is a message.
  bool Command(absl::string_view line, Next* next);

  const DsrunOptions options_;
  std::optional<std::string> system_;
  ChatPrompt prompt_;
  std::vector<ChatMessage> messages_;  // without the system message
};

absl::Status ChatWork::Run(Session& session) {
  // The template first: a plan without one is told so whatever else it lacks.
  DS_ASSIGN_OR_RETURN(const ChatChoice choice,
                      ChatChoiceOf(session.plan(), options_));
  DS_ASSIGN_OR_RETURN(prompt_, MakeChatPrompt(session.plan(), session.folder(),
                                              nullptr, choice));
  DS_ASSIGN_OR_RETURN(const Tokenizer* tokenizer, session.tokenizer());
  DS_ASSIGN_OR_RETURN(prompt_, MakeChatPrompt(session.plan(), session.folder(),
                                              tokenizer, choice));
  if (!options_.prompt.has_value()) return Converse(session);
  messages_.push_back({"user", *options_.prompt});
  return Turn(session, /*tell_rates=*/false);
}

absl::StatusOr<std::vector<int32_t>> ChatWork::Encode(Session& session) {
  DS_ASSIGN_OR_RETURN(const Tokenizer* tokenizer, session.tokenizer());
  std::vector<ChatMessage> messages = messages_;
  if (system_.has_value()) {
    messages.insert(messages.begin(), ChatMessage{"system", *system_});
  }
  DS_ASSIGN_OR_RETURN(const auto pieces,
                      RenderChat(prompt_, MessagesAsJson(messages)));
  return EncodeChat(*tokenizer, pieces);
}

bool ChatWork::DropOldestTurn() {
  // The next turn starts with the user's next message.
  for (size_t i = 1; i < messages_.size(); ++i) {
    if (messages_[i].role != "user") continue;
    messages_.erase(messages_.begin(),
                    messages_.begin() + static_cast<ptrdiff_t>(i));
    return true;
  }
  return false;
}

absl::StatusOr<std::vector<int32_t>> ChatWork::Prompt(Session& session) {
  const int64_t ceiling = session.max_seq_len();
  const std::optional<int64_t>& typed = options_.generation.max_new_tokens;
  const int64_t room = typed.value_or(std::min(kRoom, ceiling / 4));
  const std::vector<ChatMessage> whole = messages_;
  DS_ASSIGN_OR_RETURN(std::vector<int32_t> prompt, Encode(session));
  const size_t before = prompt.size();
  int dropped = 0;
  while (static_cast<int64_t>(prompt.size()) + room > ceiling &&
         DropOldestTurn()) {
    ++dropped;
    DS_ASSIGN_OR_RETURN(prompt, Encode(session));
  }
  if (static_cast<int64_t>(prompt.size()) + typed.value_or(1) > ceiling) {
    messages_ = whole;  // it will be refused: nothing need be forgotten
  } else if (dropped > 0) {
    absl::FPrintF(stderr,
                  "note: %d tokens and %d for the answer exceed the sequence "
                  "ceiling of %d: the oldest %d turn(s) are left out, %d "
                  "tokens stay\n",
                  before, room, ceiling, dropped, prompt.size());
  }
  return prompt;
}

absl::Status ChatWork::Turn(Session& session, bool tell_rates) {
  DS_ASSIGN_OR_RETURN(const std::vector<int32_t> prompt, Prompt(session));
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

bool ChatWork::Command(absl::string_view line, Next* next) {
  *next = Next::kGoOn;
  const size_t end = std::min(line.find(' '), line.size());
  const absl::string_view word = line.substr(0, end);
  const absl::string_view rest = absl::StripAsciiWhitespace(line.substr(end));
  if (word == "/system") {
    if (rest.empty()) {
      system_.reset();
    } else {
      system_ = std::string(rest);
    }
    return true;
  }
  if (!rest.empty()) return false;
  if (word == "/exit" || word == "/quit" || word == "/bye") {
    *next = Next::kLeave;
    return true;
  }
  if (word == "/reset" || word == "/clear") {
    messages_.clear();
    return true;
  }
  if (word == "/help" || word == "/?") {
    absl::FPrintF(stderr, "%s", kHelp);
    return true;
  }
  // A slash and a word is a slip; a path or a sentence is a message.
  if (word.size() > 1 && std::all_of(word.begin() + 1, word.end(), [](char c) {
        return absl::ascii_isalpha(c);
      })) {
    absl::FPrintF(stderr, "%s: no such command; /help lists them\n",
                  std::string(word));
    return true;
  }
  return false;
}

absl::Status ChatWork::Converse(Session& session) {
  ChatLines lines;
  if (lines.is_terminal()) {
    absl::FPrintF(stderr,
                  "%s: %d tokens at most. /help lists commands, Ctrl-C stops "
                  "an answer, Ctrl-D leaves.\n",
                  OneLine(session.folder()), session.max_seq_len());
  }
  DS_RETURN_IF_ERROR(HandleInterrupts());
  while (true) {
    std::string message;
    const ChatLines::Result result = lines.Read(&message);
    if (result != ChatLines::Result::kMessage) {
      if (lines.is_terminal()) absl::FPrintF(stderr, "\n");
      return result == ChatLines::Result::kEnd
                 ? absl::OkStatus()
                 : absl::CancelledError("interrupted");
    }
    const absl::string_view text = absl::StripAsciiWhitespace(message);
    if (text.empty()) continue;
    if (Next next; absl::StartsWith(text, "/") && Command(text, &next)) {
      if (next == Next::kLeave) return absl::OkStatus();
      continue;
    }
    TakeInterrupt();  // one that came while nothing ran
    messages_.push_back({"user", std::move(message)});
    const absl::Status status = Turn(session, /*tell_rates=*/true);
    if (absl::IsFailedPrecondition(status) && lines.is_terminal()) {
      // Too long, or the template refuses: the next line may be better.
      messages_.pop_back();
      absl::FPrintF(stderr, "dsrun: %s; /reset starts anew\n",
                    OneLine(status.message()));
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
