#include "runtime/comm/shm_listener.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "runtime/comm/shm_messages.h"
#include "schema/base/file.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// Of a socket that listens but has no name yet.
constexpr char kNewSuffix[] = ".new";

// The path at which this process listens, for a signal handler.
class ListeningPath {
 public:
  static void Set(const std::string& path) {
    std::memcpy(text_, path.c_str(), path.size() + 1);
    set_ = 1;
  }
  static void Clear() { set_ = 0; }
  static const char* Get() { return set_ != 0 ? text_ : nullptr; }

 private:
  static inline char text_[sizeof(sockaddr_un::sun_path)] = {};
  static inline volatile sig_atomic_t set_ = 0;
};

absl::StatusOr<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un out = {};
  out.sun_family = AF_UNIX;
  if (path.empty() || path[0] != '/' || path.size() >= sizeof(out.sun_path)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the ranks' socket \"", absl::CHexEscape(path),
                     "\": an absolute path"
                     " of at most ",
                     sizeof(out.sun_path) - 1, " bytes is allowed"));
  }
  std::memcpy(out.sun_path, path.data(), path.size());
  return out;
}

absl::Status SystemError(const std::string& path, absl::string_view what) {
  return absl::InternalError(
      absl::StrCat(path, ": ", what, ": ", std::strerror(errno)));
}

ScopedFd NewSocket() {
  return ScopedFd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
}

bool Connect(const ScopedFd& socket, const sockaddr_un& address) {
  return connect(socket.get(), reinterpret_cast<const sockaddr*>(&address),
                 sizeof(address)) == 0;
}

// A folder that nobody else can write to.
absl::Status MakePrivateFolder(const std::string& folder) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return SystemError(folder, "making the folder of the ranks' socket");
  }
  struct stat st;
  if (lstat(folder.c_str(), &st) != 0) return SystemError(folder, "lstat");
  if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() ||
      (st.st_mode & 0077) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        folder,
        ": not a folder of mode 0700 that this user owns; remove it, "
        "or set XDG_RUNTIME_DIR"));
  }
  return absl::OkStatus();
}

// Whether nobody listens at `path` any more. A path is made only when its
// socket listens, so one that refuses is of a process that was killed.
bool IsDead(const std::string& path) {
  const absl::StatusOr<sockaddr_un> address = AddressOf(path);
  if (!address.ok()) return false;
  // Not waiting: a live one's queue may be full.
  const ScopedFd probe(
      socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return probe.valid() && !Connect(probe, *address) && errno == ECONNREFUSED;
}

// Removes what killed processes have left in the sockets' folder: sockets, and
// "PID.new" of a process that did not come to naming it.
void RemoveDead(const std::string& folder) {
  DIR* dir = opendir(folder.c_str());
  if (dir == nullptr) return;
  while (const dirent* entry = readdir(dir)) {
    const absl::string_view name = entry->d_name;
    const std::string path = absl::StrCat(folder, "/", name);
    absl::string_view number = name;
    pid_t pid;
    const bool dead = absl::ConsumeSuffix(&number, kNewSuffix)
                          ? absl::SimpleAtoi(number, &pid) && pid > 0 &&
                                kill(pid, 0) != 0 && errno == ESRCH
                          : absl::EndsWith(name, ".sock") && IsDead(path);
    if (dead) unlink(path.c_str());
  }
  closedir(dir);
}

// Binds to the new path `made` and listens.
absl::StatusOr<ScopedFd> ListenAt(const std::string& made) {
  DS_ASSIGN_OR_RETURN(const sockaddr_un address, AddressOf(made));
  ScopedFd listener = NewSocket();
  if (!listener.valid()) return SystemError(made, "socket");
  fchmod(listener.get(), 0600);  // the mode that bind gives the file
  unlink(made.c_str());          // of an earlier process of this number
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&address),
           sizeof(address)) != 0) {
    return SystemError(made, "bind");
  }
  if (listen(listener.get(), 128) != 0) return SystemError(made, "listen");
  return listener;
}

}  // namespace

const char* ShmListeningPath() { return ListeningPath::Get(); }

absl::StatusOr<ScopedFd> Listen(const ShmOptions& options) {
  const std::string& path = options.address;
  DS_ASSIGN_OR_RETURN(const sockaddr_un address, AddressOf(path));
  const std::string folder = Dirname(path);
  DS_RETURN_IF_ERROR(MakePrivateFolder(folder));
  RemoveDead(folder);
  const std::string made = absl::StrCat(folder, "/", getpid(), kNewSuffix);
  DS_ASSIGN_OR_RETURN(ScopedFd listener, ListenAt(made));
  const absl::Cleanup remove_made = [&made] { unlink(made.c_str()); };
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (link(made.c_str(), path.c_str()) == 0) {
      ListeningPath::Set(path);
      return listener;
    }
    if (errno != EEXIST) return SystemError(path, "link");
    if (IsDead(path)) {
      unlink(path.c_str());
      continue;
    }
    const ScopedFd probe = NewSocket();
    if (Connect(probe, address)) {
      SendHello(probe.get(), MakeHello(options));
      return absl::AbortedError(
          absl::StrCat(path,
                       ": another process is rank 0 of this launch; give "
                       "each process its own rank, or each launch its own id"));
    }
  }
  return absl::UnavailableError(
      absl::StrCat(path,
                   ": taken by another process again and "
                   "again; give the launch its own id"));
}

void RemoveListener(const std::string& path) {
  unlink(path.c_str());
  ListeningPath::Clear();
}

absl::StatusOr<ScopedFd> ConnectTo(const std::string& path) {
  DS_ASSIGN_OR_RETURN(const sockaddr_un address, AddressOf(path));
  ScopedFd socket = NewSocket();
  if (!socket.valid()) return SystemError(path, "socket");
  if (Connect(socket, address)) return socket;
  if (errno != ENOENT && errno != ECONNREFUSED && errno != EINTR) {
    return SystemError(path, "connecting to rank 0");
  }
  return ScopedFd();
}

void RemoveOfDead(const std::string& path) {
  // The kernel closes the sockets of a process one after the other.
  for (int i = 0; i < 20 && access(path.c_str(), F_OK) == 0; ++i) {
    if (IsDead(path)) unlink(path.c_str());
    absl::SleepFor(absl::Milliseconds(5));
  }
}

}  // namespace deepslice
