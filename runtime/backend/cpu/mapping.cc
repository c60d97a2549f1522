#include "runtime/backend/cpu/mapping.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace deepslice {

absl::StatusOr<Mapping> Mapping::Make(int64_t bytes, absl::string_view what) {
  Mapping out;
  if (bytes == 0) return out;
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat(what, ": ", bytes, " bytes: ", std::strerror(errno)));
  }
  out.data_ = static_cast<char*>(p);
  out.bytes_ = bytes;
  return out;
}

Mapping::~Mapping() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

}  // namespace deepslice
