// A GGUF file as a checkpoint with Hugging Face's names.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_GGUF_CHECKPOINT_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_GGUF_CHECKPOINT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "compiler/checkpoint/gguf.h"
#include "compiler/checkpoint/loaded_checkpoint.h"

namespace deepslice {

// Takes the file over. A tensor that no row of the architecture's table names
// keeps its stored name.
absl::StatusOr<std::unique_ptr<Checkpoint>> OpenGguf(SourceBytes source);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_GGUF_CHECKPOINT_H_
