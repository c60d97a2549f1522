// Numbers in text as Python's int() and float() read them.
#ifndef DEEPSLICE_RUNTIME_TEXT_TEMPLATE_NUMBER_H_
#define DEEPSLICE_RUNTIME_TEXT_TEMPLATE_NUMBER_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace deepslice {

// int(text, base) of ASCII digits, white space around them allowed, and single
// underscores between; base 0 goes by the prefix. nullopt where Python raises,
// and, with *too_large, where the number does not fit 64 bits.
std::optional<int64_t> ParsePythonInt(absl::string_view text, int64_t base,
                                      bool* too_large);

// float(text); nullopt where Python raises.
std::optional<double> ParsePythonFloat(absl::string_view text);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_TEMPLATE_NUMBER_H_
