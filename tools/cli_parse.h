// Parses a CLI11 app the way every command of the product does.
#ifndef DEEPSLICE_TOOLS_CLI_PARSE_H_
#define DEEPSLICE_TOOLS_CLI_PARSE_H_

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace deepslice {

// Parses `arguments` (see NormalizedArguments). Returns -1 when the program
// should go on, else the exit code: 0 after --help or --version, 2 after an
// error, which was printed on stderr as one line, with the nearest flag when one
// was unknown.
int ParseCommandLine(CLI::App& app, const std::vector<std::string>& arguments);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_CLI_PARSE_H_
