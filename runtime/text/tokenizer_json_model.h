// The "model" of a tokenizer.json: vocabulary, merges, scores.
#ifndef DEEPSLICE_RUNTIME_TEXT_TOKENIZER_JSON_MODEL_H_
#define DEEPSLICE_RUNTIME_TEXT_TOKENIZER_JSON_MODEL_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "runtime/text/tokenizer_builder.h"
#include "runtime/text/tokenizer_json_steps.h"
#include "runtime/text/tokenizer_spec.h"

namespace deepslice {

// Fills the builder with the model's tokens and the spec with its options. A
// type or option that is not known is Unimplemented with its path.
absl::Status ReadJsonModel(const JsonAt& model, TokenizerBuilder* builder,
                           TokenizerSpec* spec,
                           std::vector<std::string>* notes);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_TOKENIZER_JSON_MODEL_H_
