#include "runtime/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "runtime/comm/shm.h"
#include "schema/base/exit_code.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// What the others get to report and leave by themselves.
constexpr absl::Duration kGrace = absl::Milliseconds(500);
// The same after rank 0 is done: the others free their memory.
constexpr absl::Duration kLeaveTime = absl::Seconds(5);

absl::Status Errno(absl::string_view what) {
  return absl::InternalError(absl::StrCat(what, ": ", std::strerror(errno)));
}

// Whether a status tells of another rank's end rather than of one's own.
bool IsOfAPeer(const absl::Status& s) {
  return absl::IsUnavailable(s) || absl::IsAborted(s) ||
         absl::IsDeadlineExceeded(s);
}

// The exit code of a process that SIGINT, SIGTERM or SIGHUP ended, whether it
// caught the signal or was too young to; 0 for any other end.
int InterruptedCode(int wait_status) {
  if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) > 128) {
    return WEXITSTATUS(wait_status);
  }
  const int number = WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0;
  return number == SIGINT || number == SIGTERM || number == SIGHUP
             ? 128 + number
             : 0;
}

struct Child {
  pid_t pid = -1;
  int report_fd = -1;  // read end; -1 once drained
  std::string report;  // as far as read
  bool running = false;
  int wait_status = 0;  // of waitpid, when not running
  bool killed_here = false;

  bool failed() const { return !running && wait_status != 0 && !killed_here; }
};

class Supervisor {
 public:
  explicit Supervisor(int world) : children_(world) {}
  ~Supervisor();
  absl::Status Start(const std::vector<std::string>& arguments);
  LaunchEnd Wait();

 private:
  absl::Status StartRank(int rank, const std::vector<std::string>& arguments,
                         std::vector<int> sockets);
  void HandleSignals();
  void Reap();
  void DrainReports();
  void KillAll();
  LaunchEnd End() const;
  absl::Status RootCause() const;
  bool AnyRunning() const {
    return std::any_of(children_.begin(), children_.end(),
                       [](const Child& c) { return c.running; });
  }

  std::vector<Child> children_;
  int signal_fd_ = -1;
  sigset_t old_mask_;
  int first_failed_ = -1;  // the rank whose failure was seen first
  int terminated_ = 0;     // the SIGTERM or SIGHUP that came, or 0
  absl::Time deadline_ = absl::InfiniteFuture();
};

Supervisor::~Supervisor() {
  KillAll();
  for (Child& c : children_) {
    if (c.running) waitpid(c.pid, &c.wait_status, 0);
    if (c.report_fd >= 0) close(c.report_fd);
  }
  if (signal_fd_ >= 0) {
    close(signal_fd_);
    sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
  }
}

absl::Status Supervisor::StartRank(int rank,
                                   const std::vector<std::string>& arguments,
                                   std::vector<int> sockets) {
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) return Errno("pipe");
  const SpawnedRank place = {rank, static_cast<int>(children_.size()), sockets,
                             report[1]};
  // Everything that allocates comes before fork.
  std::vector<std::string> words = {"dsrun"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  words.insert(words.begin() + 1, absl::StrCat("--spawned=", place.ToFlag()));
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);

  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) {
    const absl::Status status = Errno(absl::StrCat("fork of rank ", rank));
    close(report[0]);
    close(report[1]);
    return status;
  }
  if (pid == 0) {
    // The supervisor may be gone before prctl takes hold.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(kExitRankFailed);
    if (rank > 0) {
      signal(SIGINT, SIG_IGN);
      const int null_fd = open("/dev/null", O_RDONLY);
      if (null_fd >= 0) dup2(null_fd, STDIN_FILENO);
      if (null_fd > STDIN_FILENO) close(null_fd);
    }
    sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
    for (int fd : sockets) fcntl(fd, F_SETFD, 0);
    fcntl(report[1], F_SETFD, 0);
    execv("/proc/self/exe", argv.data());
    _exit(127);
  }
  close(report[1]);
  Child& child = children_[rank];
  child.pid = pid;
  child.running = true;
  child.report_fd = report[0];
  fcntl(child.report_fd, F_SETFL, O_NONBLOCK);
  return absl::OkStatus();
}

