// A policy's attributes, evaluated over a config.json. Internal to
// DescribeModel.
#ifndef DEEPSLICE_COMPILER_MODEL_ATTRIBUTES_H_
#define DEEPSLICE_COMPILER_MODEL_ATTRIBUTES_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "compiler/model.h"
#include "compiler/policy.h"

namespace deepslice {

// A yes or no of the config and how an error says so: "attention_bias: found
// true", "attention_bias or bias: absent, which means false".
struct ConfigFlag {
  bool value = false;
  std::string text;
  // Not the key's own value, but made of it: "normalization" of a norm's bias.
  bool derived = false;
};

// What the weights need beyond the description.
struct ModelFlags {
  std::map<std::string, ConfigFlag> biases;  // the policy's flags, by name
  ConfigFlag tied_head;
  std::string head = "causal_lm";  // TaskHeadNames
  RowLayout qkv_layout = RowLayout::kThirds;  // WeightPattern::layout_by_config
  std::string layers_place;     // the config's key for the number of layers
  int64_t position_offset = 0;  // rows of the position table before position 0
  std::vector<ModelFlags> towers;  // of ModelDescription::towers
};

// Fills family, architecture, sizes (all but vocab_size when the config has
// none or -1: it stays 0), attributes and layers; appends notes.
absl::Status DescribeAttributes(const Policy& policy, const json::Value& config,
                                ModelDescription* model, ModelFlags* flags);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_MODEL_ATTRIBUTES_H_
