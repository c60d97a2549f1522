// What tokenizer_config.json says beside the tokenizer's own file.
#ifndef DEEPSLICE_RUNTIME_TEXT_TOKENIZER_CONFIG_H_
#define DEEPSLICE_RUNTIME_TEXT_TOKENIZER_CONFIG_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "runtime/text/tokenizer_builder.h"
#include "runtime/text/tokenizer_spec.h"
#include "schema/base/json.h"

namespace deepslice {

// Sets bos_id and eos_id from bos_token and eos_token, then lets add_bos_token
// and add_eos_token overrule what the post-processor puts around a text. Null
// and unknown members change nothing.
absl::Status ApplyTokenizerConfig(const json::Value& config,
                                  const TokenizerBuilder& builder,
                                  TokenizerSpec* spec,
                                  std::vector<std::string>* notes);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_TOKENIZER_CONFIG_H_
