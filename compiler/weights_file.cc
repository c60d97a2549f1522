#include "compiler/weights_file.h"

#include <algorithm>

#include "schema/base/checked_math.h"
#include "schema/base/status_macros.h"

namespace deepslice {

absl::Status WeightsFile::Append(const void* data, uint64_t bytes) {
  const char* p = static_cast<const char*>(data);
  while (bytes > 0) {
    if (pending_.empty() && bytes >= kHashBlock) {
      // Straight from the source's mapping, without a copy of ours.
      const uint64_t whole = bytes / kHashBlock * kHashBlock;
      for (uint64_t at = 0; at < whole; at += kHashBlock) {
        DS_RETURN_IF_ERROR(Write(p + at, kHashBlock));
      }
      p += whole;
      bytes -= whole;
      continue;
    }
    const uint64_t take = std::min(bytes, kHashBlock - pending_.size());
    pending_.insert(pending_.end(), p, p + take);
    p += take;
    bytes -= take;
    if (pending_.size() == kHashBlock) {
      DS_RETURN_IF_ERROR(Write(pending_.data(), kHashBlock));
      pending_.clear();
    }
  }
  return absl::OkStatus();
}

absl::Status WeightsFile::Pad(uint64_t alignment) {
  static constexpr char kZeros[kSegment] = {};
  const uint64_t to = RoundUp(size(), alignment);
  return Append(kZeros, to - size());
}

absl::Status WeightsFile::Finish() {
  if (!pending_.empty()) {
    DS_RETURN_IF_ERROR(Write(pending_.data(), pending_.size()));
    pending_.clear();
  }
  sha256_ = sha_.Finish();
  return absl::OkStatus();
}

absl::Status WeightsFile::Write(const char* data, uint64_t bytes) {
  // All at once, while the block is in the cache.
  DS_RETURN_IF_ERROR(file_.WriteAt(written_, data, bytes));
  hashes_.push_back(Xxh3(data, bytes));
  sha_.Update(data, bytes);
  written_ += bytes;
  return absl::OkStatus();
}

}  // namespace deepslice
