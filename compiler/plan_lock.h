// Keeps two compilers from making the same plan at once.
#ifndef DEEPSLICE_COMPILER_PLAN_LOCK_H_
#define DEEPSLICE_COMPILER_PLAN_LOCK_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace deepslice {

// Holds a lock file beside the plan, ".NAME.lock", which holds the process
// number. It goes with the object; what a killed process left is taken over by
// the next, as the system drops the lock itself.
class PlanLock {
 public:
  // `path` is the plan's folder, which need not exist; its parent must.
  // AlreadyExists "PATH: locked by process N, ..." when another process makes
  // it. Where the file system has no locks, nothing is locked.
  static absl::StatusOr<std::unique_ptr<PlanLock>> Take(
      const std::string& path);
  ~PlanLock();

 private:
  std::string file_;  // empty: nothing is held
  int fd_ = -1;
};

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_PLAN_LOCK_H_
