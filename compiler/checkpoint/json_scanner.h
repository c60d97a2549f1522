// Reads large flat JSON (safetensors headers, shard indexes) member by member
// without building values: memory is what the caller keeps.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_JSON_SCANNER_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_JSON_SCANNER_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace deepslice {

// A cursor over JSON text, which must outlive it and be UTF-8 (the caller
// checks: FindBadUtf8). Every error is InvalidArgument and starts with
// "line L, column C: "; after one the cursor's place is unspecified. Repeated
// keys are the caller's to refuse: only it knows what they name.
class JsonScanner {
 public:
  explicit JsonScanner(absl::string_view text) : text_(text) {}

  // The first byte of the next value or punctuation; '\0' at the end.
  char Peek();
  // Reads an object. `member` is called with the cursor on each value and must
  // read exactly that value.
  absl::Status Object(
      absl::FunctionRef<absl::Status(const std::string& key)> member);
  // Reads an array, in the same way.
  absl::Status Array(absl::FunctionRef<absl::Status()> item);
  absl::StatusOr<std::string> String();
  // An integer in [0, 2^63); a sign, fraction or exponent is an error.
  absl::StatusOr<int64_t> Unsigned();
  // Any number, rounded to double.
  absl::StatusOr<double> Number();
  // Reads any value and drops it.
  absl::Status Skip();
  // Only white space is left.
  absl::Status End();

  // The value under the cursor in a few words: -1, "abc", an object.
  std::string Describe();
  absl::Status Error(absl::string_view what) const;

 private:
  absl::Status Expect(char c);
  absl::string_view NumberText();
  absl::StatusOr<uint32_t> CodeUnit();

  absl::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_JSON_SCANNER_H_
