#include "tools/deepspeed_value.h"

#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace deepslice {
namespace {

constexpr int64_t kMostCount = int64_t{1} << 31;

// What a word may be; empty: any.
std::vector<absl::string_view> WordsOf(absl::string_view path) {
  if (absl::EndsWith(path, ".q_type")) return {"symmetric", "asymmetric"};
  if (path == "moe.type") return {"standard", "residual"};
  return {};
}

}  // namespace

std::string Shown(const json::Value& v) {
  constexpr size_t kBytes = 80;
  std::string text = json::Write(v);
  if (text.size() <= kBytes) return text;
  size_t end = kBytes;
  while (end > 0 && (static_cast<uint8_t>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

bool IsEmpty(const json::Value& v) {
  return v.is_null() || (v.is_object() && v.members().empty()) ||
         (v.is_array() && v.items().empty());
}

std::optional<bool> ReadSwitch(const json::Value& v) {
  if (v.is_bool()) return v.as_bool();
  std::string word = v.is_string() ? absl::AsciiStrToLower(v.as_string())
                     : v.is_int()  ? absl::StrCat(v.as_int())
                                   : "";
  for (const absl::string_view w : {"true", "1", "on", "yes", "t", "y"}) {
    if (word == w) return true;
  }
  for (const absl::string_view w : {"false", "0", "off", "no", "f", "n"}) {
    if (word == w) return false;
  }
  return std::nullopt;
}

std::optional<int64_t> ReadCount(const json::Value& v) {
  int64_t n = 0;
  if (v.is_int()) {
    n = v.as_int();
  } else if (v.is_number()) {
    const double d = v.as_double();
    if (!(d >= 1 && d <= kMostCount)) return std::nullopt;
    n = static_cast<int64_t>(d);
    if (static_cast<double>(n) != d) return std::nullopt;
  } else if (!v.is_string() || !absl::SimpleAtoi(v.as_string(), &n)) {
    return std::nullopt;
  }
  if (n < 1 || n > kMostCount) return std::nullopt;
  return n;
}

absl::string_view ReadDtype(const json::Value& v) {
  static constexpr struct {
    absl::string_view name, type;
  } kNames[] = {{"fp32", "fp32"}, {"float32", "fp32"},  {"float", "fp32"},
                {"fp16", "fp16"}, {"float16", "fp16"},  {"half", "fp16"},
                {"bf16", "bf16"}, {"bfloat16", "bf16"}, {"bfloat", "bf16"},
                {"int8", "int8"}};
  if (!v.is_string()) return "";
  const std::string lower = absl::AsciiStrToLower(v.as_string());
  absl::string_view name = lower;
  absl::ConsumePrefix(&name, "torch.");
  for (const auto& n : kNames) {
    if (n.name == name) return n.type;
  }
  return "";
}

bool IsDefault(const DeepSpeedKey& key, const json::Value& v) {
  const auto initial = json::Parse(key.initial);
  switch (key.value) {
    case KeyValue::kSwitch:
      return ReadSwitch(v) == ReadSwitch(*initial);
    case KeyValue::kCount:
      return ReadCount(v) == ReadCount(*initial);
    case KeyValue::kPath:
      return v.is_null() || v.as_string().empty();
    default:
      break;
  }
  if (IsEmpty(v) && IsEmpty(*initial)) return true;
  // Lists of experts may be one number.
  if (initial->is_array() && initial->items().size() == 1 && v.is_int()) {
    return json::Write(v) == json::Write(initial->items()[0]);
  }
  return json::Write(v) == json::Write(*initial);
}

absl::StatusOr<std::string> InjectionText(const json::Value& v) {
  if (v.is_string()) return v.as_string();
  const absl::Status bad = absl::InvalidArgumentError(
      "must be {\"CLASS\": [\"name.of.linear\", ...]}, the linears whose "
      "products are summed, or \"CLASS=name.of.linear,...\"");
  if (!v.is_object()) return bad;
  std::vector<std::string> classes, names;
  const auto add = [&](const json::Value& name) {
    if (!name.is_string() || name.as_string().empty() ||
        name.as_string().find_first_of(",=") != std::string::npos) {
      return false;
    }
    if (!absl::c_linear_search(names, name.as_string())) {
      names.push_back(name.as_string());
    }
    return true;
  };
  for (const auto& [block, value] : v.members()) {
    if (value.is_array() ? value.items().empty() : !value.is_string()) {
      return bad;
    }
    classes.push_back(block);
    if (value.is_string() && !add(value)) return bad;
    for (const json::Value& item : value.items()) {
      if (!add(item)) return bad;
    }
  }
  return absl::StrCat(absl::StrJoin(classes, ","), "=",
                      absl::StrJoin(names, ","));
}

std::string WrongKind(const DeepSpeedKey& key, const json::Value& v) {
  switch (key.value) {
    case KeyValue::kSwitch:
      if (ReadSwitch(v).has_value()) break;
      return "must be true or false";
    case KeyValue::kCount:
      if (ReadCount(v).has_value()) break;
      return absl::StrCat("must be a whole number from 1 to ", kMostCount);
    case KeyValue::kWord: {
      const auto words = WordsOf(key.path);
      if (v.is_string() &&
          (words.empty() || absl::c_linear_search(words, v.as_string()))) {
        break;
      }
      return words.empty()
                 ? "must be a text"
                 : absl::StrCat("must be ", absl::StrJoin(words, " or "));
    }
    case KeyValue::kDtype:
      if (!ReadDtype(v).empty()) break;
      return "must be fp32 (float32, float), fp16 (float16, half), "
             "bf16 (bfloat16, bfloat) or int8, each also as "
             "torch.NAME";
    case KeyValue::kPath:
      if (v.is_null() ||
          (v.is_string() && !absl::StrContains(v.as_string(), '\0'))) {
        break;
      }
      return "must be a path";
    case KeyValue::kCheckpoint:
      if (v.is_null() ||
          (v.is_string() && !absl::StrContains(v.as_string(), '\0'))) {
        break;
      }
      if (v.Find("checkpoints") != nullptr) break;
      return "must be a path, or a list of files with type, version "
             "and checkpoints";
    default:
      break;
  }
  return "";
}

}  // namespace deepslice
