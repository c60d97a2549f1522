// One sorted line per pass: what dsopt and the dumps call it, and how its
// arguments read.
#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "passes/fuse_epilogues.h"
#include "passes/fuse_gate_up.h"
#include "passes/fuse_qkv.h"
#include "passes/pass.h"
#include "passes/quantize_weights.h"
#include "passes/tensor_slice.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

using MadePass = absl::StatusOr<std::unique_ptr<Pass>>;

// The value of argument `key`, or `fallback`.
absl::string_view Find(const PassArguments& args, absl::string_view key,
                       absl::string_view fallback) {
  for (const auto& [k, v] : args) {
    if (k == key) return v;
  }
  return fallback;
}

absl::Status OnlyKeys(const PassArguments& args,
                      std::initializer_list<absl::string_view> allowed) {
  for (const auto& [k, v] : args) {
    if (std::find(allowed.begin(), allowed.end(), k) == allowed.end()) {
      std::string names;
      for (const absl::string_view a : allowed) {
        absl::StrAppend(&names, names.empty() ? "" : ", ", a);
      }
      return absl::InvalidArgumentError(
          absl::StrFormat("unknown argument \"%s\"; allowed: %s", k,
                          names.empty() ? "none" : names));
    }
  }
  return absl::OkStatus();
}

template <typename P>
MadePass Plain(const PassArguments& args) {
  DS_RETURN_IF_ERROR(OnlyKeys(args, {}));
  return std::make_unique<P>();
}

absl::StatusOr<Encoding> EncodingArg(const PassArguments& args,
                                     absl::string_view key) {
  const absl::string_view text = Find(args, key, "f32");
  const std::optional<Encoding> e = ParseEncoding(text);
  if (!e.has_value()) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s=%s: allowed are f32, f16, bf16, i8_row", key, text));
  }
  return *e;
}

MadePass MakeQuantizeWeights(const PassArguments& args) {
  DS_RETURN_IF_ERROR(OnlyKeys(args, {"weights", "base", "cache"}));
  StorageChoice choice;
  DS_ASSIGN_OR_RETURN(choice.weights, EncodingArg(args, "weights"));
  DS_ASSIGN_OR_RETURN(choice.base, EncodingArg(args, "base"));
  DS_ASSIGN_OR_RETURN(choice.cache, EncodingArg(args, "cache"));
  return std::make_unique<QuantizeWeights>(choice);
}

MadePass MakeTensorSlice(const PassArguments& args) {
  DS_RETURN_IF_ERROR(OnlyKeys(args, {"tp", "rank"}));
  int tp, rank;
  if (!absl::SimpleAtoi(Find(args, "tp", ""), &tp) ||
      !absl::SimpleAtoi(Find(args, "rank", ""), &rank)) {
    return absl::InvalidArgumentError("needs tp=N and rank=R, two integers");
  }
  return std::make_unique<TensorSlice>(tp, rank);
}

}  // namespace

const std::vector<PassInfo>& AllPasses() {
  static const auto* passes = new std::vector<PassInfo>{
      {"fuse-epilogues", "bias and residual into the linear or the addition",
       Plain<FuseEpilogues>},
      {"fuse-gate-up", "gate and up linears into one", Plain<FuseGateUp>},
      {"fuse-qkv", "q, k and v linears into one, rotation into the attention",
       Plain<FuseQkv>},
      {"quantize-weights",
       "chooses encodings: weights=, base=, cache=", MakeQuantizeWeights},
      {"tensor-slice", "the part of one tp rank: tp=, rank=", MakeTensorSlice},
  };
  return *passes;
}

}  // namespace deepslice
