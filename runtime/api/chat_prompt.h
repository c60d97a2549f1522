// How a plan turns a conversation into a prompt: the template that is chosen,
// and what it is told besides the messages.
#ifndef DEEPSLICE_RUNTIME_API_CHAT_PROMPT_H_
#define DEEPSLICE_RUNTIME_API_CHAT_PROMPT_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/plan.h"
#include "runtime/text/chat_template.h"
#include "runtime/text/tokenizer.h"
#include "schema/base/json.h"

namespace deepslice {

struct ChatChoice {
  std::optional<std::string> name;  // of one of the plan's templates
  std::optional<std::string> text;  // a template in place of the plan's
  std::string text_label;           // what errors call it
  bool add_generation_prompt = true;
  json::Value tools, documents, arguments;  // as RenderOptions
  std::string arguments_label = "arguments";
};

struct ChatPrompt {
  std::string where;  // of errors: the plan's folder, or text_label
  std::unique_ptr<ChatTemplate> chat_template;
  RenderOptions render;
};

// Whether the plan has a template of that name; "default" is the unnamed one.
bool HasChatTemplate(const Plan& plan, absl::string_view name);
// "default, tool_use", or "none": for messages.
std::string ChatTemplateNames(const Plan& plan);

// Of the plan in `folder`: the choice's template, else "tool_use" where there
// are tools and the plan has it, else the default. `tokenizer` may be null.
// FailedPrecondition when the plan has none; NotFound for an unknown name;
// InvalidArgument for arguments that are no object or hide what comes from the
// conversation; errors of the template with its line.
absl::StatusOr<ChatPrompt> MakeChatPrompt(const Plan& plan,
                                          const std::string& folder,
                                          const Tokenizer* tokenizer,
                                          const ChatChoice& choice);
// The choice's text, without a plan: no token is defined.
absl::StatusOr<ChatPrompt> ChatPromptOfText(const ChatChoice& choice);

// The rendered prompt. Errors name the prompt's `where`; what raise_exception
// says is FailedPrecondition.
absl::StatusOr<std::vector<RenderedPiece>> RenderChat(
    const ChatPrompt& prompt, const json::Value& messages);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_API_CHAT_PROMPT_H_
