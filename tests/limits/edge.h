// How a bound of limits.def is tried at its edge.
#ifndef DEEPSLICE_TESTS_LIMITS_EDGE_H_
#define DEEPSLICE_TESTS_LIMITS_EDGE_H_

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace deepslice {

enum : unsigned {
  kOk = 1,          // at the limit all is well
  kPowerOfTwo = 2,  // the next values are half and twice as much
  kOnlyAbove = 4,   // what is at the limit is too large to make here
};

// Gives a reader something of size `n`. At the limit and below, the status may
// be an error, as most of these files are no whole models; but only above may
// it name the limit.
struct Edge {
  const char* name;  // of the row: limits::kNAME
  std::function<absl::Status(int64_t n)> read;
  unsigned flags = 0;
  // The limit as the error writes it, when that is not the number itself.
  const char* written = nullptr;
};
inline std::ostream& operator<<(std::ostream& out, const Edge& e) {
  return out << e.name;
}

// The rows that files of this folder try.
std::vector<Edge> FileEdges();
std::vector<Edge> PlanEdges();
std::vector<Edge> TextEdges();

// `size` zero bytes that take no memory until they are read.
class Zeros {
 public:
  explicit Zeros(size_t size)
      : size_(size),
        data_(mmap(nullptr, size, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  ~Zeros() { munmap(data_, size_); }
  Zeros(const Zeros&) = delete;
  Zeros& operator=(const Zeros&) = delete;
  // Puts bytes in.
  void Write(size_t at, absl::string_view bytes) {
    std::copy(bytes.begin(), bytes.end(), static_cast<char*>(data_) + at);
  }
  absl::string_view view() const {
    return absl::string_view(static_cast<const char*>(data_), size_);
  }

 private:
  size_t size_;
  void* data_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_TESTS_LIMITS_EDGE_H_
