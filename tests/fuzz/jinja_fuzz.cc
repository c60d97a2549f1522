// Chat templates: the variables as a JSON object, then the template.
#include <string>

#include "runtime/text/chat_template.h"
#include "schema/base/limits.h"
#include "tests/fuzz/fuzz_target.h"

namespace deepslice {
namespace {

FUZZ_TARGET(jinja) {
  const auto parts = SplitParts(input, 2);
  const auto chat = ChatTemplate::Parse(parts[1]);
  if (!chat.ok()) return CheckRefusal(chat.status());
  const auto variables = json::Parse(parts[0]);
  RenderOptions options;
  json::Value messages = json::Value::Array();
  if (variables.ok() && variables->is_object()) {
    options.arguments = *variables;
    const json::Value* given = variables->Find("messages");
    if (given != nullptr && given->is_array()) messages = *given;
  }
  options.tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  options.now = absl::FromUnixSeconds(1767225600);
  const auto pieces = (*chat)->RenderJson(messages, options);
  if (!pieces.ok()) return CheckRefusal(pieces.status());
  size_t size = 0;
  for (size_t i = 0; i < pieces->size(); ++i) {
    const RenderedPiece& piece = (*pieces)[i];
    FUZZ_CHECK(!piece.text.empty());
    FUZZ_CHECK(i == 0 || piece.from_user != (*pieces)[i - 1].from_user);
    size += piece.text.size();
  }
  FUZZ_CHECK(size <= static_cast<size_t>(limits::kTemplateOutputBytes));
}

}  // namespace
}  // namespace deepslice
