// How a plan turns a conversation into a prompt: the template that is chosen,
// and what it is told besides the messages.
#ifndef DEEPSLICE_TOOLS_CHAT_SETUP_H_
#define DEEPSLICE_TOOLS_CHAT_SETUP_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/plan.h"
#include "runtime/text/chat_template.h"
#include "runtime/text/tokenizer.h"
#include "schema/base/json.h"
#include "tools/dsrun_options.h"

namespace deepslice {

struct ChatSetup {
  std::string where;  // of errors: the plan's folder, or the template's file
  std::unique_ptr<ChatTemplate> chat_template;
  RenderOptions render;
};

// Of the plan in `folder`: the template that options.chat_template names (one
// of the plan's, or a file), else "tool_use" where there are tools and the plan
// has it, else the default. `tokenizer` may be null. FailedPrecondition when
// the plan has none; NotFound for an unknown name; errors of the template with
// its line.
absl::StatusOr<ChatSetup> MakeChatSetup(const Plan& plan,
                                        const std::string& folder,
                                        const Tokenizer* tokenizer,
                                        const DsrunOptions& options);

// The template in the file `path`, without a plan: no token is defined.
absl::StatusOr<ChatSetup> ChatSetupOfFile(const std::string& path,
                                          const DsrunOptions& options);

// The rendered prompt. Errors name the setup's `where`; what raise_exception
// says is FailedPrecondition.
absl::StatusOr<std::vector<RenderedPiece>> RenderChat(
    const ChatSetup& setup, const json::Value& messages);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_CHAT_SETUP_H_
