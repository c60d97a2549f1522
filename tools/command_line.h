// What the commands have in common: how they start and end, stdout and stderr,
// and flags: `-` and `_` alike, and the nearest name for one that is unknown.
#ifndef DEEPSLICE_TOOLS_COMMAND_LINE_H_
#define DEEPSLICE_TOOLS_COMMAND_LINE_H_

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace deepslice {

// Runs a command's `main_body` and returns its exit code. Before it, a closed
// stdin, stdout or stderr becomes /dev/null, lest a file that is opened later
// take its number and what was meant for it, and a reader of stdout that goes
// away becomes an error of Print, which ends the command in silence with
// kExitBrokenPipe. An exception, of any thread, ends in one
// line: memory or threads that the system does not give are "does not fit".
int RunProgram(const char* name, int (*main_body)(int, char**), int argc,
               char** argv);

// What an exception says: ResourceExhausted when the system gave no memory or
// no thread, else Internal. Null counts as unknown.
absl::Status StatusOfException(const std::exception_ptr& exception);

// Writes to stdout and flushes; Internal when that fails (closed, full).
absl::Status Print(absl::string_view text);

// Whether `fd` is a terminal that may get codes for colour and lines drawn
// anew: not with NO_COLOR set, nor with TERM=dumb.
bool UseTerminalCodes(int fd);

// The whole of a file; "-" is stdin. ResourceExhausted beyond `max_bytes`.
absl::StatusOr<std::string> ReadInput(const std::string& path,
                                      int64_t max_bytes);

// To a file; "-" is stdout.
absl::Status WriteOutput(const std::string& path, absl::string_view text);

// "name: message" on stderr; nothing when Print has found the reader of stdout
// gone.
void PrintError(absl::string_view name, const absl::Status& status);

// Control characters as escapes: one line, whatever the names in it hold.
std::string OneLine(absl::string_view text);

// argv without the program's name; in each long flag `_` becomes `-`, up to its
// `=` and not behind `--`.
std::vector<std::string> NormalizedArguments(int argc, const char* const* argv);

// Removes every `flag VALUE` and `flag=VALUE` from `arguments` and returns the
// last value; nullopt when the flag is absent. A flag at the end, or followed
// by another flag, has the value "": a shell expanded an unset variable.
std::optional<std::string> TakeFlag(absl::string_view flag,
                                    std::vector<std::string>* arguments);

// "unknown flag --to-p; did you mean --top-p?", the nearest of `names` when one
// is near.
std::string UnknownFlag(absl::string_view flag,
                        const std::vector<std::string>& names);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_COMMAND_LINE_H_
