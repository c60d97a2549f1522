// Where chat templates are kept: beside the weights, or in a GGUF's metadata.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_CHAT_TEMPLATES_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_CHAT_TEMPLATES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/checkpoint/checkpoint.h"
#include "schema/base/json.h"

namespace deepslice {

// Of a Hugging Face folder: chat_template.jinja and
// additional_chat_templates/NAME.jinja, which win over the "chat_template" of
// tokenizer_config.json (a text, or a list of {name, template}). Notes a
// checkpoint that has templates but no default. ResourceExhausted when one is
// longer than limits.h allows or there are too many.
absl::StatusOr<ChatTemplates> ReadChatTemplates(
    const std::string& folder, const json::Value& tokenizer_config,
    std::vector<std::string>* notes);

// Of a GGUF: tokenizer.chat_template and tokenizer.chat_template.NAME.
absl::StatusOr<ChatTemplates> GgufChatTemplates(const json::Value& metadata);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_CHAT_TEMPLATES_H_
