// Python's two ways of formatting: "%5.2f" % x and "{:>8}".format(x).
#ifndef DEEPSLICE_RUNTIME_TEXT_TEMPLATE_FORMAT_H_
#define DEEPSLICE_RUNTIME_TEXT_TEMPLATE_FORMAT_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/text/template_functions.h"
#include "runtime/text/template_value.h"

namespace deepslice {

// What stands between the colon and the brace of a field: fill, alignment,
// sign, width, grouping, precision, kind.
struct TemplateFormatSpec {
  std::string fill = " ";
  char align = '\0';   // < > ^ =; 0: by the value's kind
  bool zeros = false;  // "=" for numbers where no alignment is given
  char sign = '-';     // - + or a space
  bool alternate = false;
  int64_t width = 0;
  char group = '\0';  // , or _
  std::optional<int64_t> precision;
  char kind = '\0';
};

// format(v, spec); InvalidArgument where Python raises.
absl::StatusOr<MarkedText> TemplateFormatValue(const TemplateValue& v,
                                               const TemplateFormatSpec& spec,
                                               TemplateMeter& meter);

// format % argument, where a tuple holds several.
absl::StatusOr<TemplateValue> TemplatePercent(const MarkedText& format,
                                              const TemplateValue& argument,
                                              TemplateMeter& meter);

// format.format(...).
absl::StatusOr<TemplateValue> TemplateBraces(const MarkedText& format,
                                             const TemplateArgs& args,
                                             TemplateMeter& meter);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_TEMPLATE_FORMAT_H_
