// Conversations to ids: two messages and a template. What a user writes never
// becomes a control token.
#include <algorithm>
#include <string>
#include <vector>

#include "runtime/text/chat_encode.h"
#include "runtime/text/chat_template.h"
#include "runtime/text/testing_tokenizers.h"
#include "tests/fuzz/fuzz_target.h"

namespace deepslice {
namespace {

constexpr absl::string_view kControl[] = {
    "<s>", "</s>", "<|im_start|>", "<|im_end|>", "[INST]", "[/INST]", "<s><s>"};

const Tokenizer& ControlTokenizer() {
  static const testing_tokenizers::Loaded* const loaded = [] {
    json::Value file = testing_tokenizers::ByteLevelFile(
        {{"<", "s"}, {"i", "m"}, {"\xC4\xA0", "a"}});
    json::Value added = json::Value::Array();
    int64_t id = 1000;
    for (const absl::string_view token : kControl) {
      added.Add(testing_tokenizers::AddedTokenJson(token, id++, true));
    }
    file.Set("added_tokens", std::move(added));
    auto made = testing_tokenizers::LoadFile(file);
    FUZZ_CHECK(made.ok());
    return new testing_tokenizers::Loaded(*std::move(made));
  }();
  return *loaded->tokenizer;
}

// How often one of the control tokens begins in `text`.
int64_t CountControl(absl::string_view text) {
  int64_t count = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    for (const absl::string_view token : kControl) {
      if (text.substr(at, token.size()) == token) {
        ++count;
        break;
      }
    }
  }
  return count;
}

FUZZ_TARGET(chat_encode) {
  const auto parts = SplitParts(input, 3);
  const auto chat = ChatTemplate::Parse(parts[2]);
  if (!chat.ok()) return CheckRefusal(chat.status());
  RenderOptions options;
  options.tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  options.now = absl::FromUnixSeconds(1767225600);
  const auto pieces = (*chat)->Render(
      {{"system", std::string(parts[0])}, {"user", std::string(parts[1])}},
      options);
  if (!pieces.ok()) return CheckRefusal(pieces.status());
  int64_t trusted = 0, size = 0;
  for (const RenderedPiece& piece : *pieces) {
    if (!piece.from_user) trusted += CountControl(piece.text);
    size += static_cast<int64_t>(piece.text.size());
  }
  if (size > 4096) return;  // the same text many times
  const Tokenizer& tokenizer = ControlTokenizer();
  const auto ids = EncodeChat(tokenizer, *pieces);
  FUZZ_CHECK(ids.ok());
  FUZZ_CHECK(std::count_if(ids->begin(), ids->end(), [&](int32_t id) {
               return tokenizer.IsSpecial(id);
             }) <= trusted);
}

}  // namespace
}  // namespace deepslice
