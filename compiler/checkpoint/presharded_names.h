// The tensors that DeepSpeed's kernel injection puts in the place of a layer's,
// and what each family published in their place.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_PRESHARDED_NAMES_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_PRESHARDED_NAMES_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace deepslice {

// How a layer's queries, keys and values were published.
enum class PublishedQkv {
  kSplit,    // three linears
  kFused,    // one, all queries first, then keys, then values
  kPerHead,  // one, a query, a key and a value of each head in turn
};

// Modules are named below the layer, without .weight and .bias.
struct InjectedFamily {
  absl::string_view model_type;
  PublishedQkv published;
  // DeepSpeed keeps it as published and gives each rank its rows; else it holds
  // [queries; keys; values] of the rank.
  bool keeps_qkv;
  bool is_conv1d;                         // linears are published as [in, out]
  absl::string_view query, key, value;    // of a fused one the first alone
  absl::string_view out, up, gate, down;  // gate: "" where there is none
  // The norm that is norm_w, and the one that is mlp.attn_nw ("": none).
  absl::string_view norm, mlp_norm;
};

// nullptr when kernel injection has no such family.
const InjectedFamily* FindInjectedFamily(absl::string_view model_type);
std::string InjectedFamilyNames();

enum class Injected {
  kQkv,
  kOut,
  kUp,
  kDown,
  kNorm,
  kMlpNorm,
};
// A name as PREFIX + what it is; nothing for other tensors.
struct InjectedName {
  std::string prefix;  // "transformer.h.3."
  Injected what;
  bool is_bias;
};
absl::optional<InjectedName> ParseInjectedName(absl::string_view name);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_PRESHARDED_NAMES_H_
