// The GGUF container, versions 2 and 3: metadata and the table of tensors.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_GGUF_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_GGUF_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/checkpoint/checkpoint.h"

namespace deepslice {

inline constexpr absl::string_view kGgufMagic = "GGUF";

struct GgufFile {
  uint32_t version = 0;
  // Key -> value, in file order. Strings may hold any bytes. Arrays are arrays,
  // but for those of 8-bit integers, which are strings of these bytes.
  json::Value metadata = json::Value::Object();
  // In file order under their stored names (name and stored_name alike), dims
  // in row-major order, offsets from the file's start.
  std::vector<TensorInfo> tensors;
};

// `file` is the whole file, `path` its name in errors. After success keys and
// tensor names are unique, and every tensor lies inside `file`, aligned and
// overlapping no other.
//   InvalidArgument    the file breaks the format
//   DataLoss           the file is cut, or an LFS pointer
//   Unimplemented      old magics, other versions, big-endian, tensor types
//                      that this program does not read
//   ResourceExhausted  counts beyond limits.h
absl::StatusOr<GgufFile> ReadGguf(absl::string_view file,
                                  const std::string& path);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_GGUF_H_