absl::Status Supervisor::Start(const std::vector<std::string>& arguments) {
  sigset_t mask;
  sigemptyset(&mask);
  for (const int s : {SIGINT, SIGTERM, SIGCHLD}) sigaddset(&mask, s);
  // nohup ignores it, but what is blocked comes all the same.
  struct sigaction hangup;
  if (sigaction(SIGHUP, nullptr, &hangup) == 0 &&
      hangup.sa_handler != SIG_IGN) {
    sigaddset(&mask, SIGHUP);
  }
  if (sigprocmask(SIG_BLOCK, &mask, &old_mask_) != 0) {
    return Errno("sigprocmask");
  }
  signal_fd_ = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signal_fd_ < 0) return Errno("signalfd");

  const int world = static_cast<int>(children_.size());
  DS_ASSIGN_OR_RETURN(RankSockets sockets, MakeRankSockets(world));
  // The ranks have their own copies; while this process keeps one, the death of
  // its owner would not close the socket.
  const auto close_all = absl::MakeCleanup([&sockets] {
    for (const auto& side : {sockets.of_rank0, sockets.of_others}) {
      for (int fd : side) close(fd);
    }
  });
  for (int rank = 0; rank < world; ++rank) {
    DS_RETURN_IF_ERROR(
        StartRank(rank, arguments,
                  rank == 0 ? sockets.of_rank0
                            : std::vector<int>{sockets.of_others[rank - 1]}));
  }
  return absl::OkStatus();
}

void Supervisor::HandleSignals() {
  signalfd_siginfo info;
  while (read(signal_fd_, &info, sizeof(info)) == sizeof(info)) {
    const int number = static_cast<int>(info.ssi_signo);
    if (number == SIGCHLD) continue;
    if (number == SIGTERM || number == SIGHUP) {
      terminated_ = number;
      deadline_ = std::min(deadline_, absl::Now() + kGrace);
    }
    // A terminal has sent its SIGINT to rank 0 as well.
    if (number == SIGINT && info.ssi_code == SI_KERNEL) continue;
    if (children_[0].running) kill(children_[0].pid, number);
  }
}

void Supervisor::Reap() {
  for (size_t rank = 0; rank < children_.size(); ++rank) {
    Child& c = children_[rank];
    if (!c.running || waitpid(c.pid, &c.wait_status, WNOHANG) != c.pid) {
      continue;
    }
    c.running = false;
    if (c.failed()) {
      if (first_failed_ < 0) first_failed_ = static_cast<int>(rank);
      deadline_ = std::min(deadline_, absl::Now() + kGrace);
    } else if (rank == 0) {
      deadline_ = std::min(deadline_, absl::Now() + kLeaveTime);
    }
  }
}

void Supervisor::DrainReports() {
  for (Child& c : children_) {
    char buffer[4096];
    while (c.report_fd >= 0) {
      const ssize_t n = read(c.report_fd, buffer, sizeof(buffer));
      if (n > 0) {
        c.report.append(buffer, n);
      } else if (n < 0 && errno == EINTR) {
        continue;
      } else {
        if (n == 0) {
          close(c.report_fd);
          c.report_fd = -1;
        }
        break;
      }
    }
  }
}

void Supervisor::KillAll() {
  for (Child& c : children_) {
    if (!c.running) continue;
    c.killed_here = true;
    kill(c.pid, SIGKILL);
  }
}

LaunchEnd Supervisor::Wait() {
  while (AnyRunning()) {
    const absl::Duration left = deadline_ - absl::Now();
    if (left <= absl::ZeroDuration()) break;
    std::vector<pollfd> fds = {{signal_fd_, POLLIN, 0}};
    for (const Child& c : children_) {
      if (c.report_fd >= 0) fds.push_back({c.report_fd, POLLIN, 0});
    }
    const int timeout =
        left == absl::InfiniteDuration()
            ? -1
            : static_cast<int>(absl::ToInt64Milliseconds(left)) + 1;
    if (poll(fds.data(), fds.size(), timeout) < 0 && errno != EINTR) break;
    HandleSignals();
    DrainReports();
    Reap();
    // An interrupted rank 0 wants all to end, now and in silence.
    if (!children_[0].running && InterruptedCode(children_[0].wait_status)) {
      break;
    }
  }
  KillAll();
  for (Child& c : children_) {
    if (c.running) waitpid(c.pid, &c.wait_status, 0);
    c.running = false;
  }
  DrainReports();
  return End();
}

// A rank's report as it was before ReportFailure; nullopt without one.
std::optional<absl::Status> ParseReport(absl::string_view report) {
  const std::vector<absl::string_view> parts =
      absl::StrSplit(report, absl::MaxSplits('\n', 1));
  int code;
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &code) || code == 0) {
    return std::nullopt;
  }
  return absl::Status(static_cast<absl::StatusCode>(code), parts[1]);
}

