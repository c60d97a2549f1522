// Spellings that printer and parser share.
#ifndef DEEPSLICE_IR_TEXT_SPELLING_H_
#define DEEPSLICE_IR_TEXT_SPELLING_H_

#include "absl/strings/string_view.h"
#include "ir/graph.h"

namespace deepslice {

// By the value of StateKind.
inline constexpr absl::string_view kStateKindNames[] = {
    "full", "window", "cross", "latent", "recurrent"};

}  // namespace deepslice

#endif  // DEEPSLICE_IR_TEXT_SPELLING_H_
