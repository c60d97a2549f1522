// Flags from the environment: --top-k of dsrun from DSRUN_TOP_K.
#ifndef DEEPSLICE_TOOLS_CLI_ENVIRONMENT_H_
#define DEEPSLICE_TOOLS_CLI_ENVIRONMENT_H_

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace deepslice {

// The value of a variable; nullptr when it is not set.
using GetVariable = std::function<const char*(const char* name)>;

// Adds to `arguments` every flag of `app` that a variable gives and the
// arguments neither give nor rule out: the command line wins. A switch is on
// for 1, true, yes and on, off for 0, false, no, off and the empty text;
// InvalidArgument names the variable for another. Returns the variables used.
absl::StatusOr<std::vector<std::string>> AddFromEnvironment(
    const CLI::App& app, const GetVariable& get,
    std::vector<std::string>* arguments);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_CLI_ENVIRONMENT_H_
