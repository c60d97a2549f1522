// Ranks as processes of one host: memory shared through a Unix socket, which
// also tells when a rank dies. Nothing is left behind in the file system.
#ifndef DEEPSLICE_RUNTIME_COMM_SHM_H_
#define DEEPSLICE_RUNTIME_COMM_SHM_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "runtime/comm/comm.h"

namespace deepslice {

struct ShmOptions {
  int rank = 0;
  int world = 1;
  // Where rank 0 listens: an absolute path of at most 107 bytes, see
  // DefaultShmAddress. Rank 0 makes its folder (mode 0700) and removes the
  // socket when all ranks have joined, and what killed ones have left. Unused
  // when `sockets` is given.
  std::string address;
  // Instead of an address, ends of MakeRankSockets, which are taken over: rank
  // 0 gives those to ranks 1, 2, ..., any other rank its one to rank 0.
  std::vector<int> sockets;
  std::string plan_set_id;  // at most 128 bytes
  absl::Duration init_timeout = absl::Seconds(60);
  // How long a rank may keep the others waiting in a call.
  absl::Duration hang_timeout = absl::InfiniteDuration();
  // How long a rank's process may be stopped (SIGSTOP) until it is lost. One
  // that came by an address is then killed, lest it stay so for ever.
  absl::Duration stopped_timeout = absl::Seconds(5);
  // Called once in a launch, in one rank, when a rank has kept another waiting
  // so long within a step; the text names it.
  absl::Duration slow_timeout = absl::Seconds(2);
  std::function<void(absl::string_view text)> on_slow;
};

// Meets the other ranks and makes the communicator. Errors, the same in all
// ranks that have met: DeadlineExceeded with the ranks that are missing,
// FailedPrecondition (another world size, plan set or protocol), Aborted (two
// processes of one rank, a rank that ended early), each with the odd rank.
//
// Afterwards, a rank that ends without destroying its Comm is lost: within two
// seconds every call of the others fails with `rank 1 (pid 77) was lost at
// step 5`; a stopped one is lost after `stopped_timeout`. The process may not
// fork while it holds the Comm.
absl::StatusOr<std::unique_ptr<Comm>> ConnectShm(const ShmOptions& options);

// Tells the others, whose calls then fail with Cancelled, that signal `number`
// ends this process, if it holds a Comm of ConnectShm. For the handler of that
// signal, which then ends it.
void LeaveShmBySignal(int number);

// The path of the socket at which this process waits for other ranks, which it
// removes unless it is ended before; else nullptr. For signal handlers.
const char* ShmListeningPath();

// $XDG_RUNTIME_DIR/deepslice-UID/HASH.sock, or below /tmp: the same for all
// ranks that name the same launch.
std::string DefaultShmAddress(absl::string_view launch_id);

// Connected sockets for ranks that one process starts: rank 0's end and the
// other's end for each of ranks 1, 2, ... All are closed on exec; a launcher
// clears that for the ones it hands down, and closes its own copies.
struct RankSockets {
  std::vector<int> of_rank0, of_others;
};
absl::StatusOr<RankSockets> MakeRankSockets(int world);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_COMM_SHM_H_
