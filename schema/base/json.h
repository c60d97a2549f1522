// JSON values in file order, read from untrusted text with positions in every
// error, and written deterministically.
#ifndef DEEPSLICE_SCHEMA_BASE_JSON_H_
#define DEEPSLICE_SCHEMA_BASE_JSON_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace deepslice::json {

enum class Kind { kNull, kBool, kInt, kFloat, kString, kArray, kObject };
// "null", "a boolean", "an integer", ...: for error texts.
absl::string_view KindName(Kind k);

// An ordered JSON value. Integers that fit int64 are kInt, all other numbers
// kFloat (1e30 as an integer literal is a kFloat).
class Value {
 public:
  using Member = std::pair<std::string, Value>;

  Value() = default;
  Value(std::nullptr_t) {}                                    // NOLINT
  Value(bool b) : kind_(Kind::kBool), int_(b) {}              // NOLINT
  Value(int i) : kind_(Kind::kInt), int_(i) {}                // NOLINT
  Value(int64_t i) : kind_(Kind::kInt), int_(i) {}            // NOLINT
  Value(double d) : kind_(Kind::kFloat), float_(d) {}         // NOLINT
  Value(const char* s) : kind_(Kind::kString), string_(s) {}  // NOLINT
  Value(std::string s)                                        // NOLINT
      : kind_(Kind::kString), string_(std::move(s)) {}
  Value(absl::string_view s)  // NOLINT
      : kind_(Kind::kString), string_(s) {}
  static Value Array() {
    Value v;
    v.kind_ = Kind::kArray;
    return v;
  }
  static Value Object() {
    Value v;
    v.kind_ = Kind::kObject;
    return v;
  }

  Kind kind() const { return kind_; }
  bool is_null() const { return kind_ == Kind::kNull; }
  bool is_bool() const { return kind_ == Kind::kBool; }
  bool is_int() const { return kind_ == Kind::kInt; }
  bool is_number() const { return is_int() || kind_ == Kind::kFloat; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_array() const { return kind_ == Kind::kArray; }
  bool is_object() const { return kind_ == Kind::kObject; }

  // Unchecked views: meaningful only for the kind they name.
  bool as_bool() const { return int_ != 0; }
  int64_t as_int() const { return int_; }
  double as_double() const {
    return is_int() ? static_cast<double>(int_) : float_;
  }
  const std::string& as_string() const { return string_; }
  const std::vector<Value>& items() const { return items_; }
  std::vector<Value>& items() { return items_; }
  const std::vector<Member>& members() const { return members_; }
  std::vector<Member>& members() { return members_; }

  // Member `key` of an object; nullptr when absent or not an object.
  const Value* Find(absl::string_view key) const;
  Value* Find(absl::string_view key);
  // Appends, or replaces the value of an existing key.
  Value& Set(absl::string_view key, Value v);
  Value& Add(Value v) {
    items_.push_back(std::move(v));
    return items_.back();
  }

 private:
  Kind kind_ = Kind::kNull;
  int64_t int_ = 0;
  double float_ = 0;
  std::string string_;
  std::vector<Value> items_;
  std::vector<Member> members_;
};

struct ParseOptions {
  bool allow_nan_and_infinity = false;  // config.json of Mamba and others
  bool allow_trailing_commas = false;   // DeepSpeed's checkpoint.json
};

// Reads one value that fills `text` but for white space. InvalidArgument with
// "line L, column C: ..." for bad syntax, bad UTF-8, a duplicate key, a number
// out of range, depth over limits::kJsonDepth. A UTF-8 byte-order mark is an
// error.
absl::StatusOr<Value> Parse(absl::string_view text, ParseOptions options = {});

// Compact when indent < 0, else one member a line. Doubles print as
// FloatText has them, which reads back equal; bytes that are not UTF-8 as U+FFFD.
std::string Write(const Value& v, int indent = -1);

}  // namespace deepslice::json

#endif  // DEEPSLICE_SCHEMA_BASE_JSON_H_
