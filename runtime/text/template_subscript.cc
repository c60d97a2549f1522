// v[index] and v[start:stop:step] of the template language.
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/text/template_functions.h"
#include "runtime/text/template_text.h"
#include "runtime/text/utf8.h"
#include "schema/base/status_macros.h"

namespace deepslice {

using Value = TemplateValue;

namespace {

// Where each code point starts, and the end.
absl::StatusOr<std::vector<size_t>> CharacterStarts(const MarkedText& s,
                                                    TemplateMeter& meter) {
  DS_RETURN_IF_ERROR(meter.ChargeText(s.size()));
  std::vector<size_t> out;
  for (size_t pos = 0; pos < s.size(); pos += DecodeUtf8(s.text, pos).size) {
    out.push_back(pos);
  }
  out.push_back(s.size());
  return out;
}

absl::StatusOr<Value> SliceText(const Value& v,
                                const std::optional<int64_t> (&bounds)[3],
                                TemplateMeter& meter) {
  const MarkedText& s = v.as_string();
  DS_ASSIGN_OR_RETURN(const std::vector<size_t> starts,
                      CharacterStarts(s, meter));
  const int64_t by = bounds[2].value_or(1);
  const std::vector<int64_t> chosen = SliceIndices(
      static_cast<int64_t>(starts.size()) - 1, bounds[0], bounds[1], by);
  MarkedText text;
  if (by == 1 && !chosen.empty()) {
    text = s.Substr(starts[chosen.front()], starts[chosen.back() + 1]);
  } else {
    for (int64_t i : chosen) text.Append(s.Substr(starts[i], starts[i + 1]));
  }
  return v.is_markup() ? Value::Markup(std::move(text))
                       : Value::String(std::move(text));
}

}  // namespace

absl::StatusOr<TemplateValue> TemplateIndex(const TemplateValue& v,
                                            const TemplateValue& index,
                                            TemplateMeter& meter) {
  if (index.is_string() && !v.is_undefined()) {
    if (v.is_map()) DS_RETURN_IF_ERROR(meter.Charge(v.as_map().size() / 16));
    return TemplateMember(v, index.as_string().text);
  }
  if (v.is_undefined()) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", v.name(), "\" is undefined"));
  }
  using Shape = Value::Shape;
  const bool view = v.is_list() && v.shape() >= Shape::kKeys;
  if (!index.is_integral() || (!v.is_list() && !v.is_string()) || view) {
    return Value::Undefined("an index");
  }
  const int64_t at = index.as_int();
  std::vector<size_t> starts;
  if (v.is_string()) {
    DS_ASSIGN_OR_RETURN(starts, CharacterStarts(v.as_string(), meter));
  }
  const int64_t size = v.is_string() ? static_cast<int64_t>(starts.size()) - 1
                                     : static_cast<int64_t>(v.as_list().size());
  const int64_t i = at < 0 ? at + size : at;
  if (i < 0 || i >= size) return Value::Undefined(absl::StrCat("item ", at));
  if (!v.is_string()) return v.as_list()[i];
  MarkedText text = v.as_string().Substr(starts[i], starts[i + 1]);
  return v.is_markup() ? Value::Markup(std::move(text))
                       : Value::String(std::move(text));
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
  if ((!v.is_list() || v.shape() >= Value::Shape::kKeys) && !v.is_string()) {
    return absl::InvalidArgumentError(
        v.is_undefined() ? absl::StrCat("\"", v.name(), "\" is undefined")
                         : absl::StrCat("can't slice ", v.KindName()));
  }
  const int64_t by = bounds[2].value_or(1);
  if (by == 0) return absl::InvalidArgumentError("a slice has step 0");
  if (v.is_string()) return SliceText(v, bounds, meter);
  const Value::List& items = v.as_list();
  DS_RETURN_IF_ERROR(meter.Charge(items.size() / 16));
  Value::List out;
  for (int64_t i : SliceIndices(static_cast<int64_t>(items.size()), bounds[0],
                                bounds[1], by)) {
    out.push_back(items[i]);
  }
  return meter.List(std::move(out),
                    v.is_tuple() ? Value::Shape::kTuple : v.shape());
}

}  // namespace deepslice
