// What a plan says about chats: templates, and the tokens they may name.
#ifndef DEEPSLICE_COMPILER_CHAT_SETTINGS_H_
#define DEEPSLICE_COMPILER_CHAT_SETTINGS_H_

#include <functional>
#include <string>

#include "compiler/checkpoint/checkpoint.h"
#include "compiler/plan_writer.h"

namespace deepslice {

// Templates as the checkpoint has them, each that can't be read noted with its
// line: the compile goes on, and a chat with it is refused. Tokens come from
// tokenizer_config.json, else special_tokens_map.json, else the tokenizer; one
// that a file sets to null stays undefined, as for its other readers.
ChatSettings MakeChatSettings(
    const Checkpoint& checkpoint, absl::string_view tokenizer_bytes,
    const std::function<void(const std::string&)>& log);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHAT_SETTINGS_H_
