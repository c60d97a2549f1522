// A rank's file that is another's, copied over it: the shapes fit, and the
// model would be wrong without a word.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_RANK_COPIES_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_RANK_COPIES_H_

#include "absl/status/status.h"
#include "compiler/checkpoint/checkpoint.h"

namespace deepslice {

// Refuses a checkpoint whose tensors are put together of two files that are
// equal byte for byte. Files that differ are read to their first difference;
// those that hold nothing but one value over and over may be equal.
absl::Status CheckNoCopiedRank(const Checkpoint& checkpoint);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_RANK_COPIES_H_
