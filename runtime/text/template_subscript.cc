// v[index] and v[start:stop:step] of the template language.
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/text/template_functions.h"
#include "runtime/text/template_text.h"
#include "schema/base/status_macros.h"

namespace deepslice {

using Value = TemplateValue;

absl::StatusOr<TemplateValue> TemplateIndex(const TemplateValue& v,
                                            const TemplateValue& index,
                                            TemplateMeter& meter) {
  if (index.is_string()) return TemplateAttribute(v, index.as_string().text);
  if (v.is_undefined()) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", v.name(), "\" is undefined"));
  }
  if (!index.is_integral() || (!v.is_list() && !v.is_string())) {
    return Value::Undefined("an index");
  }
  // A list is not copied: conversations are walked by index.
  absl::StatusOr<Value::List> characters = Value::List();
  if (v.is_string()) {
    DS_ASSIGN_OR_RETURN(characters, TemplateItems(v, meter));
  }
  const Value::List& items = v.is_list() ? v.as_list() : *characters;
  const auto size = static_cast<int64_t>(items.size());
  const int64_t i = index.as_int() < 0 ? index.as_int() + size : index.as_int();
  if (i < 0 || i >= size) {
    return Value::Undefined(absl::StrCat("item ", index.as_int()));
  }
  return items[i];
}

absl::StatusOr<TemplateValue> TemplateSlice(const TemplateValue& v,
                                            const TemplateValue& start,
                                            const TemplateValue& stop,
                                            const TemplateValue& step,
                                            TemplateMeter& meter) {
  std::optional<int64_t> bounds[3];
  const Value* given[3] = {&start, &stop, &step};
  for (int i = 0; i < 3; ++i) {
    if (given[i]->is_none()) continue;
    if (!given[i]->is_integral()) {
      return absl::InvalidArgumentError(
          absl::StrCat("a slice needs integers, got ", given[i]->KindName()));
    }
    bounds[i] = given[i]->as_int();
  }
  if (!v.is_list() && !v.is_string()) {
    return absl::InvalidArgumentError(
        absl::StrCat("can't slice ", v.KindName()));
  }
  const int64_t by = bounds[2].value_or(1);
  if (by == 0) return absl::InvalidArgumentError("a slice has step 0");
  DS_ASSIGN_OR_RETURN(const Value::List items, TemplateItems(v, meter));
  Value::List out;
  MarkedText text;
  for (int64_t i : SliceIndices(static_cast<int64_t>(items.size()), bounds[0],
                                bounds[1], by)) {
    if (v.is_string()) {
      text.Append(items[i].as_string());
    } else {
      out.push_back(items[i]);
    }
  }
  if (v.is_string()) return meter.Text(std::move(text));
  return meter.List(std::move(out), v.is_tuple());
}

}  // namespace deepslice
