// A file in memory that has a path, for readers that take no bytes.
#ifndef DEEPSLICE_TESTS_FUZZ_MEMORY_FILE_H_
#define DEEPSLICE_TESTS_FUZZ_MEMORY_FILE_H_

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "schema/base/check.h"

namespace deepslice {

// Only its name is on a disk, in a folder that goes with the object.
class MemoryFile {
 public:
  explicit MemoryFile(absl::string_view name) : folder_("/tmp/fuzz-XXXXXX") {
    fd_ = memfd_create("fuzz", MFD_CLOEXEC);
    DS_CHECK(fd_ >= 0 && mkdtemp(folder_.data()) != nullptr);
    path_ = absl::StrCat(folder_, "/", name);
    DS_CHECK(symlink(absl::StrCat("/proc/self/fd/", fd_).c_str(),
                     path_.c_str()) == 0);
  }
  ~MemoryFile() {
    unlink(path_.c_str());
    rmdir(folder_.c_str());
    close(fd_);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  void Write(absl::string_view bytes) {
    DS_CHECK(ftruncate(fd_, 0) == 0);
    DS_CHECK(pwrite(fd_, bytes.data(), bytes.size(), 0) ==
             static_cast<ssize_t>(bytes.size()));
  }
  const std::string& path() const { return path_; }

 private:
  int fd_;
  std::string folder_, path_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_TESTS_FUZZ_MEMORY_FILE_H_
