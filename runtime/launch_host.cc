#include "runtime/launch_host.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "runtime/comm/process_stat.h"

namespace deepslice {
namespace {

constexpr int kTries = 3;
// Deeper than any shell script between a launcher and its rank.
constexpr int kMostAncestors = 32;

// An address without its port, for comparison; "" for other families.
std::string AddressBytes(const sockaddr* a) {
  if (a == nullptr) return "";
  if (a->sa_family == AF_INET) {
    const auto& in = reinterpret_cast<const sockaddr_in*>(a)->sin_addr;
    return std::string(reinterpret_cast<const char*>(&in), sizeof(in));
  }
  if (a->sa_family == AF_INET6) {
    const auto& in = reinterpret_cast<const sockaddr_in6*>(a)->sin6_addr;
    return std::string(reinterpret_cast<const char*>(&in), sizeof(in));
  }
  return "";
}

bool IsLoopback(const std::string& bytes) {
  if (bytes.size() == 4) {
    return bytes[0] == 127 || bytes == std::string(4, '\0');
  }
  return bytes == std::string(15, '\0') + '\1' ||
         bytes == std::string(16, '\0');
}

// The addresses of this host's interfaces.
std::set<std::string> OwnAddresses() {
  std::set<std::string> out;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return out;
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    const std::string bytes = AddressBytes(i->ifa_addr);
    if (!bytes.empty()) out.insert(bytes);
  }
  freeifaddrs(list);
  return out;
}

// Whether that process is a system's init, which starts no ranks but takes the
// orphans. Not those of containers: their first process may have started this
// one, and the launcher the container.
bool IsInit(pid_t pid) {
  const auto process = ReadProcessStat(pid);
  return process.has_value() &&
         (process->name == "systemd" || process->name == "init");
}

}  // namespace

std::string HostName() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0 || name[0] == '\0') {
    return "localhost";
  }
  return name;
}

absl::Status CheckMasterIsHere(absl::string_view master_addr,
                               absl::Duration pause) {
  const std::string name(master_addr);
  // Without a look-up: a container's own name may be unknown to its DNS.
  if (name == "localhost" || name == HostName()) return absl::OkStatus();
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  int error = 0;
  for (int i = 0; i < kTries; ++i) {
    if (i > 0) absl::SleepFor(pause);
    error = getaddrinfo(name.c_str(), nullptr, &hints, &found);
    if (error == 0) break;
  }
  if (error != 0) {
    return absl::UnavailableError(absl::StrCat(
        "MASTER_ADDR=", absl::CHexEscape(name), " does not resolve (",
        error == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(error), ", ",
        kTries, " tries); set it to a name or an address of this host"));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found,
                                                             freeaddrinfo);
  const std::set<std::string> own = OwnAddresses();
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    const std::string bytes = AddressBytes(a->ai_addr);
    if (IsLoopback(bytes) || own.count(bytes) > 0) return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "MASTER_ADDR=", absl::CHexEscape(name), " is another host than this (",
      HostName(),
      "); ranks share one host's memory: start all of them on one host"));
}

std::string LauncherProcess() {
  pid_t pid = getppid();
  for (int i = 0; i < kMostAncestors && pid > 1; ++i) {
    const auto process = ReadProcessStat(pid);
    if (!process.has_value()) break;
    if (process->name == "hydra_pmi_proxy" || process->name == "pmi_proxy") {
      return absl::StrCat(pid, "@", process->start);
    }
    pid = process->parent;
  }
  return "";
}

pid_t RunnerAbove(pid_t launcher) {
  const auto process = ReadProcessStat(launcher);
  if (!process.has_value() || process->parent <= 1) return 0;
  const auto words = ReadCommandLine(process->parent);
  // "python .../bin/deepspeed ..." or "python -m deepspeed.launcher.runner".
  for (size_t i = 0; i < words.size() && i < 4; ++i) {
    const absl::string_view word = words[i];
    const absl::string_view name = word.substr(word.rfind('/') + 1);
    if (name == "deepspeed" || name == "deepspeed.pt" || name == "ds" ||
        name == "deepspeed.launcher.runner") {
      return process->parent;
    }
  }
  return 0;
}

ParentWatch::ParentWatch(pid_t parent, std::function<void(pid_t)> on_gone)
    : parent_(parent),
      parent_is_init_(IsInit(parent)),
      runner_(RunnerAbove(parent)),
      on_gone_(std::move(on_gone)) {
  // Signals are for the program's own threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { Watch(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

ParentWatch::~ParentWatch() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  condition_.notify_one();
  thread_.join();
}

pid_t ParentWatch::Ended() const {
  if (getppid() != parent_ || parent_is_init_) return parent_;
  if (runner_ == 0) return 0;
  // Its child, the launcher, lives and has another parent by then.
  const auto launcher = ReadProcessStat(parent_);
  return launcher.has_value() && launcher->parent != runner_ ? runner_ : 0;
}

void ParentWatch::Watch() {
  // Not PR_SET_PDEATHSIG: that also comes when only the thread of the launcher
  // ends that started this process.
  std::unique_lock<std::mutex> lock(mutex_);
  while (!condition_.wait_for(lock, std::chrono::milliseconds(250),
                              [this] { return stop_; })) {
    const pid_t ended = Ended();
    if (ended == 0) continue;
    lock.unlock();
    on_gone_(ended);
    return;
  }
}

}  // namespace deepslice
