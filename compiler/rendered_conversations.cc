#include "compiler/rendered_conversations.h"

#include <memory>

#include "absl/time/time.h"
#include "compiler/plan_writer.h"
#include "runtime/text/chat_encode.h"
#include "runtime/text/chat_template.h"
#include "runtime/text/tokenizer.h"
#include "schema/base/json.h"
#include "schema/plan_format.h"

namespace deepslice {
namespace {

std::vector<std::vector<ChatMessage>> Conversations() {
  const ChatMessage system = {"system", "Answer in one word."};
  const ChatMessage user = {"user", "What is the capital of France?"};
  const ChatMessage assistant = {"assistant", "Paris."};
  const ChatMessage more = {"user", "  And of Italy <b>today</b>?\n"};
  return {{user},
          {system, user},
          {user, assistant, more},
          {system, user, assistant, more}};
}

}  // namespace

std::vector<RenderedConversation> RenderConversations(
    const ChatSettings& chat, absl::string_view tokenizer) {
  std::vector<RenderedConversation> out;
  if (chat.templates.text.empty()) return out;
  const auto parsed = ChatTemplate::Parse(chat.templates.text);
  if (!parsed.ok()) return out;
  std::unique_ptr<Tokenizer> encoder;
  if (!tokenizer.empty()) {
    if (auto loaded = Tokenizer::Load(tokenizer); loaded.ok()) {
      encoder = *std::move(loaded);
    }
  }
  RenderOptions options;
  options.tokens = chat.tokens;
  options.now = absl::FromUnixSeconds(kRenderTestTime);
  for (const std::vector<ChatMessage>& messages : Conversations()) {
    // Many templates know no system message, and say so.
    const auto pieces = (*parsed)->Render(messages, options);
    if (!pieces.ok()) continue;
    RenderedConversation r;
    r.messages = json::Write(MessagesAsJson(messages));
    for (const RenderedPiece& p : *pieces) r.text += p.text;
    if (encoder != nullptr) {
      const auto ids = EncodeChat(*encoder, *pieces);
      if (!ids.ok()) continue;
      r.ids = *ids;
    }
    out.push_back(std::move(r));
  }
  return out;
}

}  // namespace deepslice
