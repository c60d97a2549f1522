// Which layers attend through a sliding window, from config.json.
#ifndef DEEPSLICE_COMPILER_CONFIG_WINDOW_H_
#define DEEPSLICE_COMPILER_CONFIG_WINDOW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/config_value.h"
#include "schema/base/json.h"

namespace deepslice {

// The window attributes of a policy, evaluated.
struct WindowValues {
  ConfigValue size;         // null: no window
  ConfigValue enabled;      // null: yes
  ConfigValue first_layer;  // null: 0; layers before it see everything
  ConfigValue pattern;      // p: layer i slides unless p divides i + 1
  ConfigValue layer_types;  // null: first_layer and pattern decide
  // GPT-Neo's [[["global", "local"], 12]]; without a place: the family has none
  ConfigValue attention_types;
};

// One window per layer, 0 for none. A layer_types that the family doesn't read
// must say the same as what comes out: Unimplemented otherwise. `notes` gets a
// line when the config has a window that the family does not use.
absl::StatusOr<std::vector<int64_t>> DescribeWindows(
    const WindowValues& values, int64_t layers, const json::Value& config,
    std::vector<std::string>* notes);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CONFIG_WINDOW_H_
