// Filters of the template language that work on lists and mappings.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/text/template_filter_call.h"
#include "runtime/text/template_text.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

using Value = TemplateValue;
using ValueOr = absl::StatusOr<TemplateValue>;
using Call = TemplateFilterCall;

// a.b.0 of an item, as the attribute= of filters has it.
ValueOr Attribute(const Value& item, const Value& path) {
  if (path.is_integral()) {
    const int64_t i = path.as_int();
    if (item.is_list() && i >= 0 &&
        i < static_cast<int64_t>(item.as_list().size())) {
      return item.as_list()[i];
    }
    return Value::Undefined(absl::StrCat(i));
  }
  if (!path.is_string()) {
    return absl::InvalidArgumentError("an attribute's name must be a string");
  }
  Value v = item;
  for (absl::string_view part : absl::StrSplit(path.as_string().text, '.')) {
    int64_t index;
    if (v.is_list() && absl::SimpleAtoi(part, &index)) {
      DS_ASSIGN_OR_RETURN(v, Attribute(v, Value::Int(index)));
    } else {
      DS_ASSIGN_OR_RETURN(v, TemplateAttribute(v, part));
    }
  }
  return v;
}

ValueOr Join(const Call& c) {
  DS_ASSIGN_OR_RETURN(const Value::List items, c.Items());
  MarkedText separator;
  if (const Value* v = c.Arg(0, "d")) {
    DS_ASSIGN_OR_RETURN(separator, c.meter.Print(*v));
  }
  const Value* attribute = c.Arg(1, "attribute");
  MarkedText out;
  for (size_t i = 0; i < items.size(); ++i) {
    Value item = items[i];
    if (attribute && !attribute->is_none()) {
      DS_ASSIGN_OR_RETURN(item, Attribute(item, *attribute));
    }
    DS_ASSIGN_OR_RETURN(const MarkedText text, c.meter.Print(item));
    if (i > 0) out.Append(separator);
    out.Append(text);
    DS_RETURN_IF_ERROR(c.meter.ChargeText(out.size()));
  }
  return Value::String(std::move(out));
}

ValueOr Items(const Call& c) {
  if (c.subject.is_undefined()) return c.meter.List({});
  if (!c.subject.is_map()) {
    return c.Bad(absl::StrCat("needs a mapping, got ", c.subject.KindName()));
  }
  return CallTemplateMethod(c.subject, "items", {}, c.meter);
}

ValueOr Map(const Call& c) {
  DS_ASSIGN_OR_RETURN(const Value::List items, c.Items());
  const Value* attribute = nullptr;
  const Value* fallback = nullptr;
  for (const auto& [key, value] : c.args.named) {
    if (key == "attribute") attribute = &value;
    if (key == "default") fallback = &value;
  }
  Value::List out;
  if (attribute) {
    for (const Value& item : items) {
      DS_ASSIGN_OR_RETURN(Value v, Attribute(item, *attribute));
      if (fallback && v.is_undefined()) v = *fallback;
      out.push_back(std::move(v));
    }
    return c.meter.List(std::move(out));
  }
  const Value* filter = c.Arg(0, "filter");
  if (!filter || !filter->is_string() ||
      !IsTemplateFilter(filter->as_string().text)) {
    return absl::UnimplementedError(
        "filter \"map\" needs attribute= or the name of a known filter");
  }
  TemplateArgs rest = c.args;
  if (!rest.positional.empty()) rest.positional.erase(rest.positional.begin());
  for (const Value& item : items) {
    DS_ASSIGN_OR_RETURN(Value v, ApplyTemplateFilter(filter->as_string().text,
                                                     item, rest, c.meter));
    out.push_back(std::move(v));
  }
  return c.meter.List(std::move(out));
}

// select, reject, selectattr and rejectattr: items that pass a test.
ValueOr Select(const Call& c) {
  const bool by_attribute = absl::StrContains(c.name, "attr");
  const bool wanted = c.name[0] == 's';
  DS_ASSIGN_OR_RETURN(const Value::List items, c.Items());
  TemplateArgs rest = c.args;
  Value attribute;
  if (by_attribute) {
    if (rest.positional.empty()) return c.Bad("needs an attribute's name");
    attribute = rest.positional[0];
    rest.positional.erase(rest.positional.begin());
  }
  std::string test;
  if (!rest.positional.empty()) {
    if (!rest.positional[0].is_string() ||
        !IsTemplateTest(rest.positional[0].as_string().text)) {
      return absl::UnimplementedError(absl::StrCat(
          "filter \"", c.name, "\" needs the name of a known test"));
    }
    test = rest.positional[0].as_string().text;
    rest.positional.erase(rest.positional.begin());
  }
  Value::List out;
  for (const Value& item : items) {
    Value v = item;
    if (by_attribute) {
      DS_ASSIGN_OR_RETURN(v, Attribute(item, attribute));
    }
    bool passes = v.Truthy();
    if (!test.empty()) {
      DS_ASSIGN_OR_RETURN(passes, ApplyTemplateTest(test, v, rest, c.meter));
    }
    if (passes == wanted) out.push_back(item);
  }
  return c.meter.List(std::move(out));
}

ValueOr FirstLast(const Call& c) {
  if (c.subject.is_list() && !c.subject.as_list().empty()) {
    return c.name == "first" ? c.subject.as_list().front()
                             : c.subject.as_list().back();
  }
  DS_ASSIGN_OR_RETURN(const Value::List items, c.Items());
  if (items.empty()) return Value::Undefined("the first of nothing");
  return c.name == "first" ? items.front() : items.back();
}

