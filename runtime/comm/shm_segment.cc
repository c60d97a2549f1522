#include "runtime/comm/shm_segment.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "schema/base/checked_math.h"

namespace deepslice {

static_assert(std::atomic<uint32_t>::is_always_lock_free);
static_assert(std::atomic<int64_t>::is_always_lock_free);

namespace {

enum : uint32_t { kRunning = 0, kFailing = 1, kFailed = 2 };
constexpr size_t kTextBytes = 2000;
constexpr int64_t kPage = 4096;
constexpr absl::Duration kSleep = absl::Milliseconds(200);

int64_t ControlBytes(int world) {
  return kPage + RoundUp(world * int64_t{sizeof(ShmRank)}, kPage);
}

// The kernel sees a word of the memory, whichever process mapped it where.
void FutexWait(const std::atomic<uint32_t>& word, uint32_t value,
               absl::Duration at_most) {
  const timespec limit = absl::ToTimespec(at_most);
  syscall(SYS_futex, &word, FUTEX_WAIT, value, &limit, nullptr, 0);
}
void FutexWakeAll(const std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

int64_t NowNanos() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * int64_t{1'000'000'000} + t.tv_nsec;
}

inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Whether `arrived` is at meeting n or beyond, also when numbers wrap.
bool Reached(uint32_t arrived, uint32_t n) {
  return static_cast<int32_t>(arrived - n) >= 0;
}

}  // namespace

struct ShmSegment::Header {
  std::atomic<uint32_t> state;
  std::atomic<uint32_t> slow_told;
  int32_t code;
  char text[kTextBytes];  // NUL-terminated
};

int64_t ShmSegment::Bytes(int world) {
  return ControlBytes(world) + 2 * kBufferBytes * world;
}

absl::StatusOr<int> ShmSegment::CreateFile(int world) {
  const int fd = memfd_create("deepslice", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  // Sealed: no rank can cut the file under another's mapping.
  if (fd < 0 || ftruncate(fd, Bytes(world)) != 0 ||
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    const int error = errno;
    if (fd >= 0) close(fd);
    return absl::ResourceExhaustedError(
        absl::StrCat("shared memory of ", Bytes(world), " bytes for ", world,
                     " ranks: ", std::strerror(error)));
  }
  return fd;
}

absl::StatusOr<ShmSegment> ShmSegment::Map(int fd, int world) {
  struct stat st;
  if (fstat(fd, &st) != 0 || st.st_size != Bytes(world)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "rank 0's shared memory has another size than the ", Bytes(world),
        " bytes of this build; run the same build in every rank"));
  }
  void* p =
      mmap(nullptr, Bytes(world), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (p == MAP_FAILED) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "mapping ", Bytes(world), " shared bytes: ", std::strerror(errno)));
  }
  return ShmSegment(static_cast<char*>(p), world);
}

ShmSegment::ShmSegment(ShmSegment&& o) noexcept
    : base_(o.base_), world_(o.world_) {
  o.base_ = nullptr;
}
ShmSegment::~ShmSegment() {
  if (base_ != nullptr) munmap(base_, Bytes(world_));
}

ShmSegment::Header& ShmSegment::header() const {
  static_assert(sizeof(Header) <= kPage);
  return *reinterpret_cast<Header*>(base_);
}
ShmRank& ShmSegment::rank(int r) const {
  return reinterpret_cast<ShmRank*>(base_ + kPage)[r];
}
float* ShmSegment::buffer(int r, uint32_t meeting) const {
  return reinterpret_cast<float*>(base_ + ControlBytes(world_) +
                                  (2 * r + meeting % 2) * kBufferBytes);
}
std::string ShmSegment::Name(int r) const {
  return absl::StrCat("rank ", r, " (pid ", rank(r).pid, ")");
}
void ShmSegment::Wake(int r) const { FutexWakeAll(rank(r).arrived); }

void ShmSegment::Arrive(int me, uint32_t n, uint64_t call) const {
  ShmRank& mine = rank(me);
  mine.call[n % 2] = call;
  // Sequentially consistent with the sleeper's increment and reload: either it
  // sees n, or this rank sees the sleeper.
  mine.arrived.store(n);
  if (mine.sleepers.load() != 0) Wake(me);
}

