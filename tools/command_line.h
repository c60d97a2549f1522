// What the commands' flags have in common: `-` and `_` alike, and the nearest
// name for one that is unknown.
#ifndef DEEPSLICE_TOOLS_COMMAND_LINE_H_
#define DEEPSLICE_TOOLS_COMMAND_LINE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace deepslice {

// argv without the program's name; in each long flag `_` becomes `-`, up to its
// `=` and not behind `--`.
std::vector<std::string> NormalizedArguments(int argc, const char* const* argv);

// Removes every `flag VALUE` and `flag=VALUE` from `arguments` and returns the
// last value; nullopt when the flag is absent. A flag at the end, or followed by
// another flag, has the value "": a shell expanded an unset variable.
std::optional<std::string> TakeFlag(absl::string_view flag,
                                    std::vector<std::string>* arguments);

// "unknown flag --to-p; did you mean --top-p?", the nearest of `names` when one
// is near.
std::string UnknownFlag(absl::string_view flag,
                        const std::vector<std::string>& names);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_COMMAND_LINE_H_
