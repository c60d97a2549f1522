// How a compilation tells how far it is.
#ifndef DEEPSLICE_COMPILER_PROGRESS_H_
#define DEEPSLICE_COMPILER_PROGRESS_H_

#include <cstdint>
#include <functional>

#include "absl/strings/string_view.h"

namespace deepslice {

// `what` names the phase ("packed and hashed"), `unit` what is counted, "" for
// bytes. Called by one thread at a time; may be empty.
using ReportProgress =
    std::function<void(absl::string_view what, uint64_t done, uint64_t total,
                       absl::string_view unit)>;

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_PROGRESS_H_
