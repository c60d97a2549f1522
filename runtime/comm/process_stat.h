// What the kernel tells of another process.
#ifndef DEEPSLICE_RUNTIME_COMM_PROCESS_STAT_H_
#define DEEPSLICE_RUNTIME_COMM_PROCESS_STAT_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace deepslice {

struct ProcessStat {
  std::string name;  // of the program, at most 15 bytes
  // R runs or wants to, S and D wait, T was stopped by a signal, t by a
  // debugger, Z has ended.
  char state = '?';
  pid_t parent = 0;
  uint64_t start = 0;  // in clock ticks since boot; with the pid it is unique
};

// /proc/PID/stat; nullopt when there is no such process, or no /proc.
std::optional<ProcessStat> ReadProcessStat(pid_t pid);
// Its one line; nullopt when it is none.
std::optional<ProcessStat> ParseProcessStat(absl::string_view line);

// The words of a process's command line, at most 4096 bytes of them; empty when
// it has ended.
std::vector<std::string> ReadCommandLine(pid_t pid);

// Whether both run the same program file. False when that can't be told.
bool RunsSameProgram(pid_t a, pid_t b);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_COMM_PROCESS_STAT_H_
