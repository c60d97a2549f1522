// Access to JSON by path.
#include "runtime/text/json_at.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "runtime/text/pcre_regex.h"
#include "runtime/text/utf8.h"
#include "schema/base/status_macros.h"

namespace deepslice {

std::string ShownText(absl::string_view text) {
  constexpr size_t kMost = 200;
  if (text.size() <= kMost) return absl::Utf8SafeCEscape(text);
  return absl::StrCat(absl::Utf8SafeCEscape(text.substr(0, kMost)), "...");
}

JsonAt JsonAt::Member(absl::string_view key) const {
  return {value ? value->Find(key) : nullptr,
          path.empty() ? std::string(key) : absl::StrCat(path, ".", key), file};
}

JsonAt JsonAt::Item(size_t index) const {
  return {&value->items()[index], absl::StrCat(path, "[", index, "]"), file};
}

absl::Status JsonAt::Invalid(absl::string_view what) const {
  return absl::InvalidArgumentError(
      absl::StrCat(file, ": ", ShownText(path), ": ", what));
}

absl::Status JsonAt::NotSupported(absl::string_view what) const {
  return absl::UnimplementedError(
      absl::StrCat(file, ": ", ShownText(path), ": ", what));
}

absl::Status JsonAt::Expect(json::Kind kind) const {
  if (value && value->kind() == kind) return absl::OkStatus();
  return Invalid(absl::StrCat("is ",
                              value ? json::KindName(value->kind()) : "missing",
                              "; must be ", json::KindName(kind)));
}

absl::StatusOr<bool> JsonAt::BoolOr(absl::string_view key,
                                    bool fallback) const {
  const JsonAt m = Member(key);
  if (m.is_null()) return fallback;
  DS_RETURN_IF_ERROR(m.Expect(json::Kind::kBool));
  return m.value->as_bool();
}

absl::StatusOr<std::string> JsonAt::String(absl::string_view key) const {
  const JsonAt m = Member(key);
  DS_RETURN_IF_ERROR(m.Expect(json::Kind::kString));
  return m.value->as_string();
}

absl::StatusOr<int64_t> JsonAt::Int(absl::string_view key) const {
  const JsonAt m = Member(key);
  DS_RETURN_IF_ERROR(m.Expect(json::Kind::kInt));
  return m.value->as_int();
}

absl::StatusOr<JsonAt> JsonAt::Array(absl::string_view key) const {
  JsonAt m = Member(key);
  DS_RETURN_IF_ERROR(m.Expect(json::Kind::kArray));
  return m;
}

absl::Status JsonAt::OnlyMembers(
    std::initializer_list<absl::string_view> known) const {
  for (const json::Value::Member& m : value->members()) {
    if (std::find(known.begin(), known.end(), m.first) == known.end()) {
      return Member(m.first).NotSupported(
          "this option is not known; only files without it can be read");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> JsonAt::Type() const {
  DS_RETURN_IF_ERROR(Expect(json::Kind::kObject));
  return String("type");
}

absl::StatusOr<std::string> JsonAt::Character(absl::string_view key) const {
  DS_ASSIGN_OR_RETURN(std::string text, String(key));
  if (text.empty() || DecodeUtf8(text, 0).size != text.size()) {
    return Member(key).Invalid(
        absl::StrCat("is \"", ShownText(text), "\"; must be one character"));
  }
  return text;
}

absl::Status JsonAt::CheckSteps(size_t steps) const {
  return steps <= 32 ? absl::OkStatus()
                     : Invalid(
                           "has more than 32 steps in all; at most 32 are "
                           "allowed");
}

absl::Status JsonAt::UnknownType(absl::string_view type,
                                 absl::string_view supported) const {
  return NotSupported(absl::StrCat("type \"", ShownText(type),
                                   "\" is not supported; supported are ",
                                   supported));
}

absl::Status ReadJsonSequence(
    const JsonAt& at, absl::string_view key,
    absl::FunctionRef<absl::Status(const JsonAt&)> read) {
  DS_RETURN_IF_ERROR(at.OnlyMembers({"type", key}));
  DS_ASSIGN_OR_RETURN(const JsonAt list, at.Array(key));
  DS_RETURN_IF_ERROR(list.CheckSteps(list.value->items().size()));
  for (size_t i = 0; i < list.value->items().size(); ++i) {
    DS_RETURN_IF_ERROR(read(list.Item(i)));
  }
  return absl::OkStatus();
}

absl::Status ReadPattern(const JsonAt& at, std::string* pattern,
                         bool* is_regex) {
  DS_RETURN_IF_ERROR(at.Expect(json::Kind::kObject));
  DS_RETURN_IF_ERROR(at.OnlyMembers({"Regex", "String"}));
  *is_regex = at.value->Find("Regex") != nullptr;
  DS_ASSIGN_OR_RETURN(*pattern, at.String(*is_regex ? "Regex" : "String"));
  if (pattern->empty()) {
    return at.Invalid("is empty; a pattern must match something");
  }
  if (!*is_regex) return absl::OkStatus();
  return Annotate(Regex::Compile(*pattern).status(),
                  "tokenizer.json: ", at.path, ".Regex");
}

}  // namespace deepslice
