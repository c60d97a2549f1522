#include "runtime/api/chat_prompt.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

absl::string_view Text(const flatbuffers::String* s) {
  return s ? absl::string_view(s->data(), s->size()) : absl::string_view();
}

// The plan's template of that name; nullptr when it has none.
const flatbuffers::String* Find(const Plan& plan, absl::string_view name) {
  if (name == "default") {
    return Text(plan.fb().chat_template()).empty() ? nullptr
                                                   : plan.fb().chat_template();
  }
  if (const auto* named = plan.fb().named_templates()) {
    for (const fb::NamedText* t : *named) {
      if (Text(t->name()) == name) return t->text();
    }
  }
  return nullptr;
}

absl::StatusOr<std::string> ChooseTemplate(const Plan& plan,
                                           const std::string& folder,
                                           const ChatChoice& choice) {
  if (choice.name.has_value()) {
    if (const auto* text = Find(plan, *choice.name)) return text->str();
    return absl::NotFoundError(absl::StrCat(folder, ": has no chat template \"",
                                            *choice.name, "\"; it has ",
                                            ChatTemplateNames(plan)));
  }
  const auto* text = choice.tools.is_null() ? nullptr : Find(plan, "tool_use");
  if (text == nullptr) text = Find(plan, "default");
  if (text != nullptr) return text->str();
  const bool named = plan.fb().named_templates() != nullptr &&
                     plan.fb().named_templates()->size() > 0;
  return absl::FailedPreconditionError(absl::StrCat(
      folder, ": the plan holds no ", named ? "default " : "",
      "chat template, its checkpoint had none; ",
      named ? absl::StrCat("choose --chat-template ", ChatTemplateNames(plan))
            : "use -p without --chat, or --chat-template FILE"));
}

// Tokens as the checkpoint named them; of plans that do not say, the
// tokenizer's.
void SetTokens(const Plan& plan, const Tokenizer* tokenizer,
               RenderOptions* render) {
  if (const auto* tokens = plan.fb().template_tokens()) {
    for (const fb::NamedText* t : *tokens) {
      render->tokens.emplace_back(t->name()->str(), t->text()->str());
    }
    return;
  }
  if (tokenizer == nullptr) return;
  for (const auto& [name, id] :
       {std::make_pair("bos_token", tokenizer->bos_id()),
        {"eos_token", tokenizer->eos_id()}}) {
    if (id >= 0) render->tokens.emplace_back(name, tokenizer->IdToToken(id));
  }
}

absl::Status CheckArguments(const ChatChoice& choice) {
  const json::Value& arguments = choice.arguments;
  if (arguments.is_null()) return absl::OkStatus();
  if (!arguments.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(
        choice.arguments_label, ": is ", json::KindName(arguments.kind()),
        "; must be an object, such as {\"enable_thinking\": false}"));
  }
  for (absl::string_view taken : {"messages", "tools", "documents"}) {
    if (arguments.Find(taken) == nullptr) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(choice.arguments_label, ": \"", taken,
                     "\" comes from the conversation; leave it out"));
  }
  return absl::OkStatus();
}

absl::StatusOr<ChatPrompt> Finish(ChatPrompt prompt, const std::string& text,
                                  const ChatChoice& choice) {
  DS_RETURN_IF_ERROR(CheckArguments(choice));
  prompt.render.add_generation_prompt = choice.add_generation_prompt;
  prompt.render.tools = choice.tools;
  prompt.render.documents = choice.documents;
  prompt.render.arguments = choice.arguments;
  auto parsed = ChatTemplate::Parse(text);
  if (!parsed.ok()) return Annotate(parsed.status(), prompt.where);
  prompt.chat_template = *std::move(parsed);
  return prompt;
}

}  // namespace

bool HasChatTemplate(const Plan& plan, absl::string_view name) {
  return Find(plan, name) != nullptr;
}

std::string ChatTemplateNames(const Plan& plan) {
  std::vector<std::string> names;
  if (HasChatTemplate(plan, "default")) names.push_back("default");
  if (const auto* named = plan.fb().named_templates()) {
    for (const fb::NamedText* t : *named) names.push_back(t->name()->str());
  }
  return names.empty() ? "none" : absl::StrJoin(names, ", ");
}

absl::StatusOr<ChatPrompt> MakeChatPrompt(const Plan& plan,
                                          const std::string& folder,
                                          const Tokenizer* tokenizer,
                                          const ChatChoice& choice) {
  ChatPrompt prompt;
  prompt.where = folder;
  std::string text;
  if (choice.text.has_value()) {
    text = *choice.text;
    prompt.where = choice.text_label;
  } else {
    DS_ASSIGN_OR_RETURN(text, ChooseTemplate(plan, folder, choice));
  }
  SetTokens(plan, tokenizer, &prompt.render);
  return Finish(std::move(prompt), text, choice);
}

absl::StatusOr<ChatPrompt> ChatPromptOfText(const ChatChoice& choice) {
  ChatPrompt prompt;
  prompt.where = choice.text_label;
  return Finish(std::move(prompt), choice.text.value_or(""), choice);
}

absl::StatusOr<std::vector<RenderedPiece>> RenderChat(
    const ChatPrompt& prompt, const json::Value& messages) {
  auto pieces = prompt.chat_template->RenderJson(messages, prompt.render);
  if (absl::IsFailedPrecondition(pieces.status())) {
    return absl::FailedPreconditionError(absl::StrCat(
        prompt.where,
        ": the chat template refuses: ", pieces.status().message()));
  }
  if (!pieces.ok()) return Annotate(pieces.status(), prompt.where);
  return pieces;
}

}  // namespace deepslice
