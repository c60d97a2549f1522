// Filters of the template language that work on texts and numbers.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/text/template_filter_call.h"
#include "runtime/text/template_text.h"
#include "runtime/text/utf8.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

using Value = TemplateValue;
using Kind = TemplateValue::Kind;
using ValueOr = absl::StatusOr<TemplateValue>;
using Call = TemplateFilterCall;

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

ValueOr Default(const Call& c) {
  const bool replace = c.Flag(1, "boolean", false) ? !c.subject.Truthy()
                                                   : c.subject.is_undefined();
  if (!replace) return c.subject;
  const Value* v = c.Arg(0, "default_value");
  return v ? *v : Value::String("");
}

ValueOr Replace(const Call& c) {
  DS_ASSIGN_OR_RETURN(const MarkedText text, c.Text());
  return CallTemplateMethod(Value::String(text), "replace", c.args, c.meter);
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
  if (const Value* base = c.Arg(1, "base");
      base && !(*base == Value::Int(10))) {
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
  if (c.subject.is_number())
    return Value::Float(std::abs(c.subject.as_double()));
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
  DS_RETURN_IF_ERROR(c.meter.Charge(CountControlAndSpace(text)));
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

ValueOr Format(const Call& c) {
  DS_ASSIGN_OR_RETURN(const MarkedText text, c.Text());
  if (!c.args.named.empty()) {
    return absl::UnimplementedError(
        "filter \"format\" with named arguments is not supported");
  }
  return TemplatePercent(text, c.args.positional, c.meter);
}

TemplateFilterFunction Find(absl::string_view name) {
  constexpr std::pair<absl::string_view, TemplateFilterFunction> kFilters[] = {
      {"abs", Abs},       {"capitalize", Case}, {"count", Length},
      {"d", Default},     {"default", Default}, {"float", ToFloat},
      {"format", Format}, {"indent", Indent},   {"int", ToInt},
      {"length", Length}, {"lower", Case},      {"replace", Replace},
      {"round", Round},   {"safe", ToString},   {"string", ToString},
      {"title", Case},    {"tojson", ToJson},   {"trim", Trim},
      {"upper", Case}};
  for (const auto& [key, function] : kFilters) {
    if (key == name) return function;
  }
  return FindTemplateListFilter(name);
}

}  // namespace

bool IsTemplateFilter(absl::string_view name) { return Find(name) != nullptr; }

absl::StatusOr<TemplateValue> ApplyTemplateFilter(absl::string_view name,
                                                  const TemplateValue& subject,
                                                  const TemplateArgs& args,
                                                  TemplateMeter& meter) {
  DS_RETURN_IF_ERROR(meter.Charge(1));
  const TemplateFilterFunction filter = Find(name);
  if (!filter) {
    return absl::UnimplementedError(
        absl::StrCat("filter \"", name, "\" is not supported"));
  }
  return filter({name, subject, args, meter});
}

}  // namespace deepslice
