#include "runtime/comm/shm_rendezvous.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "runtime/comm/shm_listener.h"
#include "runtime/comm/shm_messages.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// Rank 0's deadline comes first, so that it can tell the others.
constexpr absl::Duration kGrace = absl::Seconds(2);

// Rank 0's view of those who came.
class Reception {
 public:
  explicit Reception(const ShmOptions& options)
      : options_(options), joined_(options.world) {}

  absl::StatusOr<Meeting> Run() {
    absl::StatusOr<Meeting> met = Gather();
    if (met.ok()) return met;
    for (const Guest& g : waiting_) {
      SendWelcome(g.socket.get(), met.status(), -1);
    }
    for (const Guest& g : joined_) {
      if (g.socket.valid()) SendWelcome(g.socket.get(), met.status(), -1);
    }
    return met;
  }

 private:
  struct Guest {
    ScopedFd socket;
    uint32_t pid = 0;
    int expected = -1;  // rank of an inherited socket
  };

  absl::StatusOr<Meeting> Gather() {
    const absl::Time deadline = absl::Now() + options_.init_timeout;
    for (size_t i = 0; i < options_.sockets.size(); ++i) {
      waiting_.push_back(
          {ScopedFd(options_.sockets[i]), 0, static_cast<int>(i) + 1});
    }
    ScopedFd listener;
    if (options_.sockets.empty() && options_.world > 1) {
      DS_ASSIGN_OR_RETURN(listener, Listen(options_));
    }
    absl::Cleanup remover = [&] {
      if (listener.valid()) RemoveListener(options_.address);
    };
    while (num_joined_ < options_.world - 1) {
      const absl::Duration left = deadline - absl::Now();
      if (left <= absl::ZeroDuration()) return TooLate();
      std::vector<pollfd> polled;
      if (listener.valid()) polled.push_back({listener.get(), POLLIN, 0});
      for (const Guest& g : waiting_) {
        polled.push_back({g.socket.get(), POLLIN, 0});
      }
      for (const Guest& g : joined_) {
        if (g.socket.valid()) polled.push_back({g.socket.get(), POLLIN, 0});
      }
      poll(polled.data(), polled.size(),
           static_cast<int>(absl::ToInt64Milliseconds(
               std::min(left + absl::Milliseconds(1), absl::Seconds(10)))));
      if (listener.valid()) Accept(listener.get());
      DS_RETURN_IF_ERROR(HearWaiting());
      DS_RETURN_IF_ERROR(HearJoined());
    }
    return Welcome();
  }

