// Checked access to config.json.
#include "compiler/config_value.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace deepslice {
namespace {

constexpr double kLargestFloat = 3.4028234663852886e38;

const json::Value* Lookup(const json::Value& config, absl::string_view key) {
  const json::Value* v = &config;
  for (absl::string_view part : absl::StrSplit(key, '.')) {
    v = v->Find(part);
    if (v == nullptr) return nullptr;
  }
  return v;
}

std::string Message(const ConfigValue& v, absl::string_view allowed,
                    absl::string_view remedy) {
  return absl::StrCat(
      "config.json: ", v.place, ": ",
      v.present() ? absl::StrCat("found ", FoundText(v.value)) : "absent",
      "; allowed: ", allowed, "; ", remedy);
}

}  // namespace

ConfigValue FindConfig(const json::Value& config, absl::string_view key) {
  const json::Value* v = Lookup(config, key);
  return {v == nullptr ? json::Value() : *v, std::string(key)};
}

bool HasConfig(const json::Value& config, absl::string_view key) {
  return Lookup(config, key) != nullptr;
}

std::string FoundText(const json::Value& v) {
  if (v.is_number() && !std::isfinite(v.as_double())) {
    return std::isnan(v.as_double()) ? "NaN" : "Infinity";
  }
  constexpr size_t kLongest = 60;
  std::string text = json::Write(v);
  if (text.size() > kLongest) {
    text.resize(kLongest);
    // Not in the middle of a UTF-8 sequence.
    while (!text.empty() && (text.back() & 0x80) != 0) text.pop_back();
    text += "...";
  }
  return text;
}

absl::Status ConfigError(const ConfigValue& v, absl::string_view allowed,
                         absl::string_view remedy) {
  if (remedy.empty()) remedy = v.present() ? "correct it" : "add it";
  return absl::InvalidArgumentError(Message(v, allowed, remedy));
}

absl::Status ConfigUnsupported(const ConfigValue& v, absl::string_view allowed,
                               absl::string_view remedy) {
  if (remedy.empty()) remedy = "nothing else is supported";
  return absl::UnimplementedError(Message(v, allowed, remedy));
}

absl::StatusOr<int64_t> ConfigInt(const ConfigValue& v, int64_t lo,
                                  int64_t hi) {
  if (!v.value.is_int() || v.value.as_int() < lo || v.value.as_int() > hi) {
    return ConfigError(v, absl::StrCat("an integer from ", lo, " to ", hi));
  }
  return v.value.as_int();
}

absl::StatusOr<bool> ConfigBool(const ConfigValue& v) {
  if (!v.value.is_bool()) return ConfigError(v, "true or false");
  return v.value.as_bool();
}

absl::StatusOr<std::string> ConfigString(const ConfigValue& v) {
  if (!v.value.is_string()) return ConfigError(v, "a string");
  return v.value.as_string();
}

absl::StatusOr<double> ConfigNumber(const ConfigValue& v) {
  if (!v.value.is_number() || !std::isfinite(v.value.as_double())) {
    return ConfigError(v, "a finite number");
  }
  return v.value.as_double();
}

absl::StatusOr<double> ConfigPositive(const ConfigValue& v) {
  if (!v.value.is_number() || !std::isfinite(v.value.as_double()) ||
      v.value.as_double() <= 0 || v.value.as_double() > kLargestFloat) {
    return ConfigError(v, "a number above 0 that float32 holds");
  }
  return v.value.as_double();
}

}  // namespace deepslice