absl::Status ShmSegment::WaitFor(int other, uint32_t n,
                                 const ShmPatience& patience,
                                 absl::FunctionRef<void()> on_slow) const {
  const ShmRank& theirs = rank(other);
  if (Reached(theirs.arrived.load(std::memory_order_acquire), n)) {
    return absl::OkStatus();
  }
  const int64_t end = NowNanos() + absl::ToInt64Nanoseconds(patience.spin);
  while (patience.spin > absl::ZeroDuration() && !failed()) {
    for (int i = 0; i < 32; ++i) {
      if (Reached(theirs.arrived.load(std::memory_order_acquire), n)) {
        return absl::OkStatus();
      }
      Pause();
    }
    if (NowNanos() > end) break;
  }
  return SleepFor(other, n, patience, on_slow);
}

absl::Status ShmSegment::SleepFor(int other, uint32_t n,
                                  const ShmPatience& patience,
                                  absl::FunctionRef<void()> on_slow) const {
  ShmRank& theirs = rank(other);
  int64_t last_look = NowNanos();
  absl::Duration waited;
  bool told = false;
  theirs.sleepers.fetch_add(1);
  absl::Status result;
  for (;;) {
    // In this order: a rank that left may have come to n before.
    const bool gone = theirs.left.load() != 0;
    const uint32_t arrived = theirs.arrived.load();
    if (Reached(arrived, n)) break;
    if (failed()) {
      result = failure();
      break;
    }
    if (gone) {
      result = EndOf(other);
      Fail(result);
      break;
    }
    const int64_t now = NowNanos();
    // No more than one sleep: this process may have been stopped itself.
    waited += std::min(absl::Nanoseconds(now - last_look), 2 * kSleep);
    last_look = now;
    if (waited > patience.slow && !told) {
      told = true;
      on_slow();
    }
    if (waited > patience.hang) {
      result = absl::DeadlineExceededError(
          absl::StrCat(Name(other), " kept the others waiting for ",
                       absl::FormatDuration(patience.hang), " at step ",
                       theirs.step.load()));
      Fail(result);
      break;
    }
    // Not for ever: a failure is seen even if its wake-up came too early.
    FutexWait(theirs.arrived, arrived,
              std::min(kSleep, std::max(patience.hang, absl::Milliseconds(1))));
  }
  theirs.sleepers.fetch_sub(1);
  return result;
}

bool ShmSegment::failed() const {
  return header().state.load(std::memory_order_relaxed) != kRunning;
}

bool ShmSegment::Fail(const absl::Status& why) const {
  Header& h = header();
  uint32_t expected = kRunning;
  const bool first = h.state.compare_exchange_strong(expected, kFailing);
  if (first) {
    const size_t n = std::min(why.message().size(), kTextBytes - 1);
    std::memcpy(h.text, why.message().data(), n);
    h.text[n] = '\0';
    h.code = static_cast<int32_t>(why.code());
    h.state.store(kFailed);
  }
  for (int r = 0; r < world_; ++r) Wake(r);
  return first;
}

absl::Status ShmSegment::EndOf(int r) const {
  const uint32_t left = rank(r).left.load();
  const int64_t step = rank(r).step.load();
  if (left > 128) {
    return absl::CancelledError(absl::StrCat(Name(r), " was ended by signal ",
                                             left - 128, " at step ", step));
  }
  return absl::AbortedError(absl::StrCat(Name(r), " left at step ", step,
                                         " while others wait for it"));
}

bool ShmSegment::FirstToTellSlow() const {
  return header().slow_told.exchange(1) == 0;
}

absl::Status ShmSegment::failure() const {
  const Header& h = header();
  // The rank that fails the launch may die while it writes the reason.
  for (int i = 0; i < 200 && h.state.load() != kFailed; ++i) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  if (h.state.load() != kFailed) {
    return absl::AbortedError("a rank was lost while it told why it failed");
  }
  return absl::Status(static_cast<absl::StatusCode>(h.code),
                      absl::string_view(h.text));
}

}  // namespace deepslice
