// PyTorch's element types, by the names of their storages and dtypes.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_TORCH_TYPES_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_TORCH_TYPES_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "compiler/checkpoint/pickle_value.h"
#include "schema/base/dtype.h"

namespace deepslice {

struct TorchType {
  absl::string_view name;         // "float32"
  absl::optional<DType> element;  // none: a type that is not read here
  int64_t size = 1;               // bytes of an element
  bool untyped = false;           // bytes; the tensor says what they are
};

// Of a class like torch.FloatStorage, and of a name like torch.float32. Both
// Unimplemented when the name is not known.
absl::StatusOr<TorchType> TypeOfStorage(const pickle::Value& storage_class);
absl::StatusOr<TorchType> TypeOfName(const pickle::Value& dtype);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_TORCH_TYPES_H_