  void Accept(int listener) {
    pollfd p = {listener, POLLIN, 0};
    while (poll(&p, 1, 0) > 0) {
      ScopedFd guest(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
      if (!guest.valid()) {
        // Out of descriptors, perhaps: the guest stays in the queue, and asking
        // again at once would only burn the core that others need to finish.
        absl::SleepFor(absl::Milliseconds(10));
        return;
      }
      ucred who;
      socklen_t size = sizeof(who);
      if (getsockopt(guest.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) != 0 ||
          who.uid != geteuid()) {
        continue;  // a stranger
      }
      waiting_.push_back({std::move(guest)});
    }
  }

  absl::Status HearWaiting() {
    for (size_t i = 0; i < waiting_.size();) {
      Hello hello;
      const Received got = ReceiveHello(waiting_[i].socket.get(), &hello);
      if (got == Received::kLater) {
        ++i;
        continue;
      }
      if (got == Received::kMessage) {
        DS_RETURN_IF_ERROR(Check(hello));
        Guest& place = joined_[hello.rank];
        place = std::move(waiting_[i]);
        place.pid = hello.pid;
        ++num_joined_;
      } else if (waiting_[i].expected >= 0) {
        return absl::AbortedError(absl::StrCat("rank ", waiting_[i].expected,
                                               " of ", options_.world,
                                               " ended before it joined"));
      }  // else a stranger: forgotten
      waiting_.erase(waiting_.begin() + i);
    }
    return absl::OkStatus();
  }

  // One that has joined says nothing more, so what comes is its end.
  absl::Status HearJoined() {
    for (int r = 1; r < options_.world; ++r) {
      const Guest& g = joined_[r];
      Hello hello;
      if (!g.socket.valid() ||
          ReceiveHello(g.socket.get(), &hello) != Received::kGone) {
        continue;
      }
      return absl::AbortedError(absl::StrCat("rank ", r, " (pid ", g.pid,
                                             ") was lost while ranks joined"));
    }
    return absl::OkStatus();
  }

  absl::Status Check(const Hello& hello) const {
    const std::string who =
        absl::StrCat("rank ", hello.rank, " (pid ", hello.pid, ")");
    const std::string me = absl::StrCat("rank 0 (pid ", getpid(), ")");
    if (hello.protocol != kShmProtocol) {
      return absl::FailedPreconditionError(
          absl::StrCat(who, " speaks protocol ", hello.protocol, ", ", me, " ",
                       kShmProtocol, "; run the same build in every rank"));
    }
    if (hello.world != static_cast<uint32_t>(options_.world)) {
      return absl::FailedPreconditionError(absl::StrCat(
          who, " was started for ", hello.world, " ranks, ", me, " for ",
          options_.world, "; start every rank with the same number of ranks"));
    }
    if (hello.rank >= hello.world) {
      return absl::FailedPreconditionError(absl::StrCat(
          who, ": ranks of this launch are 0 to ", hello.world - 1));
    }
    if (options_.plan_set_id != hello.plan_set_id) {
      return absl::FailedPreconditionError(absl::StrCat(
          who, " holds a plan of set ", absl::CHexEscape(hello.plan_set_id),
          ", ", me, " one of set ", absl::CHexEscape(options_.plan_set_id),
          "; give every rank the same plan folder"));
    }
    const uint32_t taken = hello.rank == 0 ? static_cast<uint32_t>(getpid())
                                           : joined_[hello.rank].pid;
    if (hello.rank == 0 || joined_[hello.rank].socket.valid()) {
      return absl::AbortedError(
          absl::StrCat("two processes, pid ", taken, " and pid ", hello.pid,
                       ", are rank ", hello.rank, "; give each its own rank"));
    }
    return absl::OkStatus();
  }

  absl::Status TooLate() const {
    std::vector<int> present = {0}, missing;
    for (int r = 1; r < options_.world; ++r) {
      (joined_[r].socket.valid() ? present : missing).push_back(r);
    }
    return absl::DeadlineExceededError(absl::StrCat(
        "waited ", absl::ToDoubleSeconds(options_.init_timeout), " s for rank ",
        absl::StrJoin(missing, ","), " of ", options_.world, " at ",
        options_.sockets.empty() ? options_.address : "inherited sockets",
        "; ranks present ", absl::StrJoin(present, ",")));
  }

  absl::StatusOr<Meeting> Welcome() {
    DS_ASSIGN_OR_RETURN(const int fd, ShmSegment::CreateFile(options_.world));
    const ScopedFd memory(fd);
    DS_ASSIGN_OR_RETURN(ShmSegment segment,
                        ShmSegment::Map(fd, options_.world));
    segment.rank(0).pid = getpid();
    for (int r = 1; r < options_.world; ++r) {
      segment.rank(r).pid = joined_[r].pid;
    }
    Meeting out = {std::move(segment), {}};
    for (int r = 0; r < options_.world; ++r) {
      // A rank that is gone by now is noticed by the watcher.
      if (r > 0) SendWelcome(joined_[r].socket.get(), absl::OkStatus(), fd);
      out.sockets.push_back(std::move(joined_[r].socket));
    }
    return out;
  }

  const ShmOptions& options_;
  std::vector<Guest> waiting_;  // no hello yet
  std::vector<Guest> joined_;   // by rank
  int num_joined_ = 0;
};

absl::StatusOr<ScopedFd> ReachFirst(const ShmOptions& options,
                                    absl::Time deadline) {
  if (!options.sockets.empty()) return ScopedFd(options.sockets[0]);
  for (;;) {
    DS_ASSIGN_OR_RETURN(ScopedFd socket, ConnectTo(options.address));
    if (socket.valid()) return socket;
    if (absl::Now() > deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("waited ", absl::ToDoubleSeconds(options.init_timeout),
                       " s for rank 0 of ", options.world, " at ",
                       options.address, "; this is rank ", options.rank));
    }
    absl::SleepFor(absl::Milliseconds(10));
  }
}

}  // namespace

ScopedFd::~ScopedFd() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<Meeting> MeetAsFirst(const ShmOptions& options) {
  return Reception(options).Run();
}

absl::StatusOr<Meeting> MeetAsOther(const ShmOptions& options) {
  const absl::Time deadline = absl::Now() + options.init_timeout;
  DS_ASSIGN_OR_RETURN(ScopedFd socket, ReachFirst(options, deadline));
  const absl::Time last = absl::Now() + options.init_timeout + kGrace;
  SendHello(socket.get(), MakeHello(options));  // a failure shows below
  for (;;) {
    absl::Status status;
    ScopedFd memory;
    switch (ReceiveWelcome(socket.get(), &status, &memory)) {
      case Received::kMessage: {
        DS_RETURN_IF_ERROR(status);
        if (!memory.valid()) {
          return absl::InternalError("rank 0 sent no shared memory");
        }
        DS_ASSIGN_OR_RETURN(ShmSegment segment,
                            ShmSegment::Map(memory.get(), options.world));
        Meeting out = {std::move(segment), {}};
        out.sockets.push_back(std::move(socket));
        return out;
      }
      case Received::kJunk:
        return absl::FailedPreconditionError(
            "rank 0 answers in another protocol; run the same build in every "
            "rank");
      case Received::kGone:
        if (options.sockets.empty()) RemoveOfDead(options.address);
        return absl::AbortedError(absl::StrCat(
            "rank 0 closed the connection before rank ", options.rank,
            " had joined; it ended, or its launch is complete without this "
            "process"));
      case Received::kLater:
        break;
    }
    const absl::Duration left = last - absl::Now();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(
          absl::StrCat("rank 0 did not answer rank ", options.rank, " for ",
                       absl::FormatDuration(options.init_timeout + kGrace)));
    }
    pollfd p = {socket.get(), POLLIN, 0};
    poll(&p, 1,
         static_cast<int>(absl::ToInt64Milliseconds(
             std::min(left + absl::Milliseconds(1), absl::Seconds(10)))));
  }
}

}  // namespace deepslice
