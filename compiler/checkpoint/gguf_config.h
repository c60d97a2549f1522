// Hugging Face's config keys, made from a GGUF file's metadata.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_GGUF_CONFIG_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_GGUF_CONFIG_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/checkpoint/gguf.h"
#include "compiler/checkpoint/gguf_architecture.h"

namespace deepslice {

// The tensor of per-pair factors by which llama.cpp's converter expresses
// "llama3" scaling: inv_freq[i] is divided by factor i.
inline constexpr absl::string_view kRopeFreqs = "rope_freqs.weight";

struct GgufConfig {
  json::Value config;
  int64_t query_heads = 0;
  int64_t key_heads = 0;
  std::vector<std::string> notes;
};

// Errors start with the metadata key or tensor. InvalidArgument for a value
// that no model can have; Unimplemented for one that the config can't express.
// "rope_freq_factors_tensor" names kRopeFreqs when the file holds it.
absl::StatusOr<GgufConfig> MakeGgufConfig(const GgufArchitecture& architecture,
                                          const GgufFile& file);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_GGUF_CONFIG_H_
