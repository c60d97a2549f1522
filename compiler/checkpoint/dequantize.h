// Stored elements to float: plain types and GGUF's block types, exactly as the
// formats define them.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_DEQUANTIZE_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_DEQUANTIZE_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "compiler/checkpoint/checkpoint.h"
#include "schema/base/dtype.h"

namespace deepslice {

// "plain", "Q4_1", ...
absl::string_view StorageName(Storage s);
// Elements and bytes of one block; 1 and 0 for kPlain, whose size is its
// DType's.
int64_t BlockElements(Storage s);
int64_t BlockBytes(Storage s);

// Writes elements [first, first + count) of `data` to `out`. `data` holds whole
// blocks up to the last element asked for; a range may begin and end inside a
// block. Each value is the format's own expression, every operation rounded
// once to float.
void DequantizeBlocks(Storage storage, const uint8_t* data, int64_t first,
                      int64_t count, float* out);

// Widens `count` elements of a floating type; F64 rounds to nearest.
void WidenToFloat(DType type, const uint8_t* data, int64_t count, float* out);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_DEQUANTIZE_H_
