#include "compiler/plan_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "schema/base/file.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

std::atomic<bool> interrupted{false};

// Bytes between hints to the disk to begin writing.
constexpr uint64_t kWriteBehind = 16 << 20;

// A temporary name begins with as many bytes of the plan's.
constexpr size_t kStemBytes = 64;
// Ends the temporary name of an old plan that makes room for a new one.
constexpr absl::string_view kAside = ".old";

std::string ErrnoText(int error) { return std::strerror(error); }

// A folder of ours, its files and its folders of files.
void RemoveFolder(const std::string& path, int depth = 1) {
  if (absl::StatusOr<std::vector<std::string>> names = ListDirectory(path);
      names.ok()) {
    for (const std::string& name : *names) {
      const std::string at = JoinPath(path, name);
      if (unlink(at.c_str()) != 0 && depth > 0) RemoveFolder(at, depth - 1);
    }
  }
  rmdir(path.c_str());
}

// Temporary folders and files for `base` in `parent` whose maker was killed:
// nobody holds their lock. Process numbers would not tell, as containers share
// folders.
// What was moved aside to make room for a plan that then did not come goes
// back.
void RemoveStale(const std::string& parent, absl::string_view base) {
  const std::string prefix =
      absl::StrCat(".", base.substr(0, kStemBytes), ".tmp-");
  const auto names = ListDirectory(parent);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (!absl::StartsWith(name, prefix)) continue;
    const std::string path = JoinPath(parent, name);
    const int fd =
        open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) continue;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
      const bool back =
          absl::EndsWith(name, kAside) && base.size() <= kStemBytes &&
          renameat2(AT_FDCWD, path.c_str(), AT_FDCWD,
                    JoinPath(parent, base).c_str(), RENAME_NOREPLACE) == 0;
      if (!back && unlink(path.c_str()) != 0) RemoveFolder(path);
    }
    close(fd);
  }
}

absl::Status SyncFolder(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    return absl::InternalError(absl::StrCat(path, ": ", ErrnoText(errno)));
  }
  const int result = fsync(fd);
  const int error = errno;
  close(fd);
  // Some file systems can't sync a folder and say EINVAL.
  if (result != 0 && error != EINVAL) {
    return absl::InternalError(
        absl::StrCat(path, ": sync: ", ErrnoText(error)));
  }
  return absl::OkStatus();
}

uint64_t FreeBytes(const std::string& path) {
  struct statvfs st;
  return statvfs(path.c_str(), &st) == 0 ? st.f_bavail * st.f_frsize : 0;
}

// The path with symbolic links and dots resolved; as it is when that fails.
std::string RealPath(const std::string& path) {
  char buffer[PATH_MAX];
  return realpath(path.c_str(), buffer) != nullptr ? std::string(buffer) : path;
}

}  // namespace

absl::Status CheckOutputApart(const std::string& output,
                              const std::string& source) {
  const std::string real_output =
      JoinPath(RealPath(Dirname(output)), Basename(output));
  const std::string real_source = RealPath(source);
  if (real_output == real_source ||
      (DirectoryExists(real_source) &&
       absl::StartsWith(real_output + "/", real_source + "/"))) {
    return absl::InvalidArgumentError(
        absl::StrFormat("-o %s: lies in the source %s; name a folder outside",
                        output, source));
  }
  return absl::OkStatus();
}

void InterruptPlanWriting() { interrupted.store(true); }
bool PlanWritingInterrupted() { return interrupted.load(); }

FolderFile::~FolderFile() {
  if (fd_ >= 0) close(fd_);
}

