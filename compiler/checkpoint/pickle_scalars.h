// The opcodes of a pickle that push one value of their own.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_PICKLE_SCALARS_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_PICKLE_SCALARS_H_

#include "absl/status/statusor.h"
#include "compiler/checkpoint/pickle_opcodes.h"
#include "compiler/checkpoint/pickle_operands.h"
#include "compiler/checkpoint/pickle_value.h"

namespace deepslice::pickle {

// The value of NONE, NEWTRUE, NEWFALSE, and of the opcodes for numbers, text
// and bytes; `op` is one of these and `cursor` is behind it.
absl::StatusOr<Value*> ReadScalar(Op op, Cursor& cursor, Heap& heap);

// Whether the opcode's value is a string of bytes.
bool MayHoldPickles(Op op);

}  // namespace deepslice::pickle

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_PICKLE_SCALARS_H_