ValueOr ToList(const Call& c) {
  DS_ASSIGN_OR_RETURN(Value::List items, c.Items());
  return c.meter.List(std::move(items));
}

// A string without case, for orders that ignore it.
Value Folded(const Value& v, bool case_sensitive) {
  if (!v.is_string() || case_sensitive) return v;
  return Value::String(ChangeCase(v.as_string(), TextCase::kLower));
}

// Sorts by keys; an error when two of them have no order.
absl::Status SortByKey(std::vector<std::pair<Value, Value>>* items,
                       bool reverse, TemplateMeter& meter) {
  absl::Status status;
  std::stable_sort(
      items->begin(), items->end(), [&](const auto& a, const auto& b) {
        if (!status.ok()) return false;
        const auto less = TemplateCompare("<", reverse ? b.first : a.first,
                                          reverse ? a.first : b.first, meter);
        if (!less.ok()) status = less.status();
        return less.ok() && *less;
      });
  return status;
}

ValueOr Sort(const Call& c) {
  DS_ASSIGN_OR_RETURN(const Value::List items, c.Items());
  const bool case_sensitive = c.Flag(1, "case_sensitive", false);
  const Value* attribute = c.Arg(2, "attribute");
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : items) {
    Value key = item;
    if (attribute && !attribute->is_none()) {
      DS_ASSIGN_OR_RETURN(key, Attribute(item, *attribute));
    }
    keyed.emplace_back(Folded(key, case_sensitive), item);
  }
  DS_RETURN_IF_ERROR(SortByKey(&keyed, c.Flag(0, "reverse", false), c.meter));
  Value::List out;
  for (auto& entry : keyed) out.push_back(std::move(entry.second));
  return c.meter.List(std::move(out));
}

ValueOr DictSort(const Call& c) {
  if (!c.subject.is_map()) {
    return c.Bad(absl::StrCat("needs a mapping, got ", c.subject.KindName()));
  }
  const bool case_sensitive = c.Flag(0, "case_sensitive", false);
  const Value* by = c.Arg(1, "by");
  const bool by_value = by && *by == Value::String("value");
  std::vector<std::pair<Value, Value>> keyed;
  for (const auto& [key, value] : c.subject.as_map()) {
    const Value name = Value::String(key);
    keyed.emplace_back(Folded(by_value ? value : name, case_sensitive),
                       Value::MakeList({name, value}, true));
  }
  DS_RETURN_IF_ERROR(SortByKey(&keyed, c.Flag(2, "reverse", false), c.meter));
  Value::List out;
  for (auto& entry : keyed) out.push_back(std::move(entry.second));
  return c.meter.List(std::move(out));
}

ValueOr Unique(const Call& c) {
  DS_ASSIGN_OR_RETURN(const Value::List items, c.Items());
  const bool case_sensitive = c.Flag(0, "case_sensitive", false);
  Value::List keys, out;
  for (const Value& item : items) {
    const Value key = Folded(item, case_sensitive);
    DS_RETURN_IF_ERROR(c.meter.Charge(keys.size()));
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
    keys.push_back(key);
    out.push_back(item);
  }
  return c.meter.List(std::move(out));
}

ValueOr Reverse(const Call& c) {
  DS_ASSIGN_OR_RETURN(Value::List items, c.Items());
  std::reverse(items.begin(), items.end());
  if (!c.subject.is_string()) return c.meter.List(std::move(items));
  MarkedText out;
  for (const Value& item : items) out.Append(item.as_string());
  return c.meter.Text(std::move(out));
}

ValueOr MinMax(const Call& c) {
  DS_ASSIGN_OR_RETURN(const Value::List items, c.Items());
  if (items.empty()) return Value::Undefined("the least of nothing");
  const absl::string_view op = c.name == "min" ? "<" : ">";
  Value best = items[0];
  for (const Value& item : items) {
    DS_ASSIGN_OR_RETURN(
        const bool better,
        TemplateCompare(op, Folded(item, false), Folded(best, false), c.meter));
    if (better) best = item;
  }
  return best;
}

ValueOr Sum(const Call& c) {
  DS_ASSIGN_OR_RETURN(const Value::List items, c.Items());
  const Value* attribute = c.Arg(0, "attribute");
  const Value* start = c.Arg(1, "start");
  Value total = start ? *start : Value::Int(0);
  for (const Value& item : items) {
    Value v = item;
    if (attribute && !attribute->is_none()) {
      DS_ASSIGN_OR_RETURN(v, Attribute(item, *attribute));
    }
    DS_ASSIGN_OR_RETURN(total, TemplateBinary("+", total, v, c.meter));
  }
  return total;
}

}  // namespace

TemplateFilterFunction FindTemplateListFilter(absl::string_view name) {
  constexpr std::pair<absl::string_view, TemplateFilterFunction> kFilters[] = {
      {"dictsort", DictSort}, {"first", FirstLast},   {"items", Items},
      {"join", Join},         {"last", FirstLast},    {"list", ToList},
      {"map", Map},           {"max", MinMax},        {"min", MinMax},
      {"reject", Select},     {"rejectattr", Select}, {"reverse", Reverse},
      {"select", Select},     {"selectattr", Select}, {"sort", Sort},
      {"sum", Sum},           {"unique", Unique}};
  for (const auto& [key, function] : kFilters) {
    if (key == name) return function;
  }
  return nullptr;
}

}  // namespace deepslice
