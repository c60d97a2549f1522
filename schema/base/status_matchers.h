// GoogleTest helpers for absl::Status; tests only.
#ifndef DEEPSLICE_SCHEMA_BASE_STATUS_MATCHERS_H_
#define DEEPSLICE_SCHEMA_BASE_STATUS_MATCHERS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace deepslice {

inline const absl::Status& StatusOf(const absl::Status& s) { return s; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& s) {
  return s.status();
}

inline testing::AssertionResult HasStatus(const absl::Status& s,
                                          absl::StatusCode code,
                                          absl::string_view part) {
  if (s.code() == code && absl::StrContains(s.message(), part)) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << "got " << s.ToString() << "\nwanted "
                                     << absl::StatusCodeToString(code)
                                     << " with \"" << std::string(part) << "\"";
}

}  // namespace deepslice

#define DS_ASSERT_OK(expr)                         \
  do {                                             \
    const auto& ds_s = (expr);                     \
    ASSERT_TRUE(::deepslice::StatusOf(ds_s).ok())  \
        << ::deepslice::StatusOf(ds_s).ToString(); \
  } while (false)

#define DS_ASSERT_OK_AND_ASSIGN(lhs, expr) \
  DS_ASSERT_OK_AND_ASSIGN_IMPL(DS_CONCAT(ds_test_or_, __LINE__), lhs, expr)
#define DS_ASSERT_OK_AND_ASSIGN_IMPL(var, lhs, expr) \
  auto var = (expr);                                 \
  ASSERT_TRUE(var.ok()) << var.status().ToString();  \
  lhs = *std::move(var)

// The status of `expr` has this code (an absl::StatusCode enumerator) and its
// message holds `part`.
#define DS_EXPECT_ERROR(expr, code, part)                         \
  EXPECT_TRUE(::deepslice::HasStatus(::deepslice::StatusOf(expr), \
                                     ::absl::StatusCode::code, part))

#include "schema/base/status_macros.h"

#endif  // DEEPSLICE_SCHEMA_BASE_STATUS_MATCHERS_H_
