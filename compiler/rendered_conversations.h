// Conversations that a plan carries as its chat template renders them, for
// `dsrun selftest`.
#ifndef DEEPSLICE_COMPILER_RENDERED_CONVERSATIONS_H_
#define DEEPSLICE_COMPILER_RENDERED_CONVERSATIONS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace deepslice {

struct ChatSettings;  // compiler/plan_writer.h

struct RenderedConversation {
  std::string messages;  // JSON: a list of {role, content}
  std::string text;
  absl::optional<std::vector<int32_t>> ids;  // nullopt: no tokenizer
};

// Of a few conversations those that the default template takes, at the instant
// kRenderTestTime (schema/plan_format.h). Empty where it can't be read: its
// chats are refused. `tokenizer`: TokenizerTables::bytes, may be empty.
std::vector<RenderedConversation> RenderConversations(
    const ChatSettings& chat, absl::string_view tokenizer);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_RENDERED_CONVERSATIONS_H_
