// The table of `dsrun selftest`.
#ifndef DEEPSLICE_TOOLS_SELFTEST_REPORT_H_
#define DEEPSLICE_TOOLS_SELFTEST_REPORT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "schema/base/json.h"

namespace deepslice {

struct SelftestRow {
  enum class Outcome { kPassed, kFailed, kSkipped };
  std::string what;    // "weights", "kernel linear bf16[512, 64]"
  std::string detail;  // what was compared, or what is wrong
  Outcome outcome = Outcome::kPassed;
};

class SelftestReport {
 public:
  // `count` things of this kind held, in `detail`'s words.
  void Pass(absl::string_view what, absl::string_view detail);
  void Skip(absl::string_view what, absl::string_view why);
  // The first failure of all is what status() returns.
  void Fail(absl::string_view what, const absl::Status& why);
  // Fail or Pass.
  void Add(absl::string_view what, absl::string_view detail,
           const absl::Status& status);

  // OK when nothing failed; else the first failure, with how many there are.
  absl::Status status() const;
  const std::vector<SelftestRow>& rows() const { return rows_; }
  // A line each; `color` for terminals.
  std::string Text(bool color) const;
  // {schema_version, passed, tests: [{test, outcome, detail}]}
  json::Value Json() const;

 private:
  std::vector<SelftestRow> rows_;
  absl::Status first_;
  int failed_ = 0;
};

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_SELFTEST_REPORT_H_
