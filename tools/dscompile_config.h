// dscompile --config: DeepSpeed's inference configuration in the place of
// flags; `dscompile deepspeed-keys` lists its keys.
#ifndef DEEPSLICE_TOOLS_DSCOMPILE_CONFIG_H_
#define DEEPSLICE_TOOLS_DSCOMPILE_CONFIG_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/deepspeed_config.h"

namespace deepslice {

// The option's value as it was typed; "" when it was not.
std::string TypedValue(const CLI::App& app, const std::string& flag);

// A usage error when a flag was typed and its key says another value, as a
// keyword of init_inference may not differ from its `config`. Types are the
// same under every name, paths when they lead to the same place.
absl::Status CheckConflicts(const DeepSpeedConfig& config, const CLI::App& app);

// Gives the settings of dscompile's flags that were not typed to the app's
// options. A path that leads nowhere from here is tried from the
// configuration's folder. InvalidArgument names the key whose value its flag
// does not take.
absl::Status ApplyConfig(const DeepSpeedConfig& config, CLI::App& app);

// The configuration's notes, one more for a type that none gave, and those of
// settings that are dsrun's.
std::vector<std::string> ConfigNotes(const DeepSpeedConfig& config,
                                     const CLI::App& app);

// `arguments`: what follows the word deepspeed-keys. Prints the keys, with
// --json an object {"keys": [{"key", "alias", "default", "here", "how"}, ...]},
// with --markdown the table of compiler/DEEPSPEED.md. Returns the exit code.
int RunDeepSpeedKeys(const std::vector<std::string>& arguments);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_DSCOMPILE_CONFIG_H_
