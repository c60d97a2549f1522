// Starts all ranks of a plan on this host and stays as their supervisor: one
// rank's end is everybody's, with one line that names the root cause.
#ifndef DEEPSLICE_RUNTIME_SPAWN_H_
#define DEEPSLICE_RUNTIME_SPAWN_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace deepslice {

// What a started rank finds on its command line, in --spawned.
struct SpawnedRank {
  int rank = 0;
  int world = 1;
  std::vector<int> sockets;  // as ShmOptions::sockets
  int report_fd = -1;        // for ReportFailure

  std::string ToFlag() const;  // "1/2 sockets 5 report 6"
  static absl::StatusOr<SpawnedRank> FromFlag(absl::string_view text);
};

// In a started rank: hands the reason of its end to the supervisor, which
// prints it if it is the root cause. The rank then exits, and prints nothing.
void ReportFailure(int report_fd, const absl::Status& why);

// How a launch ended. `why` is OK when the ranks are done (exit code 0) or were
// interrupted (130, 143, 129 for SIGINT, SIGTERM, SIGHUP).
struct LaunchEnd {
  int exit_code = 0;
  absl::Status why;
};

// Runs this program `world` times with `arguments` (without the program's
// name) and --spawned, and waits. Rank 0 keeps stdin, stdout and the terminal's
// SIGINT; the others ignore SIGINT and read nothing. SIGINT, SIGTERM and SIGHUP
// (but for nohup's) that were sent to this process go on to rank 0. When a rank
// dies or fails, the others have half a second to say what they know, and are
// then killed; they are also killed when this process dies. The process may
// have no other thread.
absl::StatusOr<LaunchEnd> RunRanks(const std::vector<std::string>& arguments,
                                   int world);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_SPAWN_H_
