// Text that a file gave: is it UTF-8, and how an error line shows it.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_UNTRUSTED_TEXT_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_UNTRUSTED_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace deepslice {

// The offset of the first byte that is not part of a well-formed UTF-8
// sequence (no surrogates, no overlong forms); npos when there is none.
size_t FindBadUtf8(absl::string_view s);

// `s` in double quotes on one line: control characters and bad UTF-8 escaped,
// cut after 120 bytes.
std::string Quoted(absl::string_view s);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_UNTRUSTED_TEXT_H_
