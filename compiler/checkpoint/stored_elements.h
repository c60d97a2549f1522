// The bytes of a tensor's elements, in whatever way they are stored.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_STORED_ELEMENTS_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_STORED_ELEMENTS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/checkpoint/loaded_checkpoint.h"

namespace deepslice {

// What a readable kPlain tensor is put together of; one that has no parts and
// at most two dims is one part, without strides it may have more dims.
std::vector<TensorPart> PartsOf(const TensorInfo& t);

// The elements of a readable kPlain tensor in row-major order; in `room`, which
// is empty before, where they are not so stored. TensorInfo::file and those of
// parts are indexes into `sources`.
absl::string_view StoredElements(const std::vector<SourceBytes>& sources,
                                 const TensorInfo& t, std::string* room);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_STORED_ELEMENTS_H_
