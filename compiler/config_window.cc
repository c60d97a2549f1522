// Sliding windows: size, switch, first layer and layer_types brought together.
#include "compiler/config_window.h"

#include "absl/strings/str_cat.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

constexpr absl::string_view kSliding = "sliding_attention";

// Whether each layer slides.
absl::StatusOr<std::vector<bool>> ReadLayerTypes(const ConfigValue& v,
                                                 int64_t layers) {
  const std::string allowed =
      absl::StrCat("a list of ", layers, ", one for each layer");
  if (!v.value.is_array()) return ConfigError(v, allowed);
  if (static_cast<int64_t>(v.value.items().size()) != layers) {
    return absl::InvalidArgumentError(absl::StrCat(
        "config.json: ", v.place, ": found a list of ", v.value.items().size(),
        "; allowed: ", allowed, "; correct it or num_hidden_layers"));
  }
  std::vector<bool> out;
  for (const json::Value& item : v.value.items()) {
    if (!item.is_string()) return ConfigError(v, "a list of strings");
    const std::string& type = item.as_string();
    if (type != kSliding && type != "full_attention") {
      return ConfigUnsupported({item, v.place},
                               "\"full_attention\" or \"sliding_attention\"");
    }
    out.push_back(type == kSliding);
  }
  return out;
}

// The layers that `types` names "local": runs of names with the number of times
// that each is repeated; GPT-Neo's published default when absent.
absl::StatusOr<std::vector<bool>> ReadAttentionTypes(
    const ConfigValue& types, int64_t layers, const json::Value& config) {
  constexpr int kDefaultRepeats = 12;
  const absl::string_view allowed =
      "a list of [[\"global\" or \"local\", ...], times], that name each layer "
      "once";
  std::vector<bool> out;
  if (!types.present()) {
    for (int i = 0; i < kDefaultRepeats; ++i) {
      out.insert(out.end(), {false, true});
    }
  }
  if (types.present() && !types.value.is_array()) {
    return ConfigError(types, allowed);
  }
  for (const json::Value& run : types.value.items()) {
    if (!run.is_array() || run.items().size() != 2 ||
        !run.items()[0].is_array() || !run.items()[1].is_int() ||
        run.items()[1].as_int() < 0 || run.items()[1].as_int() > layers) {
      return ConfigError(types, allowed);
    }
    for (int64_t n = run.items()[1].as_int(); n > 0; --n) {
      for (const json::Value& name : run.items()[0].items()) {
        const bool local = name.is_string() && name.as_string() == "local";
        if (!local && !(name.is_string() && name.as_string() == "global")) {
          return ConfigError({name, types.place}, "\"global\" or \"local\"");
        }
        out.push_back(local);
        if (static_cast<int64_t>(out.size()) > layers) break;
      }
    }
  }
  if (static_cast<int64_t>(out.size()) != layers) {
    return absl::InvalidArgumentError(
        absl::StrCat("config.json: ", types.place, ": found ",
                     types.present() ? FoundText(types.value)
                                     : "none, which means 24 layers",
                     "; allowed: ", allowed, ", ", layers,
                     " in all; correct it or num_layers"));
  }
  // The same list written out, which the published code makes from the runs.
  const ConfigValue list = FindConfig(config, "attention_layers");
  for (size_t i = 0; i < list.value.items().size(); ++i) {
    const json::Value& name = list.value.items()[i];
    if (i < out.size() && list.value.items().size() == out.size() &&
        name.is_string() && name.as_string() == (out[i] ? "local" : "global")) {
      continue;
    }
    return ConfigError({name, absl::StrCat("attention_layers[", i, "]")},
                       absl::StrCat("the same as ", types.place),
                       "keep one of the two");
  }
  return out;
}

}  // namespace

absl::StatusOr<std::vector<int64_t>> DescribeWindows(
    const WindowValues& values, int64_t layers, const json::Value& config,
    std::vector<std::string>* notes) {
  bool enabled = true;
  if (values.enabled.present()) {
    DS_ASSIGN_OR_RETURN(enabled, ConfigBool(values.enabled));
  }
  int64_t window = 0;
  if (enabled && values.size.present()) {
    DS_ASSIGN_OR_RETURN(window, ConfigInt(values.size, 1, limits::kPositions));
  }
  int64_t first = 0;
  if (window > 0 && values.first_layer.present()) {
    DS_ASSIGN_OR_RETURN(first,
                        ConfigInt(values.first_layer, 0, limits::kLayers));
  }
  std::vector<int64_t> windows(layers, 0);
  int64_t pattern = 0;
  if (values.pattern.present()) {
    DS_ASSIGN_OR_RETURN(pattern, ConfigInt(values.pattern, 1, limits::kLayers));
  }
  for (int64_t i = first; i < layers; ++i) {
    if (pattern == 0 || (i + 1) % pattern != 0) windows[i] = window;
  }
  if (!values.attention_types.place.empty()) {
    DS_ASSIGN_OR_RETURN(
        const std::vector<bool> local,
        ReadAttentionTypes(values.attention_types, layers, config));
    for (int64_t i = 0; i < layers; ++i) windows[i] = local[i] ? window : 0;
  }

  const bool reads_types = values.layer_types.present();
  const ConfigValue types =
      reads_types ? values.layer_types : FindConfig(config, "layer_types");
  if (types.present()) {
    DS_ASSIGN_OR_RETURN(const std::vector<bool> slides,
                        ReadLayerTypes(types, layers));
    for (int64_t i = 0; i < layers; ++i) {
      const std::string place = absl::StrCat(types.place, "[", i, "]");
      const json::Value& found = types.value.items()[i];
      if (reads_types) {
        if (slides[i] && window == 0) {
          return ConfigError({found, place},
                             "\"full_attention\", as the config has no window",
                             "give sliding_window (and use_sliding_window), or "
                             "correct layer_types");
        }
        windows[i] = slides[i] ? window : 0;
      } else if (slides[i] != (windows[i] > 0)) {
        return ConfigUnsupported(
            {found, place},
            windows[i] > 0 ? "\"sliding_attention\", as this family slides in "
                             "every layer"
                           : "\"full_attention\", as this family has no window "
                             "here");
      }
    }
  }
  const ConfigValue unused = FindConfig(config, "sliding_window");
  if (unused.present() && values.size.place.empty() &&
      !(unused.value.is_int() && unused.value.as_int() == 0)) {
    notes->push_back(absl::StrCat("config.json: sliding_window ",
                                  FoundText(unused.value),
                                  " has no effect in this family"));
  }
  return windows;
}

}  // namespace deepslice
