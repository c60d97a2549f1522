// What is answered to flags and verbs of other programs that have no
// counterpart where they were typed: how the same is done here.
#ifndef DEEPSLICE_TOOLS_FOREIGN_WORDS_H_
#define DEEPSLICE_TOOLS_FOREIGN_WORDS_H_

#include "absl/strings/string_view.h"

namespace deepslice {

// "--port", "-ngl=99", "--tensor-parallel-size": how it is done here; "" for a
// flag of nobody. Whether the command has the flag is the caller's to check.
absl::string_view AnswerToFlag(absl::string_view flag);

// The same for dsrun's first word: "serve".
absl::string_view AnswerToVerb(absl::string_view verb);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_FOREIGN_WORDS_H_
