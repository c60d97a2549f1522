// The tensor types that GGUF files name by number.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_GGUF_TYPES_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_GGUF_TYPES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "compiler/checkpoint/checkpoint.h"

namespace deepslice {

struct GgufType {
  DType dtype = DType::kF32;
  Storage storage = Storage::kPlain;
  int64_t block_elements = 1;
  int64_t block_bytes = 0;
};

// InvalidArgument for a number without meaning, Unimplemented with its name for
// a type that is not read. The text has no place.
absl::StatusOr<GgufType> FindGgufType(uint32_t number);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_GGUF_TYPES_H_
