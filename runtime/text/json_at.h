// A JSON value with its path, for readers whose errors name the place.
#ifndef DEEPSLICE_RUNTIME_TEXT_JSON_AT_H_
#define DEEPSLICE_RUNTIME_TEXT_JSON_AT_H_

#include <initializer_list>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schema/base/json.h"

namespace deepslice {

// A value of a tokenizer.json, e.g. at "pre_tokenizer.pretokenizers[1]".
// Accessors are InvalidArgument with the path for a value of another kind.
struct JsonAt {
  const json::Value* value;
  std::string path;
  absl::string_view file = "tokenizer.json";

  bool is_null() const { return value == nullptr || value->is_null(); }
  // The member, with value nullptr when it is absent.
  JsonAt Member(absl::string_view key) const;
  JsonAt Item(size_t index) const;

  absl::Status Expect(json::Kind kind) const;
  absl::StatusOr<bool> BoolOr(absl::string_view key, bool fallback) const;
  absl::StatusOr<std::string> String(absl::string_view key) const;
  absl::StatusOr<int64_t> Int(absl::string_view key) const;
  absl::StatusOr<JsonAt> Array(absl::string_view key) const;
  // The member "type" of an object.
  absl::StatusOr<std::string> Type() const;
  // A member that is exactly one character.
  absl::StatusOr<std::string> Character(absl::string_view key) const;
  // Unimplemented for a member that is none of these.
  absl::Status OnlyMembers(
      std::initializer_list<absl::string_view> known) const;
  // A plan holds at most 64 steps of a kind: a file, half as many.
  absl::Status CheckSteps(size_t steps) const;

  absl::Status Invalid(absl::string_view what) const;
  absl::Status NotSupported(absl::string_view what) const;
  absl::Status UnknownType(absl::string_view type,
                           absl::string_view supported) const;
};

// Of a text that a file holds, what an error shows: the start, in which there
// are no control characters.
std::string ShownText(absl::string_view text);

// Calls `read` for each item of the list `key` of a Sequence.
absl::Status ReadJsonSequence(
    const JsonAt& at, absl::string_view key,
    absl::FunctionRef<absl::Status(const JsonAt&)> read);

// {"String": ...} or {"Regex": ...}; a pattern that can't be used is an error.
absl::Status ReadPattern(const JsonAt& at, std::string* pattern,
                         bool* is_regex);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_JSON_AT_H_
