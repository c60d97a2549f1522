#include "tools/dscompile_limits.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schema/base/exit_code.h"
#include "schema/base/json.h"
#include "schema/base/limits.h"
#include "tools/cli_parse.h"
#include "tools/command_line.h"

namespace deepslice {
namespace {

std::string AsText() {
  int widest = 0;
  for (const limits::Limit& l : limits::kAll) {
    widest = std::max(widest, static_cast<int>(l.spelling.size()));
  }
  std::string out;
  for (const limits::Limit& l : limits::kAll) {
    absl::StrAppendFormat(&out, "%-*s %17d %-9s %s\n", widest, l.spelling,
                          l.value, l.unit, l.subject);
  }
  return out;
}

std::string AsJson() {
  json::Value rows = json::Value::Array();
  for (const limits::Limit& l : limits::kAll) {
    json::Value row = json::Value::Object();
    row.Set("name", l.spelling);
    row.Set("value", l.value);
    row.Set("unit", l.unit);
    row.Set("of", l.subject);
    rows.Add(std::move(row));
  }
  json::Value all = json::Value::Object();
  all.Set("limits", std::move(rows));
  return json::Write(all, 2) + "\n";
}

}  // namespace

int RunLimits(const std::vector<std::string>& arguments) {
  CLI::App app(
      "Prints the largest sizes that files may have, and what is in them",
      "dscompile limits");
  bool as_json = false;
  app.add_flag("--json", as_json, "for programs");
  if (const int code = ParseCommandLine(app, arguments); code >= 0) {
    return code;
  }
  if (const absl::Status printed = Print(as_json ? AsJson() : AsText());
      !printed.ok()) {
    PrintError("dscompile", printed);
    return ExitCodeOf(printed);
  }
  return kExitDone;
}

}  // namespace deepslice
