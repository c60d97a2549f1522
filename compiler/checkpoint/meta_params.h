// The params.json of Meta's LLaMA folders as the config of Hugging Face's
// llama or mistral.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_META_PARAMS_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_META_PARAMS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schema/base/json.h"

namespace deepslice {

// What the tensors' shapes follow from.
struct MetaParams {
  int64_t dim = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0;
  int64_t vocab_size = 0;  // 0: as the embedding has rows
  int64_t inner_size = 0;  // by the formula or hidden_dim; 0: not said
  int64_t ranks = 0;       // model_parallel_size; 0: not said
};

// Reads `path`. A key that may change what the model computes and is not read
// here is Unimplemented by name; null, false and -1 turn such a key off.
absl::StatusOr<json::Value> ReadMetaParams(const std::string& path);
absl::StatusOr<MetaParams> DescribeMetaParams(const json::Value& params);

// The config, of all that doesn't follow from the tensors: vocab_size,
// intermediate_size and tie_word_embeddings are for the caller to set. Notes
// say what had to be guessed.
absl::StatusOr<json::Value> MetaConfig(const json::Value& params,
                                       const MetaParams& described,
                                       std::vector<std::string>* notes);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_META_PARAMS_H_
