#include "compiler/checkpoint/rank_copies.h"

#include <cstring>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"

namespace deepslice {
namespace {

// Whether the first row of a part has two elements that differ.
bool Varies(const Checkpoint& checkpoint, DType dtype, const TensorPart& part) {
  const size_t size = DTypeSize(dtype);
  const absl::string_view bytes =
      checkpoint.file_bytes(part.file).substr(part.offset);
  for (int64_t i = 1; i < part.columns; ++i) {
    const size_t at = i * part.column_stride * size;
    if (at + size > bytes.size()) return false;
    if (bytes.substr(at, size) != bytes.substr(0, size)) return true;
  }
  return false;
}

bool HoldsWeights(const Checkpoint& checkpoint, int file) {
  for (const TensorInfo& t : checkpoint.tensors()) {
    for (const TensorPart& part : t.parts) {
      if (part.file == file && Varies(checkpoint, t.dtype, part)) return true;
    }
  }
  return false;
}

bool SameBytes(absl::string_view a, absl::string_view b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace

absl::Status CheckNoCopiedRank(const Checkpoint& checkpoint) {
  std::set<int> ranks;  // files that have a part of a tensor, another the rest
  for (const TensorInfo& t : checkpoint.tensors()) {
    for (const TensorPart& part : t.parts) {
      if (part.file == t.parts[0].file) continue;
      ranks.insert(t.parts[0].file);
      ranks.insert(part.file);
    }
  }
  // Each against one before it, not all: many may be of a size.
  std::map<size_t, int> by_size;
  for (const int file : ranks) {
    const absl::string_view bytes = checkpoint.file_bytes(file);
    const auto [it, is_new] = by_size.insert({bytes.size(), file});
    if (is_new || !SameBytes(bytes, checkpoint.file_bytes(it->second)) ||
        !HoldsWeights(checkpoint, file)) {
      continue;
    }
    const std::vector<SourceFile>& files = checkpoint.files();
    return absl::InvalidArgumentError(absl::StrCat(
        files[file].path, ": is ", files[it->second].path,
        " byte for byte, but each rank has its own part of the model; copy the "
        "rank's own file again"));
  }
  return absl::OkStatus();
}

}  // namespace deepslice
