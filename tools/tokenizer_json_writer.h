// A plan's tokenizer as a tokenizer.json, where the source had it in another
// form (GGUF).
#ifndef DEEPSLICE_TOOLS_TOKENIZER_JSON_WRITER_H_
#define DEEPSLICE_TOOLS_TOKENIZER_JSON_WRITER_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "schema/base/json.h"

namespace deepslice {

struct TokenizerFiles {
  json::Value tokenizer;         // tokenizer.json
  json::Value tokenizer_config;  // names its bos and eos tokens
};

// `bytes` is TokenizerTables::bytes of a plan. nullopt where tokenizer.json
// can't say it: only files that are read back to these very bytes are given
// (BPE over bytes, as Llama 3, Qwen and GPT-2 have it).
absl::optional<TokenizerFiles> WriteTokenizerFiles(absl::string_view bytes);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_TOKENIZER_JSON_WRITER_H_
