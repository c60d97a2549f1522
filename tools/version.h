// What --version prints.
#ifndef DEEPSLICE_TOOLS_VERSION_H_
#define DEEPSLICE_TOOLS_VERSION_H_

#include <string>

#include "absl/strings/string_view.h"

namespace deepslice {

// "dsrun 0.1.0 (git 1dc7f3012345)", then a line for each of `more`, which end
// in newlines except for the last. No commit: not built from git.
std::string VersionText(absl::string_view program, absl::string_view more);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_VERSION_H_
