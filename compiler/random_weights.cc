#include "compiler/random_weights.h"

#include <cmath>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "compiler/checkpoint/synthetic.h"
#include "compiler/config_support.h"
#include "compiler/config_value.h"
#include "compiler/model_attributes.h"
#include "compiler/model_slots.h"
#include "compiler/policy.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

absl::StatusOr<DType> DTypeOf(const json::Value& config) {
  ConfigValue v = FindConfig(config, "dtype");
  if (!v.present()) v = FindConfig(config, "torch_dtype");
  if (!v.present()) return DType::kF32;
  DS_ASSIGN_OR_RETURN(const std::string text, ConfigString(v));
  const absl::string_view name = absl::StripPrefix(text, "torch.");
  if (name == "float32" || name == "float64" || name == "auto") {
    return DType::kF32;
  }
  if (name == "float16") return DType::kF16;
  if (name == "bfloat16") return DType::kBF16;
  return ConfigError(v, "float32, float16 or bfloat16");
}

SyntheticTensor ValuesOf(const WeightPattern& pattern,
                         const ModelDescription& model) {
  const WeightSlot& slot = *pattern.slots[0];
  SyntheticTensor out;
  out.transposed = pattern.transposed && slot.cols != SlotDim::kNone;
  if (slot.cols != SlotDim::kNone) {
    // SyntheticUnit deviates by 1 / (4 sqrt(3)). A power of two keeps the
    // product exact, and so the same on every device.
    const double wanted = 4 * std::sqrt(3.0 / SlotSize(model, slot.cols));
    out.scale = static_cast<float>(std::exp2(std::round(std::log2(wanted))));
  } else if ((slot.role == Role::kNorm || slot.role == Role::kAttnQNorm ||
              slot.role == Role::kAttnKNorm) &&
             !absl::EndsWith(slot.name, ".bias")) {
    out.mean = static_cast<float>(1 - model.norm_offset);
  } else {
    out.scale = 0.25f;
  }
  return out;
}

// The tensors of one stack.
void AddTensors(const Policy& policy, const ModelDescription& model,
                const ModelFlags& flags, DType dtype,
                std::vector<TensorInfo>* out) {
  for (const WeightPattern& pattern : policy.weights) {
    if (pattern.is_head() && model.tied_head) continue;
    if (!IsWanted(pattern, flags)) continue;
    const NamePattern names(pattern.name, policy.prefixes[0]);
    TensorInfo t;
    t.dtype = dtype;
    t.shape = PublishedShape(pattern, model, flags);
    t.synthetic = ValuesOf(pattern, model);
    const int64_t layers = pattern.per_layer() ? model.layers : 1;
    const int64_t parts = names.per_head() ? t.shape[0] / model.head_dim : 1;
    t.shape[0] /= parts;
    for (int64_t layer = 0; layer < layers; ++layer) {
      for (int64_t h = 0; h < parts; ++h) {
        t.name = names.Name(layer, h);
        out->push_back(t);
      }
    }
  }
}

// `given` instead of the policy that the config names, if any.
absl::StatusOr<std::vector<TensorInfo>> ListTensors(const Policy* given,
                                                    const json::Value& whole) {
  const std::vector<std::string> sections = SectionsOf(whole);
  DS_RETURN_IF_ERROR(CheckConfigSupported(whole, sections));
  const json::Value config = WithOlderSections(whole, sections);
  const Policy* policy = given;
  if (policy == nullptr) {
    DS_ASSIGN_OR_RETURN(policy, MatchPolicy(config));
  }
  ModelDescription model;
  ModelFlags flags;
  DS_RETURN_IF_ERROR(DescribeAttributes(*policy, config, &model, &flags));
  if (model.vocab_size == 0) {
    return ConfigError(FindConfig(config, "vocab_size"),
                       "the number of tokens, as no embedding shows it");
  }
  DS_ASSIGN_OR_RETURN(const DType dtype, DTypeOf(config));
  std::vector<TensorInfo> out;
  if (!policy->scale_tensor.empty()) {
    TensorInfo t;
    t.name = policy->scale_tensor;
    t.dtype = dtype;
    t.synthetic = SyntheticTensor();
    t.synthetic->mean = 2.65f;  // ln(1 / 0.07), where CLIP's training begins
    t.synthetic->scale = 0x1p-7f;
    out.push_back(std::move(t));
  }
  AddTensors(*policy, model, flags, dtype, &out);
  for (size_t i = 0; i < policy->towers.size(); ++i) {
    AddTensors(policy->towers[i], model.towers[i], flags.towers[i], dtype,
               &out);
  }
  return out;
}

}  // namespace

absl::StatusOr<std::vector<TensorInfo>> ListTensors(const json::Value& config) {
  return ListTensors(nullptr, config);
}

absl::StatusOr<std::unique_ptr<Checkpoint>> OpenRandomWeights(
    const std::string& path, uint64_t seed, const std::string& policy_text,
    const std::string& policy_name) {
  Policy own;
  if (!policy_text.empty()) {
    DS_ASSIGN_OR_RETURN(own, ParsePolicyFile(policy_text, policy_name));
  }
  return OpenSyntheticCheckpoint(path, seed, [&](const json::Value& config) {
    return ListTensors(policy_text.empty() ? nullptr : &own, config);
  });
}

}  // namespace deepslice
