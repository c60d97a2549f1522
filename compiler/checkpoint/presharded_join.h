// The injected layers of DeepSpeed's ranks as published tensors.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_PRESHARDED_JOIN_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_PRESHARDED_JOIN_H_

#include "absl/status/status.h"
#include "compiler/checkpoint/loaded_checkpoint.h"
#include "compiler/checkpoint/presharded_files.h"
#include "compiler/checkpoint/presharded_names.h"

namespace deepslice {

// Reads `files` and appends to parts->sources and parts->tensors, and notes to
// parts->notes. parts->config says how many heads there are. Tensors that the
// injection left alone keep their names.
absl::Status JoinPresharded(const InjectedFamily& family,
                            const PreshardedFiles& files,
                            CheckpointParts* parts);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_PRESHARDED_JOIN_H_
