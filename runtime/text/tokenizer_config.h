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

// Null and unknown members change nothing.

// Sets bos_id and eos_id where bos_token and eos_token speak of them.
absl::Status NameSpecialTokens(const json::Value& config,
                               const TokenizerBuilder& builder,
                               TokenizerSpec* spec,
                               std::vector<std::string>* notes);

// Lets add_bos_token and add_eos_token overrule prefix_ids and suffix_ids.
absl::Status PlaceSpecialTokens(const json::Value& config, TokenizerSpec* spec,
                                std::vector<std::string>* notes);

// The tokens of added_tokens_decoder, matched in the text as it comes; for
// files that have no added tokens of their own. `*any`: there was one.
absl::Status AddDeclaredTokens(const json::Value& config,
                               TokenizerBuilder* builder, bool* any);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_TOKENIZER_CONFIG_H_
