// The four Unicode normalisation forms.
#ifndef DEEPSLICE_RUNTIME_TEXT_NORMALIZE_H_
#define DEEPSLICE_RUNTIME_TEXT_NORMALIZE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "runtime/text/tokenizer_spec.h"

namespace deepslice {

// `text` is valid UTF-8. Linear in its size but for sorting runs of marks.
std::string NormalizeUnicode(absl::string_view text, NormalizerKind kind);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_NORMALIZE_H_
