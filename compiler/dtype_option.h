// --dtype: every spelling that users of other engines type, and what it means.
#ifndef DEEPSLICE_COMPILER_DTYPE_OPTION_H_
#define DEEPSLICE_COMPILER_DTYPE_OPTION_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "passes/quantize_weights.h"
#include "schema/base/dtype.h"

namespace deepslice {

// "auto" (or empty) keeps the checkpoint's own type; "int8" quantises the
// matrices whose roles allow it and keeps the own type for the rest.
// InvalidArgument with the list of spellings for anything else.
absl::StatusOr<StorageChoice> ChooseStorage(absl::string_view dtype,
                                            DType checkpoint_dtype);

// "fp32", "fp16", "bf16", "int8": the canonical name of a choice.
absl::string_view StorageName(const StorageChoice& choice);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_DTYPE_OPTION_H_
