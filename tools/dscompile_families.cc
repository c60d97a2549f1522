#include "tools/dscompile_families.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compiler/policy.h"
#include "schema/base/exit_code.h"
#include "schema/base/json.h"
#include "tools/cli_parse.h"
#include "tools/command_line.h"

namespace deepslice {
namespace {

std::string AsText() {
  size_t name = 0, types = 0;
  for (const Policy& p : AllPolicies()) {
    name = std::max(name, p.name.size());
    types = std::max(types, absl::StrJoin(p.model_types, ", ").size());
  }
  std::string out;
  for (const Policy& p : AllPolicies()) {
    absl::StrAppendFormat(&out, "%-*s  %-*s  %s\n", name, p.name, types,
                          absl::StrJoin(p.model_types, ", "),
                          absl::StrJoin(p.architectures, ", "));
  }
  return out;
}

json::Value List(const std::vector<std::string>& words) {
  json::Value out = json::Value::Array();
  for (const std::string& word : words) out.Add(word);
  return out;
}

std::string AsJson() {
  json::Value rows = json::Value::Array();
  for (const Policy& p : AllPolicies()) {
    json::Value row = json::Value::Object();
    row.Set("name", p.name);
    row.Set("model_types", List(p.model_types));
    row.Set("architectures", List(p.architectures));
    rows.Add(std::move(row));
  }
  json::Value all = json::Value::Object();
  all.Set("families", std::move(rows));
  return json::Write(all, 2) + "\n";
}

}  // namespace

int RunFamilies(const std::vector<std::string>& arguments) {
  CLI::App app(
      "Prints the model families that have a policy: name, model_type and "
      "architectures of config.json",
      "dscompile families");
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
