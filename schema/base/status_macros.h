// Macros and helpers that carry absl::Status; the packaged Abseil predates
// them.
#ifndef DEEPSLICE_SCHEMA_BASE_STATUS_MACROS_H_
#define DEEPSLICE_SCHEMA_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace deepslice {

// The same status with the concatenated `context` and ": " before its message.
// An OK status is returned as it is.
template <typename... Context>
absl::Status Annotate(const absl::Status& status, const Context&... context) {
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(context..., ": ", status.message()));
}

}  // namespace deepslice

#define DS_RETURN_IF_ERROR(expr)                                            \
  do {                                                                      \
    if (absl::Status ds_status = (expr); !ds_status.ok()) return ds_status; \
  } while (false)

#define DS_CONCAT_INNER(a, b) a##b
#define DS_CONCAT(a, b) DS_CONCAT_INNER(a, b)

// DS_ASSIGN_OR_RETURN(auto x, F()): x is the value, or F's status is returned.
#define DS_ASSIGN_OR_RETURN(lhs, expr) \
  DS_ASSIGN_OR_RETURN_IMPL(DS_CONCAT(ds_or_, __LINE__), lhs, expr)
#define DS_ASSIGN_OR_RETURN_IMPL(var, lhs, expr) \
  auto var = (expr);                             \
  if (!var.ok()) return var.status();            \
  lhs = *std::move(var)

#endif  // DEEPSLICE_SCHEMA_BASE_STATUS_MACROS_H_
