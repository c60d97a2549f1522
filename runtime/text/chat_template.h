// Chat templates: a bounded interpreter for the part of Jinja that published
// templates use.
#ifndef DEEPSLICE_RUNTIME_TEXT_CHAT_TEMPLATE_H_
#define DEEPSLICE_RUNTIME_TEXT_CHAT_TEMPLATE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace deepslice {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

// A run of rendered text. Text that came from a message's content is not
// trusted: it is encoded with parse_special off, so that a user can't type a
// control token.
struct RenderedPiece {
  std::string text;
  bool from_user = false;
};

struct RenderOptions {
  bool add_generation_prompt = true;
  std::string bos_token;
  std::string eos_token;
};

// Immutable after parsing; thread-safe.
class ChatTemplate {
 public:
  virtual ~ChatTemplate() = default;
  // InvalidArgument with "line L: ..." on bad syntax; Unimplemented by name for
  // constructs outside the subset.
  static absl::StatusOr<std::unique_ptr<ChatTemplate>> Parse(
      absl::string_view text);
  // Bounded in steps, depth and output (limits.h): ResourceExhausted beyond.
  // raise_exception(x) is FailedPrecondition with x. Adjacent pieces of one
  // kind are joined.
  virtual absl::StatusOr<std::vector<RenderedPiece>> Render(
      const std::vector<ChatMessage>& messages,
      const RenderOptions& options) const = 0;
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_CHAT_TEMPLATE_H_
