// The four Unicode normalisation forms.
#ifndef DEEPSLICE_RUNTIME_TEXT_NORMALIZE_H_
#define DEEPSLICE_RUNTIME_TEXT_NORMALIZE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "runtime/text/tokenizer_spec.h"

namespace deepslice {

// `text` is valid UTF-8, `kind` one of the first four. Linear in its size but
// for sorting runs of marks. False, and `out` as it was: the text is in that
// form already.
bool NormalizeUnicode(absl::string_view text, NormalizerKind kind,
                      std::string* out);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_NORMALIZE_H_
