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

// Calls `on_gone` from a thread of its own, at most once, when `parent`, which
// getppid() has named, has ended: within half a second, and at once when it was
// an init process, which takes the children of those that have ended.
class ParentWatch {
 public:
  ParentWatch(pid_t parent, std::function<void()> on_gone);
  ~ParentWatch();
  ParentWatch(const ParentWatch&) = delete;
  ParentWatch& operator=(const ParentWatch&) = delete;

 private:
  void Watch();

  const pid_t parent_;
  const std::function<void()> on_gone_;
  std::mutex mutex_;
  std::condition_variable condition_;
  bool stop_ = false;  // under mutex_
  std::thread thread_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_LAUNCH_HOST_H_
