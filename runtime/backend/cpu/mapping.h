// Anonymous memory straight from the system: zeros that cost nothing until they
// are touched.
#ifndef DEEPSLICE_RUNTIME_BACKEND_CPU_MAPPING_H_
#define DEEPSLICE_RUNTIME_BACKEND_CPU_MAPPING_H_

#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace deepslice {

class Mapping {
 public:
  // `what` is for the message: ResourceExhausted when the system refuses.
  static absl::StatusOr<Mapping> Make(int64_t bytes, absl::string_view what);
  Mapping() = default;
  ~Mapping();
  Mapping(Mapping&& o) noexcept
      : data_(std::exchange(o.data_, nullptr)),
        bytes_(std::exchange(o.bytes_, 0)) {}
  Mapping& operator=(Mapping&& o) noexcept {
    std::swap(data_, o.data_);
    std::swap(bytes_, o.bytes_);
    return *this;
  }

  char* data() const { return data_; }  // page-aligned; nullptr for 0 bytes
  int64_t bytes() const { return bytes_; }

 private:
  char* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_BACKEND_CPU_MAPPING_H_
