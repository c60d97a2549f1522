// The header of a safetensors file: 8 bytes of length, JSON, then the data.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_SAFETENSORS_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_SAFETENSORS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/checkpoint/checkpoint.h"

namespace deepslice {

struct SafetensorsHeader {
  // In the order of the data; `file` is 0, offsets count from the file's start.
  std::vector<TensorInfo> tensors;
  // __metadata__, in file order; empty when absent.
  std::vector<std::pair<std::string, std::string>> metadata;
};

// `file` is the whole file, `path` its name in errors. After success every
// tensor lies inside `file`, its size is shape times type, and the tensors
// cover the data exactly: no hole, no overlap, nothing behind the last.
//   InvalidArgument    the header breaks the format
//   DataLoss           the file is cut, or an LFS pointer
//   Unimplemented      a type (F8_*, ...) or rank that this program lacks
//   ResourceExhausted  more tensors or a longer name than limits.h allows
absl::StatusOr<SafetensorsHeader> ReadSafetensorsHeader(
    absl::string_view file, const std::string& path);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_SAFETENSORS_H_
