// Reads a CLI11 app's command line the way every command of the product does.
#ifndef DEEPSLICE_TOOLS_CLI_PARSE_H_
#define DEEPSLICE_TOOLS_CLI_PARSE_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace deepslice {

// Names that the app does not know but a person may mean.
struct CommandLineHints {
  std::vector<std::string> flags;  // with dashes
  std::vector<std::string> verbs;
};

// Reads `arguments` (see NormalizedArguments) into the app's variables; flags
// may have the names that other programs give them (flag_aliases.h) or come
// from the environment (cli_environment.h). False after --help or --version,
// which went to stdout; Internal when it could not.
// InvalidArgument is a usage error, in words that name the nearest flag or verb
// when one was unknown.
absl::StatusOr<bool> ReadCommandLine(CLI::App& app,
                                     std::vector<std::string> arguments,
                                     const CommandLineHints& hints = {});

// The same for a command that has nothing else to check: -1 when it should go
// on, else its exit code. An error is on stderr.
int ParseCommandLine(CLI::App& app, std::vector<std::string> arguments);

// The exit code of what ReadCommandLine returned when it is not true.
int UsageExitCode(const absl::Status& status);

// How much a command says besides its product and its errors.
struct Verbosity {
  bool quiet = false;    // nothing
  bool verbose = false;  // more than notes
  bool progress = true;  // of long work
};
void AddVerbosityFlags(CLI::App& app, Verbosity* verbosity);

// Checks of values (others: cli_values.h): a whole number in decimal digits, a
// number that is finite.
CLI::Validator WholeNumber(uint64_t low, uint64_t high);
CLI::Validator RealNumber(double low, double high);

// More tokens, or sequences, than any plan takes; far from where sums overflow.
inline constexpr int64_t kMostTokens = int64_t{1} << 40;

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_CLI_PARSE_H_
