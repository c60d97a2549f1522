// Renders templates for the differential test: reads JSON lines {template,
// context, now} from stdin, writes a JSON line {text, user} or {code, message}
// for each. `user` has the lengths of the pieces, those of users and of the
// template by turns, a template's first.
#include <iostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/text/chat_template.h"
#include "schema/base/json.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

absl::StatusOr<json::Value> Render(absl::string_view line) {
  DS_ASSIGN_OR_RETURN(json::Value input, json::Parse(line));
  json::Value* context = input.Find("context");
  if (input.Find("template") == nullptr || context == nullptr) {
    return absl::InternalError("a line needs \"template\" and \"context\"");
  }
  DS_ASSIGN_OR_RETURN(const auto chat,
                      ChatTemplate::Parse(input.Find("template")->as_string()));
  RenderOptions options;
  options.add_generation_prompt = false;
  options.arguments = json::Value::Object();
  json::Value messages;
  if (const json::Value* now = input.Find("now")) {
    options.now = absl::FromUnixSeconds(now->as_int());
  }
  for (auto& [key, value] : context->members()) {
    if (key == "messages") {
      messages = value;
    } else if (key == "tools") {
      options.tools = value;
    } else if (key == "documents") {
      options.documents = value;
    } else if (key == "add_generation_prompt") {
      options.add_generation_prompt = value.as_bool();
    } else if (key == "tokens") {
      for (const auto& [name, text] : value.members()) {
        options.tokens.emplace_back(name, text.as_string());
      }
    } else {
      options.arguments.Set(key, value);
    }
  }
  DS_ASSIGN_OR_RETURN(const auto pieces, chat->RenderJson(messages, options));
  json::Value out = json::Value::Object();
  json::Value lengths = json::Value::Array();
  std::string text;
  for (const RenderedPiece& piece : pieces) {
    if (lengths.items().size() % 2 != (piece.from_user ? 1 : 0)) {
      lengths.Add(0);
    }
    lengths.Add(static_cast<int64_t>(piece.text.size()));
    text += piece.text;
  }
  out.Set("text", text);
  out.Set("user", std::move(lengths));
  return out;
}

int Main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    const auto rendered = Render(line);
    json::Value out;
    if (rendered.ok()) {
      out = *rendered;
    } else {
      out = json::Value::Object();
      out.Set("code", absl::StatusCodeToString(rendered.status().code()));
      out.Set("message", rendered.status().message());
    }
    std::cout << json::Write(out) << "\n";
  }
  return std::cout.flush() ? 0 : 1;
}

}  // namespace
}  // namespace deepslice

int main() { return deepslice::Main(); }
