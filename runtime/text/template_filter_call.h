// What a filter of the template language is given, and the table of filters.
#ifndef DEEPSLICE_RUNTIME_TEXT_TEMPLATE_FILTER_CALL_H_
#define DEEPSLICE_RUNTIME_TEXT_TEMPLATE_FILTER_CALL_H_

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "runtime/text/template_functions.h"
#include "schema/base/status_macros.h"

namespace deepslice {

struct TemplateFilterCall {
  absl::string_view name;
  const TemplateValue& subject;
  const TemplateArgs& args;
  TemplateMeter& meter;

  const TemplateValue* Arg(size_t i, absl::string_view key) const {
    return args.Get(i, key);
  }
  // The argument unless it is absent or none.
  const TemplateValue* Given(size_t i, absl::string_view key) const {
    const TemplateValue* v = Arg(i, key);
    return v && !v->is_none() ? v : nullptr;
  }
  bool Flag(size_t i, absl::string_view key, bool fallback) const {
    const TemplateValue* v = Arg(i, key);
    return v ? v->Truthy() : fallback;
  }
  absl::StatusOr<MarkedText> Text() const { return meter.Print(subject); }
  absl::StatusOr<TemplateValue::List> Items() const {
    return TemplateItems(subject, meter);
  }
  // The text as the value of a string, marked as `safe` when the subject is.
  absl::StatusOr<TemplateValue> String(MarkedText text) const {
    DS_RETURN_IF_ERROR(meter.ChargeText(text.size()));
    return subject.is_markup() ? TemplateValue::Markup(std::move(text))
                               : TemplateValue::String(std::move(text));
  }
  absl::Status Bad(absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("filter \"", name, "\": ", what));
  }
  absl::Status NotSupported(absl::string_view what) const {
    return absl::UnimplementedError(
        absl::StrCat("filter \"", name, "\" ", what, " is not supported"));
  }
};

using TemplateFilterFunction =
    absl::StatusOr<TemplateValue> (*)(const TemplateFilterCall&);

struct TemplateFilter {
  absl::string_view name;
  TemplateFilterFunction function;
  // Names of parameters in order, commas between; "!": must be given; "...":
  // any arguments.
  absl::string_view parameters;
};

// Those over lists, and those that choose items one by one.
absl::Span<const TemplateFilter> TemplateListFilters();
absl::Span<const TemplateFilter> TemplateLazyFilters();

// a.b.0 of an item, as the attribute= of filters has it; `fallback` stands for
// what is undefined.
absl::StatusOr<TemplateValue> TemplatePath(const TemplateValue& item,
                                           const TemplateValue& path,
                                           const TemplateValue* fallback,
                                           TemplateMeter& meter);
// A string without case, for orders that ignore it.
TemplateValue TemplateFolded(const TemplateValue& v, bool case_sensitive);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_TEMPLATE_FILTER_CALL_H_
