// Writes a rank's weights file front to back, hashing each 1 MiB block and the
// whole.
#ifndef DEEPSLICE_COMPILER_WEIGHTS_FILE_H_
#define DEEPSLICE_COMPILER_WEIGHTS_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "compiler/plan_folder.h"
#include "schema/base/digest.h"
#include "schema/plan_format.h"

namespace deepslice {

// Not thread-safe. Memory: one block.
class WeightsFile {
 public:
  explicit WeightsFile(FolderFile* file) : file_(*file) {}
  absl::Status Append(const void* data, uint64_t bytes);
  // Zeros up to a multiple of `alignment`.
  absl::Status Pad(uint64_t alignment);
  // Writes what is left; no Append after it.
  absl::Status Finish();

  uint64_t size() const { return written_ + pending_.size(); }
  // After Finish.
  const std::vector<uint64_t>& block_hashes() const { return hashes_; }
  const std::string& sha256() const { return sha256_; }

 private:
  // A block, or the rest.
  absl::Status Write(const char* data, uint64_t bytes);

  FolderFile& file_;
  uint64_t written_ = 0;
  std::vector<char> pending_;  // less than a block
  std::vector<uint64_t> hashes_;
  Sha256 sha_;
  std::string sha256_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_WEIGHTS_FILE_H_
