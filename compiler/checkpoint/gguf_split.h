// GGUF models that are stored as several files, NAME-00001-of-00003.gguf and so
// on: the first holds the metadata, all of them tensors.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_GGUF_SPLIT_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_GGUF_SPLIT_H_

#include <vector>

#include "absl/status/statusor.h"
#include "compiler/checkpoint/gguf.h"
#include "compiler/checkpoint/loaded_checkpoint.h"

namespace deepslice {

struct WholeGguf {
  GgufFile file;                     // tensors of all parts; `file` is set
  std::vector<SourceBytes> sources;  // in the order of the parts
};

// `file` is what `source` holds, a whole model or any part of one; of a part
// the others are read from the same folder. Refuses a set of which a part is
// missing, or belongs to another, or stands under another's number, and names
// that the metadata contradicts; errors name the file.
absl::StatusOr<WholeGguf> ReadWholeGguf(SourceBytes source, GgufFile file);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_GGUF_SPLIT_H_
