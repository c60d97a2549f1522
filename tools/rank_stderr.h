// Whose line is it, where several ranks write to one terminal.
#ifndef DEEPSLICE_TOOLS_RANK_STDERR_H_
#define DEEPSLICE_TOOLS_RANK_STDERR_H_

#include "absl/strings/string_view.h"

namespace deepslice {

// From now on each line that this process writes to stdio's `stderr` begins
// with `prefix`, and goes out whole. Call once, before there are other threads.
// What goes straight to file descriptor 2 is not touched.
void PrefixStderr(absl::string_view prefix);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_RANK_STDERR_H_
