// SHA-256 (identity of files) and XXH3-64 (damage checks while reading).
#ifndef DEEPSLICE_SCHEMA_BASE_DIGEST_H_
#define DEEPSLICE_SCHEMA_BASE_DIGEST_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace deepslice {

// Incremental SHA-256. Not thread-safe.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  void Update(const void* data, size_t size);
  // 64 lower-case hex digits. The object may not be used afterwards.
  std::string Finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string Sha256Hex(absl::string_view data);
uint64_t Xxh3(const void* data, size_t size);
inline uint64_t Xxh3(absl::string_view s) { return Xxh3(s.data(), s.size()); }

}  // namespace deepslice

#endif  // DEEPSLICE_SCHEMA_BASE_DIGEST_H_
