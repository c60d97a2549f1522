// Chat templates: a bounded interpreter for the part of Jinja that published
// templates use, with the behaviour of Python's jinja2 as transformers sets it
// up.
#ifndef DEEPSLICE_RUNTIME_TEXT_CHAT_TEMPLATE_H_
#define DEEPSLICE_RUNTIME_TEXT_CHAT_TEMPLATE_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "schema/base/json.h"

namespace deepslice {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

// A run of rendered text. Text that came from the conversation or the tools is
// not trusted: it is encoded with parse_special off, so that a user can't type
// a control token.
struct RenderedPiece {
  std::string text;
  bool from_user = false;
};

struct RenderOptions {
  bool add_generation_prompt = true;
  // "bos_token" and its text, ...: a token that is not here is undefined.
  std::vector<std::pair<std::string, std::string>> tokens;
  json::Value tools;      // null, or a list of JSON schemas
  json::Value documents;  // null, or a list
  // An object of further variables ("enable_thinking"), or null. They overrule
  // the tokens.
  json::Value arguments;
  std::optional<absl::Time> now;  // of strftime_now; default: the clock
};

// Immutable after parsing; thread-safe.
class ChatTemplate {
 public:
  virtual ~ChatTemplate() = default;
  // InvalidArgument with "line L: ..." on bad syntax; Unimplemented by name for
  // constructs outside the subset.
  static absl::StatusOr<std::unique_ptr<ChatTemplate>> Parse(
      absl::string_view text);
  // `messages` is what a template calls by that name: a list of objects with
  // "role", "content" and whatever else a family knows. Bounded in steps, depth
  // and output (limits.h): ResourceExhausted beyond. raise_exception(x) is
  // FailedPrecondition with x. Adjacent pieces of one kind are joined.
  virtual absl::StatusOr<std::vector<RenderedPiece>> RenderJson(
      const json::Value& messages, const RenderOptions& options) const = 0;
  // The same of messages that have a role and a content alone.
  absl::StatusOr<std::vector<RenderedPiece>> Render(
      const std::vector<ChatMessage>& messages,
      const RenderOptions& options) const;
};

// The messages as JSON.
json::Value MessagesAsJson(const std::vector<ChatMessage>& messages);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_CHAT_TEMPLATE_H_
