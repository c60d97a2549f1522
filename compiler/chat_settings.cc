#include "compiler/chat_settings.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/text/chat_template.h"
#include "runtime/text/tokenizer.h"
#include "schema/base/limits.h"

namespace deepslice {
namespace {

// What templates see of a tokenizer, in the order of a file that has them all.
constexpr absl::string_view kTokens[] = {"bos_token", "eos_token", "unk_token",
                                         "sep_token", "pad_token", "cls_token",
                                         "mask_token"};

// The text of a token: a string, or an object with "content". Null when it is
// neither, nullptr when `config` does not speak of it.
const json::Value* FindToken(const json::Value& config, absl::string_view key) {
  const json::Value* value = config.Find(key);
  if (value == nullptr || !value->is_object()) return value;
  return value->Find("content");
}

bool IsTokenText(const json::Value& value) {
  return value.is_string() && !value.as_string().empty() &&
         static_cast<int64_t>(value.as_string().size()) <=
             limits::kAddedTokenBytes;
}

// The text of a token that only the tokenizer knows; empty when it has none.
std::string OwnToken(const Checkpoint& checkpoint, const Tokenizer& tokenizer,
                     absl::string_view key) {
  if (key == "bos_token") return tokenizer.IdToToken(tokenizer.bos_id());
  if (key == "eos_token") return tokenizer.IdToToken(tokenizer.eos_id());
  const json::Value& metadata = checkpoint.gguf_metadata();
  for (absl::string_view name :
       {absl::StrCat("tokenizer.ggml.", key, "_id"),
        // One that llama.cpp spells otherwise.
        std::string(key == "unk_token"   ? "tokenizer.ggml.unknown_token_id"
                    : key == "pad_token" ? "tokenizer.ggml.padding_token_id"
                    : key == "sep_token" ? "tokenizer.ggml.seperator_token_id"
                                         : "")}) {
    const json::Value* id = metadata.Find(name);
    if (id == nullptr || !id->is_int() || id->as_int() < 0 ||
        id->as_int() >= tokenizer.vocab_size()) {
      continue;
    }
    return tokenizer.IdToToken(static_cast<int32_t>(id->as_int()));
  }
  return "";
}

std::vector<std::pair<std::string, std::string>> TemplateTokens(
    const Checkpoint& checkpoint, absl::string_view tokenizer_bytes) {
  std::unique_ptr<Tokenizer> tokenizer;
  if (!tokenizer_bytes.empty()) {
    auto loaded = Tokenizer::Load(tokenizer_bytes);
    if (loaded.ok()) tokenizer = *std::move(loaded);
  }
  std::vector<std::pair<std::string, std::string>> out;
  for (const absl::string_view key : kTokens) {
    const json::Value* value = FindToken(checkpoint.tokenizer_config(), key);
    if (value == nullptr) {
      value = FindToken(checkpoint.special_tokens_map(), key);
    }
    std::string text;
    if (value != nullptr) {
      if (IsTokenText(*value)) text = value->as_string();
    } else if (tokenizer != nullptr) {
      text = OwnToken(checkpoint, *tokenizer, key);
    }
    if (!text.empty()) out.emplace_back(std::string(key), std::move(text));
  }
  return out;
}

}  // namespace

ChatSettings MakeChatSettings(
    const Checkpoint& checkpoint, absl::string_view tokenizer_bytes,
    const std::function<void(const std::string&)>& log) {
  ChatSettings out;
  out.templates = checkpoint.chat_templates();
  out.tokens = TemplateTokens(checkpoint, tokenizer_bytes);
  const auto check = [&](absl::string_view name, const std::string& text) {
    if (text.empty()) return;
    const auto parsed = ChatTemplate::Parse(text);
    if (parsed.ok()) return;
    log(absl::StrCat(name.empty() ? "" : absl::StrCat("\"", name, "\": "),
                     parsed.status().message(),
                     "; the plan is made, dsrun will refuse to chat with it"));
  };
  check("", out.templates.text);
  for (const auto& [name, text] : out.templates.named) check(name, text);
  return out;
}

}  // namespace deepslice
