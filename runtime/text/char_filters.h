// Normalizer steps that look at one character at a time.
#ifndef DEEPSLICE_RUNTIME_TEXT_CHAR_FILTERS_H_
#define DEEPSLICE_RUNTIME_TEXT_CHAR_FILTERS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "runtime/text/tokenizer_spec.h"

namespace deepslice {

// Each writes the changed text to `out`. False, and `out` undefined: nothing
// changes. `*first_dropped`: the first character leaves no trace.
bool Lowercase(absl::string_view text, std::string* out);
bool StripAccents(absl::string_view text, std::string* out,
                  bool* first_dropped);
bool StripSpace(absl::string_view text, bool left, bool right, std::string* out,
                bool* first_dropped);
// BertNormalizer; `flags` are NormalizerStep's.
bool NormalizeForBert(absl::string_view text, const NormalizerStep& step,
                      std::string* out, bool* first_dropped);
bool NormalizeForNmt(absl::string_view text, std::string* out,
                     bool* first_dropped);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_CHAR_FILTERS_H_
