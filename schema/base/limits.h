// Every bound on untrusted input, as constants: kLayers, kGgufStringBytes, ...
// limits.def is the table.
#ifndef DEEPSLICE_SCHEMA_BASE_LIMITS_H_
#define DEEPSLICE_SCHEMA_BASE_LIMITS_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace deepslice::limits {

#define LIMIT(name, spelling, value, unit, subject) \
  inline constexpr int64_t k##name = value;
#include "schema/base/limits.def"
#undef LIMIT

// The same rows as data, for whoever prints or tests all of them.
struct Limit {
  absl::string_view name;      // of the constant, without its k
  absl::string_view spelling;  // what `dscompile limits` calls it
  int64_t value;
  absl::string_view unit, subject;
};
inline constexpr Limit kAll[] = {
#define LIMIT(name, spelling, value, unit, subject) \
  {#name, spelling, value, unit, subject},
#include "schema/base/limits.def"
#undef LIMIT
};

}  // namespace deepslice::limits

#endif  // DEEPSLICE_SCHEMA_BASE_LIMITS_H_
