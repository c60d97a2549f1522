#include "compiler/plan_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "schema/base/digest.h"
#include "schema/base/file.h"

namespace deepslice {
namespace {

// Longer names of plans are cut, and told apart by a digest.
constexpr size_t kNameBytes = 64;

std::string LockPath(const std::string& path) {
  std::string plan = path;
  while (plan.size() > 1 && plan.back() == '/') plan.pop_back();
  const absl::string_view name = Basename(plan);
  const std::string cut = name.size() <= kNameBytes
                              ? std::string(name)
                              : absl::StrCat(name.substr(0, kNameBytes), "-",
                                             Sha256Hex(name).substr(0, 16));
  return JoinPath(Dirname(plan), absl::StrCat(".", cut, ".lock"));
}

// Whether `path` still names the open file: its last holder removes it.
bool IsNamed(int fd, const std::string& path) {
  struct stat open_file, named;
  return fstat(fd, &open_file) == 0 && lstat(path.c_str(), &named) == 0 &&
         open_file.st_dev == named.st_dev && open_file.st_ino == named.st_ino;
}

// "process 123", as the holder wrote it.
std::string Holder(int fd) {
  char text[32];
  const ssize_t n = pread(fd, text, sizeof(text), 0);
  const absl::string_view number = absl::StripAsciiWhitespace(
      absl::string_view(text, n > 0 ? static_cast<size_t>(n) : 0));
  if (number.empty() ||
      number.find_first_not_of("0123456789") != absl::string_view::npos) {
    return "another process";
  }
  return absl::StrCat("process ", number);
}

}  // namespace

absl::StatusOr<std::unique_ptr<PlanLock>> PlanLock::Take(
    const std::string& path) {
  auto lock = std::make_unique<PlanLock>();
  const std::string file = LockPath(path);
  while (true) {
    const int fd =
        open(file.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0) {
      return absl::InternalError(absl::StrCat(
          Dirname(file), ": can't write here: ", std::strerror(errno)));
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
      const int error = errno;
      const std::string holder = Holder(fd);
      close(fd);
      if (error == EINTR) continue;
      if (error != EWOULDBLOCK) {
        unlink(file.c_str());
        return lock;  // a file system without locks
      }
      return absl::AlreadyExistsError(
          absl::StrCat(path, ": locked by ", holder,
                       ", which makes a plan there; wait for it, or name "
                       "another folder"));
    }
    lock->fd_ = fd;
    lock->file_ = file;
    if (IsNamed(fd, file)) break;
    lock->file_.clear();  // it is another's, or nobody's
    close(fd);
    lock->fd_ = -1;
  }
  // Only for the message above: a disk without room for it is no obstacle.
  const std::string number = absl::StrCat(getpid(), "\n");
  if (ftruncate(lock->fd_, 0) != 0 ||
      pwrite(lock->fd_, number.data(), number.size(), 0) < 0) {
    errno = 0;
  }
  return lock;
}

PlanLock::~PlanLock() {
  // Removed before it is free, so that nobody locks a file that is then gone
  // without noticing.
  if (!file_.empty()) unlink(file_.c_str());
  if (fd_ >= 0) close(fd_);
}

}  // namespace deepslice
