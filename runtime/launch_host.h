// What a rank finds out about its host: its name, whether MASTER_ADDR means it,
// and the process that started the ranks.
#ifndef DEEPSLICE_RUNTIME_LAUNCH_HOST_H_
#define DEEPSLICE_RUNTIME_LAUNCH_HOST_H_

#include <sys/types.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace deepslice {

std::string HostName();

// OK when MASTER_ADDR's value is a name or an address of this host. Looks names
// up up to three times, `pause` apart. FailedPrecondition: another host.
// Unavailable: the name does not resolve.
absl::Status CheckMasterIsHere(absl::string_view master_addr,
                               absl::Duration pause = absl::Seconds(1));

// "PID@START" of the nearest process above this one that is a launcher which
// gives its launches no name (MPICH's and Intel's hydra), else "". The same in
// all ranks of such a launch.
std::string LauncherProcess();

// The process that started `launcher`, if it is deepspeed's runner, which
// starts the launcher and waits for it, but does not end it when it is killed;
// else 0.
pid_t RunnerAbove(pid_t launcher);

// Watches over the processes that a rank may not outlive: `parent`, which
// getppid() has named, and its RunnerAbove. Calls `on_gone` from a thread of
// its own, at most once, with the one that has ended, within half a second; at
// once when the parent is an init process, which takes the children of those
// that have ended.
class ParentWatch {
 public:
  ParentWatch(pid_t parent, std::function<void(pid_t ended)> on_gone);
  ~ParentWatch();
  ParentWatch(const ParentWatch&) = delete;
  ParentWatch& operator=(const ParentWatch&) = delete;

  // The process that has ended, or 0. For any thread.
  pid_t Ended() const;

 private:
  void Watch();

  const pid_t parent_;
  const bool parent_is_init_;
  const pid_t runner_;  // or 0
  const std::function<void(pid_t)> on_gone_;
  std::mutex mutex_;
  std::condition_variable condition_;
  bool stop_ = false;  // under mutex_
  std::thread thread_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_LAUNCH_HOST_H_