absl::Status FolderFile::WriteAt(uint64_t offset, const void* data,
                                 uint64_t bytes) {
  const char* p = static_cast<const char*>(data);
  // In parts, so that an interruption is noticed within a big write. Not in
  // larger ones: a write of 1 MiB takes contiguous memory for the page cache,
  // which a virtual machine may first have to get from its host (measured: 9
  // times slower than parts of 128 KiB).
  constexpr uint64_t kPart = 128 << 10;
  while (bytes > 0) {
    if (PlanWritingInterrupted()) return absl::CancelledError("interrupted");
    const ssize_t n = pwrite(fd_, p, std::min(bytes, kPart), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      return absl::InternalError(
          absl::StrFormat("%s: writing %d bytes at %d: %s (%d bytes free)",
                          JoinPath(folder_, name_), bytes, offset,
                          ErrnoText(errno), FreeBytes(folder_)));
    }
    p += n;
    offset += n;
    bytes -= n;
  }
  // The disk begins while the rest is made: the sync at the end then finds
  // little to do. A hint; what goes wrong shows at the sync.
  if (offset - started_ >= kWriteBehind) {
    sync_file_range(fd_, started_, offset - started_, SYNC_FILE_RANGE_WRITE);
    started_ = offset;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<PlanFolder>> PlanFolder::Create(
    const std::string& path, bool replace) {
  auto folder = std::make_unique<PlanFolder>();
  folder->path_ = path;
  while (folder->path_.size() > 1 && folder->path_.back() == '/') {
    folder->path_.pop_back();
  }
  folder->parent_ = Dirname(folder->path_);
  folder->replace_ = replace;
  const absl::string_view base = Basename(folder->path_);
  if (base.empty() || base == "." || base == ".." || base == "/") {
    return absl::InvalidArgumentError(
        absl::StrFormat("-o %s: name a folder to make", path));
  }
  if (base.size() > NAME_MAX) {
    return absl::InvalidArgumentError(
        absl::StrFormat("-o %s: a name of %d bytes; at most %d are allowed",
                        path, base.size(), NAME_MAX));
  }
  if (!DirectoryExists(folder->parent_)) {
    return absl::NotFoundError(absl::StrFormat(
        "%s: its folder %s does not exist", path, folder->parent_));
  }
  // First, as it may bring an old plan back.
  RemoveStale(folder->parent_, base);
  struct stat st;
  if (lstat(folder->path_.c_str(), &st) == 0 && S_ISLNK(st.st_mode)) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "%s: exists and is a symbolic link; name the folder itself", path));
  }
  if (FileExists(folder->path_)) {
    return absl::FailedPreconditionError(
        absl::StrFormat("%s: exists and is a file; name another folder", path));
  }
  if (DirectoryExists(folder->path_)) {
    if (!replace) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "%s: exists; name another folder, or replace it with --force", path));
    }
    // --force replaces plans, not somebody's home.
    DS_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                        ListDirectory(folder->path_));
    if (!names.empty() &&
        !FileExists(JoinPath(folder->path_, "manifest.json"))) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "%s: holds no manifest.json, so it is no plan; --force replaces "
          "plans only",
          path));
    }
    for (const std::string& name : names) {
      if (DirectoryExists(JoinPath(folder->path_, name))) {
        return absl::FailedPreconditionError(absl::StrFormat(
            "%s: holds a folder, %s, so it is no plan alone; --force replaces "
            "plans only",
            path, name));
      }
    }
  }
  // Another process may hold such a name, and in a container every
  // process has the same number. Cut, so that it is none too long.
  const std::string stem =
      absl::StrFormat("%s/.%s.tmp-%d", folder->parent_,
                      base.substr(0, kStemBytes), static_cast<int>(getpid()));
  folder->temporary_ = stem;
  for (int i = 1; lstat(folder->temporary_.c_str(), &st) == 0; ++i) {
    folder->temporary_ = absl::StrCat(stem, "-", i);
  }
  return folder;
}

PlanFolder::~PlanFolder() {
  for (const auto& f : files_) {
    if (!f->path_.empty()) unlink(f->path_.c_str());
  }
  if (made_temporary_) RemoveFolder(temporary_);
  if (lock_ >= 0) close(lock_);
}

