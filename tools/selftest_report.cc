#include "tools/selftest_report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/command_line.h"

namespace deepslice {
namespace {

using Outcome = SelftestRow::Outcome;

const char* NameOf(Outcome outcome) {
  switch (outcome) {
    case Outcome::kPassed:
      return "passed";
    case Outcome::kFailed:
      return "FAILED";
    case Outcome::kSkipped:
      break;
  }
  return "skipped";
}

const char* ColorOf(Outcome outcome) {
  switch (outcome) {
    case Outcome::kPassed:
      return "\033[32m";
    case Outcome::kFailed:
      return "\033[1;31m";
    case Outcome::kSkipped:
      break;
  }
  return "\033[33m";
}

}  // namespace

void SelftestReport::Pass(absl::string_view what, absl::string_view detail) {
  rows_.push_back({std::string(what), std::string(detail), Outcome::kPassed});
}

void SelftestReport::Skip(absl::string_view what, absl::string_view why) {
  rows_.push_back({std::string(what), std::string(why), Outcome::kSkipped});
}

void SelftestReport::Fail(absl::string_view what, const absl::Status& why) {
  if (++failed_ == 1) first_ = why;
  rows_.push_back(
      {std::string(what), std::string(why.message()), Outcome::kFailed});
}

void SelftestReport::Add(absl::string_view what, absl::string_view detail,
                         const absl::Status& status) {
  if (status.ok()) {
    Pass(what, detail);
  } else {
    Fail(what, status);
  }
}

absl::Status SelftestReport::status() const {
  if (failed_ == 0) return absl::OkStatus();
  return absl::Status(
      first_.code(),
      absl::StrCat("selftest: ", failed_, " of ", rows_.size(),
                   " tests failed; the first: ", first_.message()));
}

std::string SelftestReport::Text(bool color) const {
  size_t widest = 0;
  for (const SelftestRow& row : rows_) {
    widest = std::max(widest, OneLine(row.what).size());
  }
  std::string out;
  for (const SelftestRow& row : rows_) {
    absl::StrAppendFormat(
        &out, "%s%-7s%s  %-*s  %s\n", color ? ColorOf(row.outcome) : "",
        NameOf(row.outcome), color ? "\033[0m" : "", static_cast<int>(widest),
        OneLine(row.what), OneLine(row.detail));
  }
  return out;
}

json::Value SelftestReport::Json() const {
  json::Value out = json::Value::Object();
  out.Set("schema_version", 1);
  out.Set("passed", failed_ == 0);
  json::Value tests = json::Value::Array();
  for (const SelftestRow& row : rows_) {
    json::Value t = json::Value::Object();
    t.Set("test", row.what);
    t.Set("outcome",
          row.outcome == Outcome::kFailed ? "failed" : NameOf(row.outcome));
    t.Set("detail", row.detail);
    tests.Add(std::move(t));
  }
  out.Set("tests", std::move(tests));
  return out;
}

}  // namespace deepslice
