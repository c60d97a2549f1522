// Filters of the template language.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "runtime/text/template_functions.h"
#include "runtime/text/template_text.h"
#include "runtime/text/utf8.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

using Value = TemplateValue;
using Kind = TemplateValue::Kind;
using ValueOr = absl::StatusOr<TemplateValue>;

struct Call {
  absl::string_view name;
  const Value& subject;
  const TemplateArgs& args;
  TemplateMeter& meter;

  const Value* Arg(size_t i, absl::string_view key) const {
    return args.Get(i, key);
  }
  bool Flag(size_t i, absl::string_view key, bool fallback) const {
    const Value* v = Arg(i, key);
    return v ? v->Truthy() : fallback;
  }
  absl::StatusOr<MarkedText> Text() const { return meter.Print(subject); }
  absl::StatusOr<Value::List> Items() const {
    return TemplateItems(subject, meter);
  }
  absl::Status Bad(absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("filter \"", name, "\": ", what));
  }
};

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

ValueOr Trim(const Call& c) {
  DS_ASSIGN_OR_RETURN(const MarkedText text, c.Text());
  std::optional<absl::string_view> chars;
  if (const Value* v = c.Arg(0, "chars"); v && v->is_string()) {
    chars = v->as_string().text;
  }
  return c.meter.Text(StripText(text, true, true, chars));
}

ValueOr ToJson(const Call& c) {
  TemplateJsonOptions o;
  o.ascii = c.Flag(1, "ensure_ascii", false);
  if (const Value* v = c.Arg(0, "indent"); v && v->is_integral()) {
    o.indent = static_cast<int>(std::clamp<int64_t>(v->as_int(), 0, 16));
  }
  if (const Value* v = c.Arg(2, "separators"); v && v->is_list()) {
    const auto& parts = v->as_list();
    if (parts.size() != 2 || !parts[0].is_string() || !parts[1].is_string()) {
      return c.Bad("separators must be two strings");
    }
    o.item_separator = parts[0].as_string().text;
    o.key_separator = parts[1].as_string().text;
  }
  o.sort_keys = c.Flag(3, "sort_keys", false);
  DS_RETURN_IF_ERROR(c.meter.Charge(c.subject.weight()));
  MarkedText out;
  if (!ToJsonText(c.subject, o, &out)) {
    return c.Bad(absl::StrCat(c.subject.KindName(), " in it has no JSON form"));
  }
  return c.meter.Text(std::move(out));
}

ValueOr Length(const Call& c) {
  switch (c.subject.kind()) {
    case Kind::kUndefined:
      return Value::Int(0);
    case Kind::kString:
      return Value::Int(
          static_cast<int64_t>(Utf8Length(c.subject.as_string().text)));
    case Kind::kList:
      return Value::Int(static_cast<int64_t>(c.subject.as_list().size()));
    case Kind::kMap:
      return Value::Int(static_cast<int64_t>(c.subject.as_map().size()));
    default:
      return c.Bad(absl::StrCat(c.subject.KindName(), " has no length"));
  }
}

