// Stored elements of one floating type as another, rounded once.
#ifndef DEEPSLICE_COMPILER_CONVERT_ELEMENTS_H_
#define DEEPSLICE_COMPILER_CONVERT_ELEMENTS_H_

#include <cstdint>

#include "schema/base/dtype.h"

namespace deepslice {

// Writes `count` elements of `to` (kF32, kF16, kBF16) to `out`: the floats that
// WidenToFloat makes of `elements`, as FloatToBF16 and FloatToF16 round them.
// Neither need be aligned. Returns how many finite floats became infinite.
int64_t ConvertElements(DType from, const uint8_t* elements, int64_t count,
                        DType to, uint8_t* out);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CONVERT_ELEMENTS_H_
