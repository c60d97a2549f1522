// What a filter of the template language is given, and the filters over lists.
#ifndef DEEPSLICE_RUNTIME_TEXT_TEMPLATE_FILTER_CALL_H_
#define DEEPSLICE_RUNTIME_TEXT_TEMPLATE_FILTER_CALL_H_

#include "absl/strings/str_cat.h"
#include "runtime/text/template_functions.h"

namespace deepslice {

struct TemplateFilterCall {
  absl::string_view name;
  const TemplateValue& subject;
  const TemplateArgs& args;
  TemplateMeter& meter;

  const TemplateValue* Arg(size_t i, absl::string_view key) const {
    return args.Get(i, key);
  }
  bool Flag(size_t i, absl::string_view key, bool fallback) const {
    const TemplateValue* v = Arg(i, key);
    return v ? v->Truthy() : fallback;
  }
  absl::StatusOr<MarkedText> Text() const { return meter.Print(subject); }
  absl::StatusOr<TemplateValue::List> Items() const {
    return TemplateItems(subject, meter);
  }
  absl::Status Bad(absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("filter \"", name, "\": ", what));
  }
};

using TemplateFilterFunction =
    absl::StatusOr<TemplateValue> (*)(const TemplateFilterCall&);

// The filter over lists of this name; null when it is none.
TemplateFilterFunction FindTemplateListFilter(absl::string_view name);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_TEMPLATE_FILTER_CALL_H_
