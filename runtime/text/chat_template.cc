// Chat templates: parse once, render conversations.
#include "runtime/text/chat_template.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
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

// The value of what the program or its user gave.
absl::StatusOr<Value> FromJson(const json::Value& v, TemplateMeter& meter) {
  switch (v.kind()) {
    case json::Kind::kNull:
      return Value::None();
    case json::Kind::kBool:
      return Value::Bool(v.as_bool());
    case json::Kind::kInt:
      return Value::Int(v.as_int());
    case json::Kind::kFloat:
      return Value::Float(v.as_double());
    case json::Kind::kString:
      return Value::String(MarkedText(ReplaceInvalidUtf8(v.as_string()), true));
    case json::Kind::kArray: {
      Value::List list;
      for (const json::Value& item : v.items()) {
        DS_ASSIGN_OR_RETURN(Value value, FromJson(item, meter));
        list.push_back(std::move(value));
      }
      return meter.List(std::move(list));
    }
    case json::Kind::kObject: {
      Value::Map map;
      for (const auto& [key, member] : v.members()) {
        const std::string name = ReplaceInvalidUtf8(key);
        DS_ASSIGN_OR_RETURN(Value value, FromJson(member, meter));
        if (name == "role" && member.is_string() &&
            IsPlainRole(member.as_string())) {
          value = Value::String(member.as_string());
        }
        map.emplace_back(MarkedText(name, true), std::move(value));
      }
      return meter.Map(std::move(map));
    }
  }
  return Value::None();
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

  absl::StatusOr<std::vector<RenderedPiece>> RenderJson(
      const json::Value& messages,
      const RenderOptions& options) const override {
    TemplateMeter meter;
    Value::Map variables = {{MarkedText("add_generation_prompt"),
                             Value::Bool(options.add_generation_prompt)}};
    const auto set = [&](absl::string_view name, Value v) {
      for (auto& entry : variables) {
        if (entry.first.text == name) {
          entry.second = std::move(v);
          return;
        }
      }
      variables.emplace_back(MarkedText(name), std::move(v));
    };
    for (const auto& [name, text] : options.tokens) {
      set(name, Value::String(ReplaceInvalidUtf8(text)));
    }
    for (const auto& [name, v] : options.arguments.members()) {
      DS_ASSIGN_OR_RETURN(Value value, FromJson(v, meter));
      set(name, std::move(value));
    }
    for (const auto& [name, v] : {std::make_pair("messages", &messages),
                                  {"tools", &options.tools},
                                  {"documents", &options.documents}}) {
      auto value = FromJson(*v, meter);
      if (!value.ok()) return Located(Annotate(value.status(), name));
      set(name, *std::move(value));
    }
    auto text =
        RunTemplate(statements_, variables, options.now.value_or(absl::Now()));
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

absl::StatusOr<std::vector<RenderedPiece>> ChatTemplate::Render(
    const std::vector<ChatMessage>& messages,
    const RenderOptions& options) const {
  return RenderJson(MessagesAsJson(messages), options);
}

json::Value MessagesAsJson(const std::vector<ChatMessage>& messages) {
  json::Value out = json::Value::Array();
  for (const ChatMessage& m : messages) {
    json::Value& message = out.Add(json::Value::Object());
    message.Set("role", m.role);
    message.Set("content", m.content);
  }
  return out;
}

}  // namespace deepslice
