// What --help prints, and the same as data for the manual.
#ifndef DEEPSLICE_TOOLS_CLI_HELP_H_
#define DEEPSLICE_TOOLS_CLI_HELP_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "schema/base/json.h"

namespace deepslice {

// A flag's own long name without dashes: the first; "" when it has none.
std::string LongName(const CLI::Option& option);

// Every spelling with dashes: short ones, the long name, other long ones, then
// the peers' (flag_aliases.h).
std::vector<std::string> Spellings(const CLI::Option& option);

// The option's sentence with its default and the flags that it needs or
// excludes.
std::string OptionHelp(const CLI::Option& option);

// Description, usage, arguments, flags by group, verbs and footer, in lines of
// at most `width` columns where words allow it.
std::string HelpText(const CLI::App& app, int width = 80);

// {command, description, usage, arguments: [{name, help}], groups: [{name,
// flags: [{names, value, help}]}], verbs: [{name, help}], footer}.
json::Value HelpJson(const CLI::App& app);

// The variable that a flag is read from: DSRUN_TOP_K for `dsrun bench` and
// "top-k".
std::string VariableOf(const CLI::App& app, const std::string& long_name);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_CLI_HELP_H_
