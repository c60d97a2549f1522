// Chat templates: parse once, render conversations.
#include "runtime/text/chat_template.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "runtime/text/template_eval.h"
#include "runtime/text/template_functions.h"
#include "runtime/text/template_parser.h"
#include "runtime/text/utf8.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

using Value = TemplateValue;

// A role is the program's word, unless it holds more than a name: then someone
// let a user choose it.
bool IsPlainRole(absl::string_view role) {
  return std::all_of(role.begin(), role.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '_' || c == '-';
  });
}

std::vector<RenderedPiece> Pieces(const MarkedText& text) {
  std::vector<RenderedPiece> out;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(
        text.marks.find(text.marks[begin] ? '\0' : '\1', begin), text.size());
    out.push_back(
        {text.text.substr(begin, end - begin), text.marks[begin] != 0});
    begin = end;
  }
  return out;
}

class ParsedTemplate final : public ChatTemplate {
 public:
  explicit ParsedTemplate(std::vector<TemplateStatement> statements)
      : statements_(std::move(statements)) {}

  absl::StatusOr<std::vector<RenderedPiece>> Render(
      const std::vector<ChatMessage>& messages,
      const RenderOptions& options) const override {
    TemplateMeter meter;
    Value::List list;
    for (const ChatMessage& m : messages) {
      const std::string role = ReplaceInvalidUtf8(m.role);
      const std::string content = ReplaceInvalidUtf8(m.content);
      list.push_back(Value::MakeMap(
          {{MarkedText("role"),
            Value::String(MarkedText(role, !IsPlainRole(role)))},
           {MarkedText("content"), Value::String(MarkedText(content, true))}}));
    }
    auto conversation = meter.List(std::move(list));
    if (!conversation.ok()) return Located(conversation.status());
    auto text = RunTemplate(
        statements_,
        {{MarkedText("messages"), *std::move(conversation)},
         {MarkedText("add_generation_prompt"),
          Value::Bool(options.add_generation_prompt)},
         {MarkedText("bos_token"), Value::String(options.bos_token)},
         {MarkedText("eos_token"), Value::String(options.eos_token)},
         {MarkedText("tools"), Value::None()},
         {MarkedText("documents"), Value::None()}});
    if (!text.ok()) return Located(text.status());
    return Pieces(*text);
  }

 private:
  static absl::Status Located(const absl::Status& status) {
    if (absl::IsFailedPrecondition(status)) return status;
    return Annotate(status, "chat template");
  }

  const std::vector<TemplateStatement> statements_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ChatTemplate>> ChatTemplate::Parse(
    absl::string_view text) {
  if (text.size() > static_cast<size_t>(limits::kTemplateBytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("chat template: has ", text.size(), " bytes; at most ",
                     limits::kTemplateBytes, " are allowed"));
  }
  if (!IsValidUtf8(text)) {
    return absl::InvalidArgumentError("chat template: is not UTF-8");
  }
  auto statements = ParseTemplate(text);
  if (!statements.ok()) return Annotate(statements.status(), "chat template");
  return std::unique_ptr<ChatTemplate>(
      std::make_unique<ParsedTemplate>(*std::move(statements)));
}

}  // namespace deepslice
