// How ranks of a host find each other: each says hello to rank 0, which checks
// that they belong together and hands out the shared memory.
#ifndef DEEPSLICE_RUNTIME_COMM_SHM_RENDEZVOUS_H_
#define DEEPSLICE_RUNTIME_COMM_SHM_RENDEZVOUS_H_

#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/comm/shm.h"
#include "runtime/comm/shm_segment.h"

namespace deepslice {

// A file descriptor, closed at the end.
class ScopedFd {
 public:
  explicit ScopedFd(int fd = -1) : fd_(fd) {}
  ~ScopedFd();
  ScopedFd(ScopedFd&& o) noexcept : fd_(std::exchange(o.fd_, -1)) {}
  ScopedFd& operator=(ScopedFd&& o) noexcept {
    std::swap(fd_, o.fd_);
    return *this;
  }
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

 private:
  int fd_;
};

struct Meeting {
  ShmSegment segment;
  // Rank 0: one per rank, its own invalid. Others: the one to rank 0.
  std::vector<ScopedFd> sockets;
};

// Rank 0's side, and that of any other rank; errors as ConnectShm.
absl::StatusOr<Meeting> MeetAsFirst(const ShmOptions& options);
absl::StatusOr<Meeting> MeetAsOther(const ShmOptions& options);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_COMM_SHM_RENDEZVOUS_H_
