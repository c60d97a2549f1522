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
  for (int64_t i = first; i < layers; ++i) windows[i] = window;

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
