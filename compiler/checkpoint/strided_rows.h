// Rows of a tensor with strides, in the order of its dims.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_STRIDED_ROWS_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_STRIDED_ROWS_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "compiler/checkpoint/checkpoint.h"

namespace deepslice {

// Calls `line` with the stored bytes of `count` elements at a time, gathered
// side by side, until rows [begin, end) are through. `first` is where the
// tensor's first element lies.
void ForEachLine(
    const TensorInfo& t, const uint8_t* first, int64_t begin, int64_t end,
    absl::FunctionRef<void(const uint8_t* bytes, int64_t count)> line);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_STRIDED_ROWS_H_
