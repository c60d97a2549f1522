// Where a tensor's elements lie, in whatever way it is stored, and their bytes.
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

// Makes rows (dim 0) or columns (dim 1) [begin, begin + count) of `from`, as
// PartsOf takes it, parts of `to`, from (row, column) on.
void AddSlab(const TensorInfo& from, int dim, int64_t begin, int64_t count,
             int64_t row, int64_t column, TensorInfo* to);

// The elements of a readable kPlain tensor in row-major order; in `room`, which
// is empty before, where they are not so stored. TensorInfo::file and those of
// parts are indexes into `sources`.
absl::string_view StoredElements(const std::vector<SourceBytes>& sources,
                                 const TensorInfo& t, std::string* room);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_STORED_ELEMENTS_H_
