// Components of a tokenizer.json around the model.
#ifndef DEEPSLICE_RUNTIME_TEXT_TOKENIZER_JSON_STEPS_H_
#define DEEPSLICE_RUNTIME_TEXT_TOKENIZER_JSON_STEPS_H_

#include <initializer_list>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/text/tokenizer_spec.h"
#include "schema/base/json.h"

namespace deepslice {

// A JSON value with its path, e.g. "pre_tokenizer.pretokenizers[1]". Accessors
// are InvalidArgument with the path for a value of another kind.
struct JsonAt {
  const json::Value* value;
  std::string path;

  bool is_null() const { return value == nullptr || value->is_null(); }
  // The member, with value nullptr when it is absent.
  JsonAt Member(absl::string_view key) const;
  JsonAt Item(size_t index) const;

  absl::Status Expect(json::Kind kind) const;
  absl::StatusOr<bool> BoolOr(absl::string_view key, bool fallback) const;
  absl::StatusOr<std::string> String(absl::string_view key) const;
  absl::StatusOr<int64_t> Int(absl::string_view key) const;
  absl::StatusOr<JsonAt> Array(absl::string_view key) const;
  // Unimplemented for a member that is none of these.
  absl::Status OnlyMembers(
      std::initializer_list<absl::string_view> known) const;

  absl::Status Invalid(absl::string_view what) const;
  absl::Status NotSupported(absl::string_view what) const;
};

// Each reads one component, which may be null, into `spec`. An unknown type is
// Unimplemented with its path.
absl::Status ReadNormalizer(const JsonAt& at, TokenizerSpec* spec);
absl::Status ReadPreTokenizer(const JsonAt& at, TokenizerSpec* spec);
absl::Status ReadPostProcessor(const JsonAt& at, TokenizerSpec* spec);
absl::Status ReadDecoder(const JsonAt& at, TokenizerSpec* spec);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_TOKENIZER_JSON_STEPS_H_
