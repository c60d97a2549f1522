#include "tools/cli_environment.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tools/cli_help.h"

namespace deepslice {
namespace {

// Whether `words`, up to a `--`, name the option.
bool IsGiven(const CLI::Option& o, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (word == "--") return false;
    for (const std::string& n : o.get_lnames()) {
      if (word == "--" + n || absl::StartsWith(word, "--" + n + "=")) {
        return true;
      }
    }
    for (const std::string& n : o.get_snames()) {
      if (absl::StartsWith(word, "-" + n)) return true;
    }
  }
  return false;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> AddFromEnvironment(
    const CLI::App& app, const GetVariable& get,
    std::vector<std::string>* arguments) {
  const std::vector<std::string> given = *arguments;
  std::vector<std::string> used, added;
  for (const CLI::Option* o : app.get_options()) {
    const std::string name = LongName(*o);
    if (name.empty() || name == "help" || name == "version") continue;
    const std::string variable = VariableOf(app, name);
    const char* value = get(variable.c_str());
    if (value == nullptr || IsGiven(*o, given) ||
        absl::c_any_of(o->get_excludes(), [&](const CLI::Option* other) {
          return IsGiven(*other, given);
        })) {
      continue;
    }
    if (o->get_items_expected_max() > 0) {
      if (*value == '\0') continue;
      added.push_back(absl::StrCat("--", name, "=", value));
    } else {
      const std::string text = absl::AsciiStrToLower(value);
      if (absl::c_linear_search(
              std::vector<std::string>{"", "0", "false", "no", "off"}, text)) {
        continue;
      }
      if (!absl::c_linear_search(
              std::vector<std::string>{"1", "true", "yes", "on"}, text)) {
        return absl::InvalidArgumentError(
            absl::StrCat(variable, ": found \"", value,
                         "\"; allowed are 1 and 0, true and false"));
      }
      added.push_back("--" + name);
    }
    used.push_back(variable);
  }
  const auto end = std::find(arguments->begin(), arguments->end(), "--");
  arguments->insert(end, added.begin(), added.end());
  return used;
}

}  // namespace deepslice
