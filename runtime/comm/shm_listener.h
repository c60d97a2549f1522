// The path in the file system where rank 0 waits for the others: made only once
// its socket listens, and removed also when its process was killed.
#ifndef DEEPSLICE_RUNTIME_COMM_SHM_LISTENER_H_
#define DEEPSLICE_RUNTIME_COMM_SHM_LISTENER_H_

#include <string>

#include "absl/status/statusor.h"
#include "runtime/comm/shm_rendezvous.h"

namespace deepslice {

// Rank 0's socket, which listens at `options.address`. Makes the folder (mode
// 0700), and removes what killed processes have left in it. InvalidArgument: a
// path that is none; FailedPrecondition: a folder that others can write to;
// Aborted: another process listens there.
absl::StatusOr<ScopedFd> Listen(const ShmOptions& options);
// Removes the path of Listen.
void RemoveListener(const std::string& path);

// A socket connected to the one that listens at `path`; invalid when none does
// so yet.
absl::StatusOr<ScopedFd> ConnectTo(const std::string& path);

// Removes the path of a rank 0 that was lost, if it was killed.
void RemoveOfDead(const std::string& path);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_COMM_SHM_LISTENER_H_
