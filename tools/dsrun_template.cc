// dsrun template: the prompt that a conversation becomes.
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/plan.h"
#include "runtime/text/chat_encode.h"
#include "schema/base/file.h"
#include "schema/base/json.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"
#include "tools/chat_setup.h"
#include "tools/command_line.h"
#include "tools/dsrun_work.h"

namespace deepslice {
namespace {

absl::StatusOr<json::Value> ReadJson(const std::string& path) {
  DS_ASSIGN_OR_RETURN(const std::string text,
                      ReadFile(path, limits::kJsonFileBytes));
  auto parsed = json::Parse(text);
  if (!parsed.ok()) return Annotate(parsed.status(), path);
  return parsed;
}

absl::Status NeedList(const std::string& where, const json::Value& v,
                      absl::string_view of) {
  if (!v.is_array()) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": holds ", json::KindName(v.kind()),
                     "; a list of ", of, " is needed"));
  }
  for (size_t i = 0; i < v.items().size(); ++i) {
    if (v.items()[i].is_object()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        where, ": item ", i, " is ", json::KindName(v.items()[i].kind()),
        "; an object is needed"));
  }
  return absl::OkStatus();
}

struct Conversation {
  json::Value messages, tools, documents;
};

// A list of messages, or an object with "messages", "tools" and "documents" as
// chat services are sent.
absl::StatusOr<Conversation> ReadConversation(const DsrunOptions& options) {
  Conversation out;
  DS_ASSIGN_OR_RETURN(json::Value v, ReadJson(options.messages));
  if (v.is_object()) {
    for (const auto& [key, value] : {std::make_pair("messages", &out.messages),
                                     {"tools", &out.tools},
                                     {"documents", &out.documents}}) {
      if (json::Value* member = v.Find(key)) *value = std::move(*member);
    }
  } else {
    out.messages = std::move(v);
  }
  DS_RETURN_IF_ERROR(NeedList(options.messages, out.messages, "messages"));
  if (options.tools.has_value()) {
    DS_ASSIGN_OR_RETURN(out.tools, ReadJson(*options.tools));
  }
  if (!out.tools.is_null()) {
    DS_RETURN_IF_ERROR(
        NeedList(options.tools.value_or(options.messages), out.tools, "tools"));
  }
  return out;
}

absl::Status PrintIds(const Tokenizer* tokenizer,
                      const std::vector<RenderedPiece>& pieces,
                      const std::string& folder) {
  if (tokenizer == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(folder, ": the plan holds no tokenizer for --print-ids"));
  }
  DS_ASSIGN_OR_RETURN(const auto ids, EncodeChat(*tokenizer, pieces));
  return Print(absl::StrCat(absl::StrJoin(ids, ","), "\n"));
}

}  // namespace

absl::Status RenderTemplate(const DsrunOptions& options) {
  DS_ASSIGN_OR_RETURN(Conversation conversation, ReadConversation(options));
  const auto complete = [&](ChatChoice* choice) {
    choice->tools = std::move(conversation.tools);
    choice->documents = std::move(conversation.documents);
    choice->add_generation_prompt = options.generation_prompt;
  };
  std::unique_ptr<Plan> plan;
  std::unique_ptr<Tokenizer> tokenizer;
  ChatPrompt prompt;
  if (DirectoryExists(options.plan)) {
    DS_ASSIGN_OR_RETURN(Plan loaded,
                        Plan::Load(options.plan, 0, {.check_weights = false}));
    plan = std::make_unique<Plan>(std::move(loaded));
    const auto* bytes = plan->fb().tokenizer();
    if (bytes != nullptr && bytes->size() > 0) {
      DS_ASSIGN_OR_RETURN(
          tokenizer,
          Tokenizer::Load(absl::string_view(
              reinterpret_cast<const char*>(bytes->data()), bytes->size())));
    }
    DS_ASSIGN_OR_RETURN(ChatChoice choice, ChatChoiceOf(*plan, options));
    complete(&choice);
    DS_ASSIGN_OR_RETURN(
        prompt, MakeChatPrompt(*plan, options.plan, tokenizer.get(), choice));
  } else {
    DS_ASSIGN_OR_RETURN(ChatChoice choice, ChatChoiceOfFile(options));
    complete(&choice);
    DS_ASSIGN_OR_RETURN(prompt, ChatPromptOfText(choice));
  }
  DS_ASSIGN_OR_RETURN(const auto pieces,
                      RenderChat(prompt, conversation.messages));
  if (options.print_ids) {
    return PrintIds(tokenizer.get(), pieces, options.plan);
  }
  std::string text;
  for (const RenderedPiece& piece : pieces) text += piece.text;
  return Print(text);
}

}  // namespace deepslice
