// Which names of modules and functions a checkpoint may hold at all.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_PICKLE_NAMES_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_PICKLE_NAMES_H_

#include "absl/strings/string_view.h"

namespace deepslice::pickle {

// Whether a pickle that names this is refused, used or not: what starts
// programs, opens files, runs text as code or imports (os, subprocess, eval,
// ...), reached directly or through another module ("torch.serialization",
// "os.system"). Everything else is a name and stays one.
bool IsHostileName(absl::string_view module, absl::string_view name);

}  // namespace deepslice::pickle

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_PICKLE_NAMES_H_
