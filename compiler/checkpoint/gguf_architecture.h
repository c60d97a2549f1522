// GGUF's architectures as tables: tensor names and metadata keys beside their
// Hugging Face counterparts.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_GGUF_ARCHITECTURE_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_GGUF_ARCHITECTURE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace deepslice {

// How the converter stored the rows of a tensor.
enum class GgufRows : uint8_t {
  kPublished,   // as published
  kQueryPairs,  // rotary pairs side by side, in each query head
  kKeyPairs,    // the same, in each key head
  kTransposed,  // a published [in, out] weight as [out, in]
  kBuffer,      // as published, where its name has no .weight
};

// "{i}" stands for the layer. A row serves both .weight and .bias.
struct GgufName {
  absl::string_view stored, published;
  GgufRows rows = GgufRows::kPublished;
};

// An integer "ARCH.stored" of the metadata that becomes config key `published`.
struct GgufIntKey {
  absl::string_view stored, published;
  int64_t most;  // allowed: 1 to most
  bool required = true;
};

// What stands in the config as it is here.
struct GgufConstant {
  absl::string_view key, value;
};

struct GgufArchitecture {
  absl::string_view name;  // general.architecture
  absl::Span<const GgufName> names;
  absl::Span<const GgufIntKey> int_keys;
  absl::Span<const GgufConstant> constants;
  absl::string_view architectures;  // the one entry of that config key
  // The metadata key of the norm's epsilon, and its config key.
  absl::string_view stored_eps, published_eps;
  bool rotary;  // rope.* keys apply, heads may share keys
};

// nullptr when there is no such row.
const GgufArchitecture* FindGgufArchitecture(absl::string_view name);
// "gpt2, llama, qwen2"
std::string GgufArchitectureNames();

// A stored tensor name as published; `published` is empty when no row matches.
struct PublishedName {
  std::string published;
  GgufRows rows = GgufRows::kPublished;
};
PublishedName TranslateGgufName(const GgufArchitecture& architecture,
                                absl::string_view stored);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_GGUF_ARCHITECTURE_H_
