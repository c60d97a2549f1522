// Values out of a config.json with the place they came from, and the checks
// that every use of one goes through.
#ifndef DEEPSLICE_COMPILER_CONFIG_VALUE_H_
#define DEEPSLICE_COMPILER_CONFIG_VALUE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schema/base/json.h"

namespace deepslice {

// A value and the key that gave it ("rope_scaling.factor"), for error texts.
// Null when the key is absent or null.
struct ConfigValue {
  json::Value value;
  std::string place;

  bool present() const { return !value.is_null(); }
};

// `key` of the config; dots lead into objects.
ConfigValue FindConfig(const json::Value& config, absl::string_view key);
// Whether the key is there, null included.
bool HasConfig(const json::Value& config, absl::string_view key);

// "config.json: PLACE: found VALUE; allowed: ALLOWED; REMEDY"; without a remedy
// "correct it" or "add it".
absl::Status ConfigError(const ConfigValue& v, absl::string_view allowed,
                         absl::string_view remedy = "");
// The same as Unimplemented: valid, but nothing else is supported.
absl::Status ConfigUnsupported(const ConfigValue& v, absl::string_view allowed,
                               absl::string_view remedy = "");
// What an error prints of a value: its JSON, cut when long.
std::string FoundText(const json::Value& v);

// Each refuses an absent value, one of another kind, and one out of range.
// Integers are written as such: 4096.0 and "4096" are refused.
absl::StatusOr<int64_t> ConfigInt(const ConfigValue& v, int64_t lo, int64_t hi);
absl::StatusOr<bool> ConfigBool(const ConfigValue& v);
absl::StatusOr<std::string> ConfigString(const ConfigValue& v);
// A finite number; integers are numbers.
absl::StatusOr<double> ConfigNumber(const ConfigValue& v);
// A number above 0 that float32 holds.
absl::StatusOr<double> ConfigPositive(const ConfigValue& v);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CONFIG_VALUE_H_
