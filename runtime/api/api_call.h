// What every function of the C interface does around its work: nothing is
// thrown, and a failure's text is kept for ds_last_error.
#ifndef DEEPSLICE_RUNTIME_API_API_CALL_H_
#define DEEPSLICE_RUNTIME_API_API_CALL_H_

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/api/deepslice.h"

namespace deepslice {

// The code of `status`, whose message becomes this thread's last error, cut to
// what a fixed buffer holds; allocates nothing.
ds_status EndCall(const absl::Status& status) noexcept;
// The same for the exception that is being handled.
ds_status EndCallByException() noexcept;
ds_status CodeOf(const absl::Status& status);

// Runs `body`, which returns absl::Status, as one call.
template <typename Body>
ds_status ApiCall(Body&& body) noexcept {
  try {
    return EndCall(std::forward<Body>(body)());
  } catch (...) {
    return EndCallByException();
  }
}

// InvalidArgument: "ds_load: folder is NULL".
absl::Status NullArgument(absl::string_view function, absl::string_view what);

// What `text` says; InvalidArgument for a size without data.
absl::StatusOr<absl::string_view> TextOf(const ds_text& text,
                                         absl::string_view what);

// Memory for ds_release. The text's copy ends in a NUL.
char* CopyText(absl::string_view text);
template <typename T>
T* CopyArray(const T* data, size_t size);

// Copies the first struct_size bytes of what a caller filled over defaults,
// whatever version of the struct it is; InvalidArgument for a size that no
// version has. `least`: the first version's.
template <typename T>
absl::Status ReadStruct(const T* given, size_t least, absl::string_view what,
                        T* out);
// Gives `size` bytes of `full` to a caller.
template <typename T>
void WriteStruct(T full, void* out, size_t size) {
  full.struct_size = size;
  std::memset(out, 0, size);
  std::memcpy(out, &full, std::min(size, sizeof(T)));
}

// ---- Details ---------------------------------------------------------------

void* Allocate(size_t bytes);  // throws std::bad_alloc
absl::Status BadStructSize(size_t size, size_t least, absl::string_view what);

template <typename T>
T* CopyArray(const T* data, size_t size) {
  void* copy = Allocate(size * sizeof(T));
  if (size > 0) std::memcpy(copy, data, size * sizeof(T));
  return static_cast<T*>(copy);
}

template <typename T>
absl::Status ReadStruct(const T* given, size_t least, absl::string_view what,
                        T* out) {
  if (given == nullptr) return absl::OkStatus();
  const size_t size = given->struct_size;
  if (size < least) return BadStructSize(size, least, what);
  std::memcpy(out, given, std::min(size, sizeof(T)));
  return absl::OkStatus();
}

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_API_API_CALL_H_
