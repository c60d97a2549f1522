#include "schema/base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "schema/base/mapped_fault.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

absl::Status ErrnoStatus(absl::string_view path, int error) {
  const std::string text = absl::StrCat(path, ": ", std::strerror(error));
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(text);
  if (error == ENAMETOOLONG || error == EISDIR || error == ELOOP ||
      error == EACCES || error == EPERM) {
    return absl::InvalidArgumentError(text);
  }
  return absl::InternalError(text);
}

struct OpenedFile {
  int fd;
  int64_t size;
};

absl::StatusOr<OpenedFile> OpenRegular(const std::string& path) {
  if (path.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError("a path with a NUL byte");
  }
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return ErrnoStatus(path, errno);
  struct stat st;
  if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
    close(fd);
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": not a regular file"));
  }
  return OpenedFile{fd, st.st_size};
}

}  // namespace

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  DS_ASSIGN_OR_RETURN(const OpenedFile file, OpenRegular(path));
  absl::Cleanup closer = [&] { close(file.fd); };
  MappedFile out;
  out.path_ = path;
  if (file.size == 0) return out;  // mmap refuses length 0
  const size_t size = file.size;
  void* p = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (p == MAP_FAILED) return ErrnoStatus(path, errno);
  NoteMapping(p, size, path);
  out.mapping_ = std::shared_ptr<const void>(p, [size](const void* q) {
    ForgetMapping(q);
    munmap(const_cast<void*>(q), size);
  });
  out.bytes_ = absl::string_view(static_cast<const char*>(p), size);
  return out;
}

absl::StatusOr<std::string> ReadFile(const std::string& path,
                                     int64_t max_bytes) {
  DS_ASSIGN_OR_RETURN(const OpenedFile file, OpenRegular(path));
  absl::Cleanup closer = [&] { close(file.fd); };
  if (file.size > max_bytes) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "%s: %d bytes; at most %d are allowed", path, file.size, max_bytes));
  }
  std::string out(file.size, '\0');
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t n = read(file.fd, out.data() + done, out.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(path, errno);
    if (n == 0) break;  // shrank while being read
    done += n;
  }
  out.resize(done);
  return out;
}

absl::Status WriteFile(const std::string& path, absl::string_view bytes) {
  const int fd =
      open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return ErrnoStatus(path, errno);
  absl::Cleanup closer = [&] { close(fd); };
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(path, errno);
    bytes.remove_prefix(n);
  }
  return absl::OkStatus();
}

bool FileExists(const std::string& path) {
  struct stat st;
  return stat(path.c_str(), &st) == 0 && !S_ISDIR(st.st_mode);
}

bool DirectoryExists(const std::string& path) {
  struct stat st;
  return stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
}

absl::StatusOr<std::vector<std::string>> ListDirectory(
    const std::string& path) {
  DIR* dir = opendir(path.c_str());
  if (dir == nullptr) return ErrnoStatus(path, errno);
  absl::Cleanup closer = [&] { closedir(dir); };
  std::vector<std::string> names;
  while (const dirent* entry = readdir(dir)) {
    const absl::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  // The order of readdir differs between file systems.
  std::sort(names.begin(), names.end());
  return names;
}

std::string JoinPath(absl::string_view a, absl::string_view b) {
  if (a.empty()) return std::string(b);
  return absl::StrCat(a, a.back() == '/' ? "" : "/", b);
}

absl::string_view Basename(absl::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  const size_t slash = path.rfind('/');
  return slash == absl::string_view::npos ? path : path.substr(slash + 1);
}

std::string Dirname(absl::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  const size_t slash = path.rfind('/');
  if (slash == absl::string_view::npos) return ".";
  return std::string(path.substr(0, slash == 0 ? 1 : slash));
}

std::string UserCacheFolder() {
  const char* xdg = std::getenv("XDG_CACHE_HOME");
  if (xdg != nullptr && *xdg == '/') return xdg;
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home == '/') return JoinPath(home, ".cache");
  return "";
}

bool IsSafeRelativePath(absl::string_view name) {
  if (name.empty() || name.find('\0') != absl::string_view::npos) return false;
  for (absl::string_view part : absl::StrSplit(name, '/')) {
    if (part.empty() || part == "..") return false;
  }
  return true;
}

}  // namespace deepslice
