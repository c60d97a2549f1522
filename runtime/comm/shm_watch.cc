#include "runtime/comm/shm_watch.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/comm/process_stat.h"

namespace deepslice {
namespace {

constexpr std::chrono::milliseconds kBeat(250);
// A longer pause between two looks means that this process stood still.
constexpr std::chrono::milliseconds kOwnPause(1500);

}  // namespace

ShmWatch::ShmWatch(const ShmSegment& segment,
                   const std::vector<ScopedFd>& sockets,
                   const ShmWatchOptions& options)
    : segment_(segment),
      options_(options),
      beats_(options.world),
      stop_(eventfd(0, EFD_CLOEXEC)) {
  for (size_t i = 0; i < sockets.size(); ++i) {
    if (!sockets[i].valid()) continue;
    polled_.push_back({sockets[i].get(), POLLIN, 0});
    ranks_.push_back(options.rank == 0 ? static_cast<int>(i) : 0);
  }
  polled_.push_back({stop_.get(), POLLIN, 0});
  // Signals are for the program's own threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { Watch(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

ShmWatch::~ShmWatch() {
  const uint64_t one = 1;
  if (write(stop_.get(), &one, sizeof(one)) < 0) polled_.back().fd = -1;
  thread_.join();
}

void ShmWatch::Watch() {
  last_look_ = Clock::now();
  for (Beat& b : beats_) b.seen = last_look_;
  for (;;) {
    if (poll(polled_.data(), polled_.size(), kBeat.count()) < 0 &&
        errno != EINTR) {
      return;
    }
    if (polled_.back().revents != 0) return;
    HearSockets();
    CountBeats();
  }
}

void ShmWatch::HearSockets() {
  for (size_t i = 0; i + 1 < polled_.size(); ++i) {
    if (polled_[i].revents == 0) continue;
    char byte;
    const ssize_t n = recv(polled_[i].fd, &byte, 1, MSG_DONTWAIT | MSG_TRUNC);
    if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR))) continue;
    polled_[i].fd = -1;  // poll skips it from now on
    const ShmRank& lost = segment_.rank(ranks_[i]);
    const uint32_t left = lost.left.load();
    if (left == 1) continue;
    segment_.Fail(left != 0 ? segment_.EndOf(ranks_[i])
                            : absl::AbortedError(absl::StrCat(
                                  segment_.Name(ranks_[i]),
                                  " was lost at step ", lost.step.load())));
  }
}

void ShmWatch::CountBeats() {
  segment_.rank(options_.rank).beat.fetch_add(1, std::memory_order_relaxed);
  const Clock::time_point now = Clock::now();
  const bool stood_still = now - last_look_ > kOwnPause;
  last_look_ = now;
  for (int r = 0; r < options_.world; ++r) {
    Beat& b = beats_[r];
    const ShmRank& other = segment_.rank(r);
    const uint32_t count = other.beat.load(std::memory_order_relaxed);
    if (r == options_.rank || stood_still || count != b.count) {
      b = {count, now};
    } else if (now - b.seen >=
                   absl::ToChronoNanoseconds(options_.stopped_timeout) &&
               other.left.load() == 0) {
      const auto process = ReadProcessStat(static_cast<pid_t>(other.pid));
      if (process.has_value() && process->state == 'T') Lose(r);
    }
  }
}

void ShmWatch::Lose(int rank) {
  const ShmRank& lost = segment_.rank(rank);
  const bool first = segment_.Fail(absl::AbortedError(absl::StrFormat(
      "%s was lost at step %d: no heartbeat for %.1f s, the process is stopped",
      segment_.Name(rank), lost.step.load(),
      absl::ToDoubleSeconds(options_.stopped_timeout))));
  // A pid of another namespace would be another process here.
  const auto pid = static_cast<pid_t>(lost.pid);
  if (first && options_.kill_stopped && RunsSameProgram(pid, getpid())) {
    kill(pid, SIGKILL);
  }
}

}  // namespace deepslice