absl::StatusOr<FolderFile*> PlanFolder::Add(const std::string& name,
                                            uint64_t bytes) {
  auto file = std::make_unique<FolderFile>();
  file->name_ = name;
  file->folder_ = parent_;
  file->fd_ = open(parent_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
  if (file->fd_ < 0) {  // a file system without nameless files
    const std::string path = absl::StrCat(
        temporary_, ".", absl::StrReplaceAll(name, {{"/", "-"}}));
    file->fd_ =
        open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file->fd_ < 0) {
      return absl::InternalError(
          absl::StrCat(parent_, ": can't write here: ", ErrnoText(errno)));
    }
    file->path_ = path;
    flock(file->fd_, LOCK_EX | LOCK_NB);  // while it is open, it is no leftover
  }
  FolderFile* out = file.get();
  files_.push_back(std::move(file));
  if (bytes > 0) {
    const int error = posix_fallocate(out->fd_, 0, bytes);
    if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
      return absl::InternalError(absl::StrFormat(
          "%s: %s needs %d bytes, %d are free (%s); free some space or name a "
          "folder elsewhere",
          parent_, name, bytes, FreeBytes(parent_), ErrnoText(error)));
    }
    if (error != 0 && ftruncate(out->fd_, bytes) != 0) {
      return absl::InternalError(
          absl::StrCat(parent_, ": ", name, ": ", ErrnoText(errno)));
    }
  }
  return out;
}

absl::Status PlanFolder::Commit() {
  for (const auto& f : files_) {
    if (PlanWritingInterrupted()) return absl::CancelledError("interrupted");
    // Never retried: after a failed fsync the kernel has dropped the pages.
    if (fsync(f->fd_) != 0) {
      return absl::InternalError(absl::StrFormat(
          "%s: sync: %s", JoinPath(path_, f->name_), ErrnoText(errno)));
    }
  }
  if (mkdir(temporary_.c_str(), 0777) != 0) {
    return absl::InternalError(
        absl::StrCat(temporary_, ": ", ErrnoText(errno)));
  }
  made_temporary_ = true;
  lock_ = open(temporary_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_ >= 0) flock(lock_, LOCK_EX | LOCK_NB);
  std::set<std::string> folders = {temporary_};
  for (const auto& f : files_) {
    const std::string to = JoinPath(temporary_, f->name_);
    if (folders.insert(Dirname(to)).second &&
        mkdir(Dirname(to).c_str(), 0777) != 0) {
      return absl::InternalError(
          absl::StrCat(Dirname(to), ": ", ErrnoText(errno)));
    }
    int result;
    if (f->path_.empty()) {
      result = linkat(AT_FDCWD, absl::StrCat("/proc/self/fd/", f->fd_).c_str(),
                      AT_FDCWD, to.c_str(), AT_SYMLINK_FOLLOW);
    } else {
      result = rename(f->path_.c_str(), to.c_str());
      if (result == 0) f->path_ = to;
    }
    if (result != 0) {
      return absl::InternalError(absl::StrCat(to, ": ", ErrnoText(errno)));
    }
  }
  for (const std::string& folder : folders) {
    DS_RETURN_IF_ERROR(SyncFolder(folder));
  }
  if (rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    if (error != ENOTEMPTY && error != EEXIST && error != ENOTDIR) {
      return absl::InternalError(absl::StrFormat("%s: can't get its name: %s",
                                                 path_, ErrnoText(error)));
    }
    if (!replace_ || error == ENOTDIR) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "%s: appeared while the plan was made; name another folder", path_));
    }
    // The old plan stays whole until the new one has its name.
    if (renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(),
                  RENAME_EXCHANGE) != 0) {
      const std::string old = absl::StrCat(temporary_, kAside);
      const bool moved = rename(path_.c_str(), old.c_str()) == 0;
      if (!moved || rename(temporary_.c_str(), path_.c_str()) != 0) {
        const std::string why = ErrnoText(errno);
        const bool lost = moved && rename(old.c_str(), path_.c_str()) != 0;
        return absl::InternalError(absl::StrCat(
            path_, ": can't be replaced: ", why,
            lost ? absl::StrCat("; the old plan is in ", old,
                                " and comes back with the next dscompile")
                 : "; the old plan is untouched"));
      }
      RemoveFolder(old);
    } else {
      RemoveFolder(temporary_);
    }
  }
  made_temporary_ = false;
  for (const auto& f : files_) f->path_.clear();
  if (const absl::Status synced = SyncFolder(parent_); !synced.ok()) {
    return absl::InternalError(
        absl::StrCat(path_,
                     ": the plan is made, but may not outlast a power "
                     "cut: ",
                     synced.message()));
  }
  return absl::OkStatus();
}

}  // namespace deepslice
