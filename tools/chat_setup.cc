#include "tools/chat_setup.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/base/file.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"
#include "tools/command_line.h"

namespace deepslice {
namespace {

using NamedText = fb::NamedText;

absl::string_view Text(const flatbuffers::String* s) {
  return s ? absl::string_view(s->data(), s->size()) : absl::string_view();
}

// The names of the plan's templates, for messages.
std::string Names(const Plan& plan) {
  std::vector<std::string> names;
  if (!Text(plan.fb().chat_template()).empty()) names.push_back("default");
  if (const auto* named = plan.fb().named_templates()) {
    for (const NamedText* t : *named) names.push_back(t->name()->str());
  }
  return names.empty() ? "none" : OneLine(absl::StrJoin(names, ", "));
}

// The plan's template of that name; nullptr when it has none.
const flatbuffers::String* Find(const Plan& plan, absl::string_view name) {
  if (name == "default") {
    return Text(plan.fb().chat_template()).empty() ? nullptr
                                                   : plan.fb().chat_template();
  }
  if (const auto* named = plan.fb().named_templates()) {
    for (const NamedText* t : *named) {
      if (Text(t->name()) == name) return t->text();
    }
  }
  return nullptr;
}

absl::StatusOr<std::string> ReadTemplate(const std::string& path) {
  return ReadFile(path, limits::kTemplateBytes);
}

absl::StatusOr<std::string> ChooseTemplate(const Plan& plan,
                                           const std::string& folder,
                                           const DsrunOptions& options,
                                           bool has_tools, std::string* where) {
  if (options.chat_template.has_value()) {
    const std::string& wanted = *options.chat_template;
    if (const auto* text = Find(plan, wanted)) return text->str();
    if (!FileExists(wanted)) {
      return absl::NotFoundError(absl::StrCat(
          "--chat-template ", OneLine(wanted), ": is no file, and ", folder,
          " has no template of that name; it has ", Names(plan)));
    }
    *where = wanted;
    return ReadTemplate(wanted);
  }
  const auto* text = has_tools ? Find(plan, "tool_use") : nullptr;
  if (text == nullptr) text = Find(plan, "default");
  if (text != nullptr) return text->str();
  const bool named = plan.fb().named_templates() != nullptr &&
                     plan.fb().named_templates()->size() > 0;
  return absl::FailedPreconditionError(
      absl::StrCat(folder, ": the plan holds no ", named ? "default " : "",
                   "chat template, its checkpoint had none; ",
                   named ? absl::StrCat("choose --chat-template ", Names(plan))
                         : "use -p without --chat, or --chat-template FILE"));
}

// Tokens as the checkpoint named them; of plans that do not say, the
// tokenizer's.
void SetTokens(const Plan& plan, const Tokenizer* tokenizer,
               RenderOptions* render) {
  if (const auto* tokens = plan.fb().template_tokens()) {
    for (const NamedText* t : *tokens) {
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

absl::Status SetArguments(const DsrunOptions& options, RenderOptions* render) {
  if (!options.template_args.has_value()) return absl::OkStatus();
  auto parsed = json::Parse(*options.template_args);
  DS_RETURN_IF_ERROR(Annotate(parsed.status(), "--template-args"));
  if (!parsed->is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--template-args: is ", json::KindName(parsed->kind()),
        "; must be an object, such as {\"enable_thinking\": false}"));
  }
  for (absl::string_view taken : {"messages", "tools", "documents"}) {
    if (parsed->Find(taken) == nullptr) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--template-args: \"", taken,
                     "\" comes from the conversation; leave it out"));
  }
  render->arguments = *std::move(parsed);
  return absl::OkStatus();
}

absl::StatusOr<ChatSetup> Finish(ChatSetup setup, const std::string& text,
                                 const DsrunOptions& options) {
  DS_RETURN_IF_ERROR(SetArguments(options, &setup.render));
  auto parsed = ChatTemplate::Parse(text);
  if (!parsed.ok()) return Annotate(parsed.status(), setup.where);
  setup.chat_template = *std::move(parsed);
  return setup;
}

}  // namespace

absl::StatusOr<ChatSetup> MakeChatSetup(const Plan& plan,
                                        const std::string& folder,
                                        const Tokenizer* tokenizer,
                                        const DsrunOptions& options) {
  ChatSetup setup;
  setup.where = folder;
  DS_ASSIGN_OR_RETURN(const std::string text,
                      ChooseTemplate(plan, folder, options,
                                     options.tools.has_value(), &setup.where));
  SetTokens(plan, tokenizer, &setup.render);
  return Finish(std::move(setup), text, options);
}

absl::StatusOr<ChatSetup> ChatSetupOfFile(const std::string& path,
                                          const DsrunOptions& options) {
  ChatSetup setup;
  setup.where = path;
  DS_ASSIGN_OR_RETURN(const std::string text, ReadTemplate(path));
  return Finish(std::move(setup), text, options);
}

absl::StatusOr<std::vector<RenderedPiece>> RenderChat(
    const ChatSetup& setup, const json::Value& messages) {
  auto pieces = setup.chat_template->RenderJson(messages, setup.render);
  if (absl::IsFailedPrecondition(pieces.status())) {
    return absl::FailedPreconditionError(absl::StrCat(
        setup.where,
        ": the chat template refuses: ", OneLine(pieces.status().message())));
  }
  if (!pieces.ok()) return Annotate(pieces.status(), setup.where);
  return pieces;
}

}  // namespace deepslice
