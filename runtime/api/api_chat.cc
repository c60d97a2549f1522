// Chat templates through the C interface.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/api/api_call.h"
#include "runtime/api/chat_prompt.h"
#include "runtime/api/model.h"
#include "runtime/text/chat_encode.h"
#include "schema/base/json.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// Of the first version.
constexpr size_t kChatParamsBytes = sizeof(ds_chat_params);

ds_chat_params DefaultChatParams() {
  ds_chat_params p = {};
  p.struct_size = sizeof(p);
  p.add_generation_prompt = 1;
  return p;
}

absl::StatusOr<std::optional<std::string>> ReadText(const ds_text& text,
                                                    absl::string_view name) {
  DS_ASSIGN_OR_RETURN(const absl::string_view bytes, TextOf(text, name));
  if (text.data == nullptr) return std::optional<std::string>();
  return std::make_optional(std::string(bytes));
}

// Null where none was given.
absl::StatusOr<json::Value> ReadJson(const ds_text& text,
                                     absl::string_view name) {
  DS_ASSIGN_OR_RETURN(const auto bytes, ReadText(text, name));
  if (!bytes.has_value()) return json::Value();
  auto parsed = json::Parse(*bytes);
  DS_RETURN_IF_ERROR(Annotate(parsed.status(), name));
  return *std::move(parsed);
}

absl::StatusOr<json::Value> ReadMessages(const ds_message* messages,
                                         size_t num_messages,
                                         const ds_chat_params& p) {
  if (p.messages_json.data != nullptr) {
    DS_ASSIGN_OR_RETURN(json::Value read,
                        ReadJson(p.messages_json, "messages_json"));
    if (read.is_array()) return read;
    return absl::InvalidArgumentError(
        absl::StrCat("messages_json: is ", json::KindName(read.kind()),
                     "; a list of objects is needed"));
  }
  if (messages == nullptr && num_messages > 0) {
    return NullArgument("ds_apply_chat_template", "messages");
  }
  std::vector<ChatMessage> list;
  for (size_t i = 0; i < num_messages; ++i) {
    DS_ASSIGN_OR_RETURN(
        const absl::string_view role,
        TextOf(messages[i].role, absl::StrCat("message ", i, ": role")));
    DS_ASSIGN_OR_RETURN(
        const absl::string_view content,
        TextOf(messages[i].content, absl::StrCat("message ", i, ": content")));
    list.push_back({std::string(role), std::string(content)});
  }
  return MessagesAsJson(list);
}

absl::StatusOr<ChatChoice> ReadChoice(const ds_chat_params& p) {
  ChatChoice c;
  c.add_generation_prompt = p.add_generation_prompt != 0;
  DS_ASSIGN_OR_RETURN(c.name, ReadText(p.template_name, "template_name"));
  DS_ASSIGN_OR_RETURN(c.text, ReadText(p.template_text, "template_text"));
  c.text_label = "template_text";
  DS_ASSIGN_OR_RETURN(c.tools, ReadJson(p.tools_json, "tools_json"));
  DS_ASSIGN_OR_RETURN(c.documents,
                      ReadJson(p.documents_json, "documents_json"));
  c.arguments_label = "arguments_json";
  DS_ASSIGN_OR_RETURN(c.arguments,
                      ReadJson(p.arguments_json, c.arguments_label));
  return c;
}

}  // namespace
}  // namespace deepslice

using namespace deepslice;  // NOLINT: the interface's functions have no other

void ds_init_chat_params(ds_chat_params* params, size_t size) noexcept {
  if (params != nullptr) WriteStruct(DefaultChatParams(), params, size);
}

ds_status ds_apply_chat_template(ds_model* model, const ds_message* messages,
                                 size_t num_messages,
                                 const ds_chat_params* params, int32_t** ids,
                                 size_t* num_ids, char** text,
                                 size_t* text_size) noexcept {
  if (ids != nullptr) *ids = nullptr;
  if (num_ids != nullptr) *num_ids = 0;
  if (text != nullptr) *text = nullptr;
  if (text_size != nullptr) *text_size = 0;
  return ApiCall([&]() -> absl::Status {
    if (model == nullptr) {
      return NullArgument("ds_apply_chat_template", "model");
    }
    if (ids != nullptr && num_ids == nullptr) {
      return NullArgument("ds_apply_chat_template", "num_ids");
    }
    ds_chat_params p = DefaultChatParams();
    DS_RETURN_IF_ERROR(
        ReadStruct(params, kChatParamsBytes, "ds_chat_params", &p));
    DS_ASSIGN_OR_RETURN(const ChatChoice choice, ReadChoice(p));
    DS_ASSIGN_OR_RETURN(const json::Value read,
                        ReadMessages(messages, num_messages, p));
    const Session& session = *model->session;
    const Tokenizer* tokenizer = nullptr;
    if (ids != nullptr || session.has_tokenizer()) {
      DS_ASSIGN_OR_RETURN(const ds_tokenizer* own, TokenizerOf(*model));
      tokenizer = own->tokenizer;
    }
    DS_ASSIGN_OR_RETURN(
        const ChatPrompt prompt,
        MakeChatPrompt(session.plan(), session.folder(), tokenizer, choice));
    DS_ASSIGN_OR_RETURN(const auto pieces, RenderChat(prompt, read));
    std::string whole;
    for (const RenderedPiece& piece : pieces) whole += piece.text;
    std::vector<int32_t> encoded;
    if (ids != nullptr) {
      DS_ASSIGN_OR_RETURN(encoded, EncodeChat(*tokenizer, pieces));
    }
    // Both copies, or none.
    char* const copy = text != nullptr ? CopyText(whole) : nullptr;
    if (ids != nullptr) {
      try {
        *ids = CopyArray(encoded.data(), encoded.size());
      } catch (...) {
        ds_release(copy);
        throw;
      }
      *num_ids = encoded.size();
    }
    if (text != nullptr) *text = copy;
    if (text_size != nullptr) *text_size = whole.size();
    return absl::OkStatus();
  });
}
