// The memory that the ranks of a host share: who has come how far, why the
// launch failed, and two buffers a rank for data.
#ifndef DEEPSLICE_RUNTIME_COMM_SHM_SEGMENT_H_
#define DEEPSLICE_RUNTIME_COMM_SHM_SEGMENT_H_

#include <atomic>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace deepslice {

// One rank's words. Meetings are numbered 1, 2, ...; numbers may wrap.
struct alignas(128) ShmRank {
  std::atomic<uint32_t> arrived;   // meetings this rank has come to
  std::atomic<uint32_t> sleepers;  // ranks asleep on `arrived`
  // 1: ended in good order; 128 + n: by signal n, which is no failure.
  std::atomic<uint32_t> left;
  std::atomic<uint32_t> beat;  // changes while the process is not stopped
  uint32_t pid;
  std::atomic<int64_t> step;
  uint64_t call[2];  // CallWord, by parity of the meeting
};

// How long a rank waits for another, and in which way.
struct ShmPatience {
  absl::Duration spin;                             // before it sleeps
  absl::Duration hang = absl::InfiniteDuration();  // then the launch fails
  absl::Duration slow = absl::InfiniteDuration();  // then it says so
};

// The memory, mapped. All atomics are lock-free, so they work between
// processes.
class ShmSegment {
 public:
  static constexpr int64_t kBufferBytes = 256 << 10;
  static constexpr int64_t kBufferFloats = kBufferBytes / 4;

  static int64_t Bytes(int world);
  // A new memory file of Bytes(world) zeros whose size is sealed; the caller
  // closes it.
  static absl::StatusOr<int> CreateFile(int world);
  // Maps a file of CreateFile; FailedPrecondition when its size is another.
  static absl::StatusOr<ShmSegment> Map(int fd, int world);
  ~ShmSegment();
  ShmSegment(ShmSegment&& o) noexcept;
  ShmSegment& operator=(ShmSegment&&) = delete;

  ShmRank& rank(int r) const;
  // Where rank r publishes at a meeting; free for r again two meetings later.
  float* buffer(int r, uint32_t meeting) const;

  // Comes to meeting n with `call`: what this rank wrote before can be read by
  // ranks that meet it.
  void Arrive(int me, uint32_t n, uint64_t call) const;
  // Waits until `other` has come to meeting n; calls `on_slow` at most once.
  // Aborted when the launch failed or `other` left, Cancelled when a signal
  // ended it.
  absl::Status WaitFor(int other, uint32_t n, const ShmPatience& patience,
                       absl::FunctionRef<void()> on_slow) const;
  // True for the first call among all ranks.
  bool FirstToTellSlow() const;

  // Fails the launch and wakes all ranks; the first reason stays. Whether this
  // is the first.
  bool Fail(const absl::Status& why) const;
  bool failed() const;
  // The reason; `failed()` holds.
  absl::Status failure() const;
  // Why the others end when rank r is gone and `left` is not 0.
  absl::Status EndOf(int r) const;
  // "rank 1 (pid 77)".
  std::string Name(int r) const;
  void Wake(int r) const;

 private:
  struct Header;
  ShmSegment(char* base, int world) : base_(base), world_(world) {}
  Header& header() const;
  absl::Status SleepFor(int other, uint32_t n, const ShmPatience& patience,
                        absl::FunctionRef<void()> on_slow) const;

  char* base_;
  int world_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_COMM_SHM_SEGMENT_H_