ValueOr Case(const Call& c) {
  DS_ASSIGN_OR_RETURN(const MarkedText text, c.Text());
  const TextCase to = c.name == "upper"   ? TextCase::kUpper
                      : c.name == "lower" ? TextCase::kLower
                      : c.name == "title" ? TextCase::kJinjaTitle
                                          : TextCase::kCapitalize;
  return c.meter.Text(ChangeCase(text, to));
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

ValueOr Default(const Call& c) {
  const bool replace = c.Flag(1, "boolean", false) ? !c.subject.Truthy()
                                                   : c.subject.is_undefined();
  if (!replace) return c.subject;
  const Value* v = c.Arg(0, "default_value");
  return v ? *v : Value::String("");
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
    DS_ASSIGN_OR_RETURN(Value v,
                        ApplyTemplateFilter(filter->as_string().text, item,
                                            rest, c.meter));
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
      return absl::UnimplementedError(
          absl::StrCat("filter \"", c.name, "\" needs the name of a known test"));
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

ValueOr Replace(const Call& c) {
  DS_ASSIGN_OR_RETURN(const MarkedText text, c.Text());
  return CallTemplateMethod(Value::String(text), "replace", c.args, c.meter);
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

ValueOr ToString(const Call& c) {
  DS_ASSIGN_OR_RETURN(MarkedText text, c.Text());
  return Value::String(std::move(text));
}

// A number in text; leading and trailing white space is allowed.
template <typename T>
bool ParseNumber(const Value& v, T* out) {
  if (!v.is_string()) return false;
  const std::string text = StripText(v.as_string(), true, true).text;
  if constexpr (std::is_same_v<T, double>) {
    return absl::SimpleAtod(text, out);
  } else {
    return absl::SimpleAtoi(text, out);
  }
}

ValueOr ToInt(const Call& c) {
  const Value* fallback = c.Arg(0, "default");
  const Value none = fallback ? *fallback : Value::Int(0);
  if (const Value* base = c.Arg(1, "base"); base && !(*base == Value::Int(10))) {
    return absl::UnimplementedError(
        "filter \"int\" with a base other than 10 is not supported");
  }
  if (c.subject.is_integral()) return Value::Int(c.subject.as_int());
  int64_t i;
  if (ParseNumber(c.subject, &i)) return Value::Int(i);
  double d = c.subject.as_double();
  if (c.subject.kind() != Kind::kFloat && !ParseNumber(c.subject, &d)) {
    return none;
  }
  // 9.2e18: just below the largest 64-bit integer.
  return std::abs(d) < 9.2e18 ? Value::Int(static_cast<int64_t>(d)) : none;
}

ValueOr ToFloat(const Call& c) {
  const Value* fallback = c.Arg(0, "default");
  if (c.subject.is_number()) return Value::Float(c.subject.as_double());
  double d;
  if (ParseNumber(c.subject, &d)) return Value::Float(d);
  return fallback ? *fallback : Value::Float(0);
}

ValueOr Abs(const Call& c) {
  if (c.subject.is_integral()) {
    const int64_t i = c.subject.as_int();
    if (i == INT64_MIN) return c.Bad("the result does not fit 64 bits");
    return Value::Int(i < 0 ? -i : i);
  }
  if (c.subject.is_number()) return Value::Float(std::abs(c.subject.as_double()));
  return c.Bad(absl::StrCat("needs a number, got ", c.subject.KindName()));
}

ValueOr Round(const Call& c) {
  if (!c.subject.is_number()) {
    return c.Bad(absl::StrCat("needs a number, got ", c.subject.KindName()));
  }
  const Value* places = c.Arg(0, "precision");
  const int64_t n = places && places->is_integral() ? places->as_int() : 0;
  if (n < 0 || n > 15) return c.Bad("precision must be 0 to 15");
  std::string method = "common";
  if (const Value* m = c.Arg(1, "method"); m && m->is_string()) {
    method = m->as_string().text;
  }
  const double d = c.subject.as_double();
  if (method == "common") {
    // Correctly rounded decimal digits, half to even, as Python's round.
    return Value::Float(std::strtod(
        absl::StrFormat("%.*f", static_cast<int>(n), d).c_str(), nullptr));
  }
  const double scale = std::pow(10.0, static_cast<double>(n));
  if (method == "ceil") return Value::Float(std::ceil(d * scale) / scale);
  if (method == "floor") return Value::Float(std::floor(d * scale) / scale);
  return c.Bad("method must be common, ceil or floor");
}

ValueOr Indent(const Call& c) {
  DS_ASSIGN_OR_RETURN(MarkedText text, c.Text());
  MarkedText by("    ");
  if (const Value* w = c.Arg(0, "width")) {
    if (w->is_string()) {
      by = w->as_string();
    } else if (w->is_integral() && w->as_int() >= 0 && w->as_int() <= 1000) {
      by = MarkedText(std::string(static_cast<size_t>(w->as_int()), ' '));
    } else {
      return c.Bad("width must be 0 to 1000 or a string");
    }
  }
  const bool first = c.Flag(1, "first", false);
  const bool blank = c.Flag(2, "blank", false);
  text.Append("\n");
  const std::vector<MarkedText> lines = SplitTextLines(text);
  DS_RETURN_IF_ERROR(
      c.meter.ChargeText(text.size() + lines.size() * by.size()));
  MarkedText out;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out.Append("\n");
    if (i > 0 ? blank || lines[i].size() > 0 : first) out.Append(by);
    out.Append(lines[i]);
  }
  return Value::String(std::move(out));
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
  std::stable_sort(items->begin(), items->end(),
                   [&](const auto& a, const auto& b) {
                     if (!status.ok()) return false;
                     const auto less =
                         TemplateCompare("<", reverse ? b.first : a.first,
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
    DS_ASSIGN_OR_RETURN(const bool better,
                        TemplateCompare(op, Folded(item, false),
                                        Folded(best, false), c.meter));
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

ValueOr Format(const Call& c) {
  DS_ASSIGN_OR_RETURN(const MarkedText text, c.Text());
  if (!c.args.named.empty()) {
    return absl::UnimplementedError(
        "filter \"format\" with named arguments is not supported");
  }
  return TemplatePercent(text, c.args.positional, c.meter);
}

struct Filter {
  absl::string_view name;
  ValueOr (*apply)(const Call&);
};
constexpr Filter kFilters[] = {
    {"abs", Abs},          {"capitalize", Case}, {"count", Length},
    {"d", Default},        {"default", Default}, {"dictsort", DictSort},
    {"first", FirstLast},  {"float", ToFloat},   {"format", Format},
    {"indent", Indent},    {"int", ToInt},       {"items", Items},
    {"join", Join},        {"last", FirstLast},  {"length", Length},
    {"list", ToList},      {"lower", Case},      {"map", Map},
    {"max", MinMax},       {"min", MinMax},      {"reject", Select},
    {"rejectattr", Select}, {"replace", Replace}, {"reverse", Reverse},
    {"round", Round},      {"safe", ToString},   {"select", Select},
    {"selectattr", Select}, {"sort", Sort},      {"string", ToString},
    {"sum", Sum},          {"title", Case},      {"tojson", ToJson},
    {"trim", Trim},        {"unique", Unique},   {"upper", Case},
};

const Filter* FindFilter(absl::string_view name) {
  for (const Filter& f : kFilters) {
    if (f.name == name) return &f;
  }
  return nullptr;
}

}  // namespace

bool IsTemplateFilter(absl::string_view name) { return FindFilter(name); }

absl::StatusOr<TemplateValue> ApplyTemplateFilter(absl::string_view name,
                                                  const TemplateValue& subject,
                                                  const TemplateArgs& args,
                                                  TemplateMeter& meter) {
  DS_RETURN_IF_ERROR(meter.Charge(1));
  const Filter* filter = FindFilter(name);
  if (!filter) {
    return absl::UnimplementedError(
        absl::StrCat("filter \"", name, "\" is not supported"));
  }
  return filter->apply({filter->name, subject, args, meter});
}

}  // namespace deepslice