absl::Status Supervisor::RootCause() const {
  // A rank that was killed outranks what the others say of it, but they know
  // the step; one's own failure outranks the news of another's.
  std::optional<absl::Status> own, peer;
  std::vector<int> order;
  if (first_failed_ >= 0) order.push_back(first_failed_);
  for (size_t r = 0; r < children_.size(); ++r) order.push_back(r);
  for (const int r : order) {
    const auto report = ParseReport(children_[r].report);
    if (!report.has_value()) continue;
    std::optional<absl::Status>& place = IsOfAPeer(*report) ? peer : own;
    if (!place.has_value()) place = report;
  }
  for (const int r : order) {
    const Child& c = children_[r];
    if (!c.failed() || !WIFSIGNALED(c.wait_status)) continue;
    const int number = WTERMSIG(c.wait_status);
    const std::string name = absl::StrCat("rank ", r, " (pid ", c.pid, ")");
    const std::string how =
        absl::StrCat("signal ", number, " (", strsignal(number), ")");
    if (peer.has_value() && absl::StrContains(peer->message(), name)) {
      return absl::UnavailableError(
          absl::StrCat(peer->message(), ": ended by ", how));
    }
    return absl::UnavailableError(absl::StrCat(name, " was ended by ", how));
  }
  if (own.has_value()) return *own;
  if (peer.has_value()) return *peer;
  if (first_failed_ >= 0) {
    const Child& c = children_[first_failed_];
    return absl::UnavailableError(absl::StrCat(
        "rank ", first_failed_, " (pid ", c.pid, ") ended with exit code ",
        WEXITSTATUS(c.wait_status), " and no reason"));
  }
  for (size_t r = 0; r < children_.size(); ++r) {
    const Child& c = children_[r];
    if (c.killed_here) {
      return absl::UnavailableError(
          absl::StrCat("rank ", r, " (pid ", c.pid, ") did not end within ",
                       absl::FormatDuration(kLeaveTime), " of rank 0"));
    }
  }
  return absl::OkStatus();
}

LaunchEnd Supervisor::End() const {
  if (terminated_ != 0) return {128 + terminated_, absl::OkStatus()};
  const int interrupted = InterruptedCode(children_[0].wait_status);
  if (interrupted != 0) return {interrupted, absl::OkStatus()};
  const absl::Status why = RootCause();
  return {ExitCodeOf(why), why};
}

}  // namespace

std::string SpawnedRank::ToFlag() const {
  return absl::StrCat(rank, "/", world, ":", absl::StrJoin(sockets, ","), ":",
                      report_fd);
}

absl::StatusOr<SpawnedRank> SpawnedRank::FromFlag(absl::string_view text) {
  const auto bad = [text] {
    return absl::InvalidArgumentError(
        absl::StrCat("--spawned=", text,
                     " is not what a supervisor writes; it is not for "
                     "people, use --rank"));
  };
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
  if (parts.size() != 3) return bad();
  const std::vector<absl::string_view> place = absl::StrSplit(parts[0], '/');
  SpawnedRank out;
  if (place.size() != 2 || !absl::SimpleAtoi(place[0], &out.rank) ||
      !absl::SimpleAtoi(place[1], &out.world) || out.rank < 0 ||
      out.rank >= out.world || !absl::SimpleAtoi(parts[2], &out.report_fd)) {
    return bad();
  }
  for (absl::string_view fd : absl::StrSplit(parts[1], ',')) {
    out.sockets.push_back(-1);
    if (!absl::SimpleAtoi(fd, &out.sockets.back())) return bad();
  }
  const size_t expected = out.rank == 0 ? out.world - 1 : 1;
  if (out.sockets.size() != expected) return bad();
  for (int fd : out.sockets) {
    if (fd < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) return bad();
  }
  if (out.report_fd < 0 || fcntl(out.report_fd, F_SETFD, FD_CLOEXEC) != 0) {
    return bad();
  }
  return out;
}

void ReportFailure(int report_fd, const absl::Status& why) {
  const std::string text =
      absl::StrCat(static_cast<int>(why.code()), "\n", why.message());
  for (size_t at = 0; at < text.size();) {
    const ssize_t n = write(report_fd, &text[at], text.size() - at);
    if (n > 0) {
      at += n;
    } else if (n == 0 || errno != EINTR) {
      return;  // no supervisor: nobody to tell
    }
  }
}

absl::StatusOr<LaunchEnd> RunRanks(const std::vector<std::string>& arguments,
                                   int world) {
  Supervisor supervisor(world);
  DS_RETURN_IF_ERROR(supervisor.Start(arguments));
  return supervisor.Wait();
}

}  // namespace deepslice
