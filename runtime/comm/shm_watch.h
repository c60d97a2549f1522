// Sees other ranks of a host end or stand still, and fails the launch for it.
#ifndef DEEPSLICE_RUNTIME_COMM_SHM_WATCH_H_
#define DEEPSLICE_RUNTIME_COMM_SHM_WATCH_H_

#include <poll.h>

#include <chrono>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "runtime/comm/shm_rendezvous.h"
#include "runtime/comm/shm_segment.h"

namespace deepslice {

struct ShmWatchOptions {
  int rank = 0;
  int world = 1;
  // How long another rank may be stopped (SIGSTOP, Ctrl-Z in its own shell)
  // before it counts as lost.
  absl::Duration stopped_timeout = absl::Seconds(5);
  // Whether a rank that counts as lost because it is stopped is then killed:
  // nobody else would.
  bool kill_stopped = false;
};

// A thread that lives as long as the object. An ended rank is seen through its
// socket: rank 0 watches all others, which watch rank 0. A stopped one is seen
// by all others: its own such thread counts beats in the shared memory, and
// when they stay away the kernel is asked whether the process is stopped. One
// that is not is slow, or its machine is overloaded, and is waited for; so is
// one that a debugger holds. The time in which this process stood still itself
// does not count.
class ShmWatch {
 public:
  // `segment` and `sockets` must outlive it.
  ShmWatch(const ShmSegment& segment, const std::vector<ScopedFd>& sockets,
           const ShmWatchOptions& options);
  ~ShmWatch();
  ShmWatch(const ShmWatch&) = delete;
  ShmWatch& operator=(const ShmWatch&) = delete;

 private:
  using Clock = std::chrono::steady_clock;  // stands still in a suspend
  struct Beat {
    uint32_t count = 0;
    Clock::time_point seen;  // when it changed last
  };

  void Watch();
  void HearSockets();
  void CountBeats();
  void Lose(int rank);

  const ShmSegment& segment_;
  const ShmWatchOptions options_;
  std::vector<pollfd> polled_;  // sockets, then stop_
  std::vector<int> ranks_;      // of the sockets
  std::vector<Beat> beats_;     // by rank
  Clock::time_point last_look_;
  ScopedFd stop_;
  std::thread thread_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_COMM_SHM_WATCH_H_
