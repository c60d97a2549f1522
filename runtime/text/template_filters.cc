// Filters of the template language that work on texts and numbers, and the
// call of any filter.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "runtime/text/template_filter_call.h"
#include "runtime/text/template_format.h"
#include "runtime/text/template_number.h"
#include "runtime/text/template_text.h"
#include "runtime/text/utf8.h"

namespace deepslice {
namespace {

using Value = TemplateValue;
using Kind = TemplateValue::Kind;
using ValueOr = absl::StatusOr<TemplateValue>;
using Call = TemplateFilterCall;

ValueOr Trim(const Call& c) {
  DS_ASSIGN_OR_RETURN(const MarkedText text, c.Text());
  std::optional<absl::string_view> chars;
  if (const Value* v = c.Given(0, "chars")) {
    if (!v->is_string()) return c.Bad("chars must be a string");
    chars = v->as_string().text;
    // They are sorted.
    DS_RETURN_IF_ERROR(c.meter.Charge(chars->size() / 16));
  }
  return c.String(StripText(text, true, true, chars));
}

ValueOr ToJson(const Call& c) {
  TemplateJsonOptions o;
  o.ascii = c.Flag(0, "ensure_ascii", false);
  if (const Value* v = c.Given(1, "indent")) {
    if (v->is_string()) {
      o.indent = v->as_string().text;
    } else if (v->is_integral() && v->as_int() <= 1000) {
      o.indent = std::string(
          static_cast<size_t>(std::max<int64_t>(0, v->as_int())), ' ');
    } else {
      return c.Bad("indent must be a string, or a number up to 1000");
    }
  }
  if (const Value* v = c.Given(2, "separators")) {
    DS_ASSIGN_OR_RETURN(const Value::List parts, TemplateItems(*v, c.meter));
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
    return c.Bad(absl::StrCat(c.subject.KindName(),
                              " is, or holds, what has no JSON form"));
  }
  return c.meter.Text(std::move(out));
}

ValueOr Length(const Call& c) {
  const auto length = TemplateLength(c.subject);
  if (!length)
    return c.Bad(absl::StrCat(c.subject.KindName(), " has no length"));
  return Value::Int(*length);
}

ValueOr Case(const Call& c) {
  DS_ASSIGN_OR_RETURN(const MarkedText text, c.Text());
  if (c.name == "title") {
    return c.meter.Text(ChangeCase(text, TextCase::kJinjaTitle));
  }
  return c.String(ChangeCase(text, c.name == "upper" ? TextCase::kUpper
                                   : c.name == "lower"
                                       ? TextCase::kLower
                                       : TextCase::kCapitalize));
}

ValueOr Default(const Call& c) {
  const bool replace = c.subject.is_undefined() ||
                       (c.Flag(1, "boolean", false) && !c.subject.Truthy());
  if (!replace) return c.subject;
  const Value* v = c.Arg(0, "default_value");
  return v ? *v : Value::String("");
}

ValueOr Replace(const Call& c) {
  DS_ASSIGN_OR_RETURN(const MarkedText text, c.Text());
  TemplateArgs args;
  for (const auto& [i, key] : {std::make_pair(0, "old"), {1, "new"}}) {
    DS_ASSIGN_OR_RETURN(MarkedText part,
                        c.meter.Print(*c.Arg(static_cast<size_t>(i), key)));
    args.positional.push_back(Value::String(std::move(part)));
  }
  if (const Value* count = c.Given(2, "count")) {
    args.positional.push_back(*count);
  }
  return CallTemplateMethod(Value::String(text), "replace", args, c.meter);
}

ValueOr ToString(const Call& c) {
  if (c.subject.is_string()) return c.subject;
  DS_ASSIGN_OR_RETURN(MarkedText text, c.Text());
  return Value::String(std::move(text));
}

ValueOr Safe(const Call& c) {
  DS_ASSIGN_OR_RETURN(MarkedText text, c.Text());
  return Value::Markup(std::move(text));
}

ValueOr Escape(const Call& c) {
  if (c.name != "forceescape") return TemplateEscape(c.subject, c.meter);
  DS_ASSIGN_OR_RETURN(MarkedText text, c.Text());
  return TemplateEscape(Value::String(std::move(text)), c.meter);
}

absl::Status CheckDefined(const Call& c) {
  if (!c.subject.is_undefined()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("\"", c.subject.name(), "\" is undefined"));
}

ValueOr ToInt(const Call& c) {
  DS_RETURN_IF_ERROR(CheckDefined(c));
  const Value* fallback = c.Arg(0, "default");
  const Value none = fallback ? *fallback : Value::Int(0);
  if (c.subject.is_integral()) return Value::Int(c.subject.as_int());
  double d = 0;
  if (c.subject.is_string()) {
    const Value* base = c.Arg(1, "base");
    if (base && !base->is_integral()) return c.Bad("base must be an integer");
    const absl::string_view text = c.subject.as_string().text;
    bool too_large = false;
    const auto i = ParsePythonInt(text, base ? base->as_int() : 10, &too_large);
    if (i) return Value::Int(*i);
    if (too_large) return c.Bad("the number does not fit 64 bits");
    const auto real = ParsePythonFloat(text);
    if (!real) return none;
    d = *real;
  } else if (c.subject.is_number()) {
    d = c.subject.as_double();
  } else {
    return none;
  }
  if (std::isnan(d)) return none;
  // 2^63 is the first double that does not fit.
  if (!(d > -9223372036854775808.0 && d < 9223372036854775808.0)) {
    return c.Bad("the number does not fit 64 bits");
  }
  return Value::Int(static_cast<int64_t>(d));
}

ValueOr ToFloat(const Call& c) {
  DS_RETURN_IF_ERROR(CheckDefined(c));
  const Value* fallback = c.Arg(0, "default");
  if (c.subject.is_number()) return Value::Float(c.subject.as_double());
  if (c.subject.is_string()) {
    if (const auto d = ParsePythonFloat(c.subject.as_string().text)) {
      return Value::Float(*d);
    }
  }
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
  if (places && !places->is_integral()) {
    return c.Bad("precision must be an integer");
  }
  const int64_t n = places ? places->as_int() : 0;
  if (n < 0 || n > 340) return c.NotSupported("with precision below 0");
  std::string method = "common";
  if (const Value* m = c.Arg(1, "method"); m && m->is_string()) {
    method = m->as_string().text;
  }
  const double d = c.subject.as_double();
  if (method == "common") {
    if (c.subject.is_integral()) return Value::Int(c.subject.as_int());
    if (!std::isfinite(d)) return c.subject;
    // Correctly rounded decimal digits, half to even, as Python's round.
    return Value::Float(std::strtod(
        absl::StrFormat("%.*f", static_cast<int>(n), d).c_str(), nullptr));
  }
  if (method != "ceil" && method != "floor") {
    return c.Bad("method must be common, ceil or floor");
  }
  if (!std::isfinite(d)) return c.Bad("can't round what is not finite");
  const double scale = std::pow(10.0, static_cast<double>(n));
  const double scaled = d * scale;
  const double whole =
      method == "ceil" ? std::ceil(scaled) : std::floor(scaled);
  // Python has an integer in between, which knows no -0.
  return Value::Float((whole == 0 ? 0 : whole) / scale);
}

ValueOr Indent(const Call& c) {
  if (!c.subject.is_string()) {
    return c.Bad(absl::StrCat("needs a string, got ", c.subject.KindName()));
  }
  MarkedText text = c.subject.as_string();
  MarkedText by("    ");
  if (const Value* w = c.Arg(0, "width")) {
    if (w->is_string()) {
      by = w->as_string();
    } else if (w->is_integral() && w->as_int() <= 1000) {
      by = MarkedText(std::string(
          static_cast<size_t>(std::max<int64_t>(0, w->as_int())), ' '));
    } else {
      return c.Bad("width must be a string, or a number up to 1000");
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
  return c.String(std::move(out));
}

ValueOr Format(const Call& c) {
  DS_ASSIGN_OR_RETURN(const MarkedText text, c.Text());
  if (c.subject.is_markup()) return c.NotSupported("of what `safe` made");
  if (c.args.named.empty()) {
    return TemplatePercent(
        text, Value::MakeList(c.args.positional, Value::Shape::kTuple),
        c.meter);
  }
  if (!c.args.positional.empty()) {
    return c.Bad("takes arguments by place or by name");
  }
  Value::Map map;
  for (const auto& [key, value] : c.args.named) {
    map.emplace_back(MarkedText(key), value);
  }
  return TemplatePercent(text, Value::MakeMap(std::move(map)), c.meter);
}

ValueOr Center(const Call& c) {
  DS_ASSIGN_OR_RETURN(const MarkedText text, c.Text());
  const Value* width = c.Arg(0, "width");
  TemplateArgs args;
  args.positional.push_back(width ? *width : Value::Int(80));
  return CallTemplateMethod(
      c.subject.is_markup() ? Value::Markup(text) : Value::String(text),
      "center", args, c.meter);
}

ValueOr Truncate(const Call& c) {
  const auto size = TemplateLength(c.subject);
  if (!size) return c.Bad(absl::StrCat(c.subject.KindName(), " has no length"));
  const auto number = [&](size_t i, absl::string_view key, int64_t fallback) {
    const Value* v = c.Given(i, key);
    return v && v->is_integral() ? v->as_int() : fallback;
  };
  MarkedText end("...");
  if (const Value* v = c.Arg(2, "end")) {
    if (!v->is_string()) return c.Bad("end must be a string");
    end = v->as_string();
  }
  const int64_t length = number(0, "length", 255);
  const int64_t leeway = number(3, "leeway", 5);
  const auto end_length = static_cast<int64_t>(Utf8Length(end.text));
  if (length < end_length || leeway < 0) {
    return c.Bad("length must hold the end, and leeway be 0 or more");
  }
  if (*size <= length + leeway) return c.subject;
  if (!c.subject.is_string()) {
    return c.Bad(absl::StrCat("needs a string, got ", c.subject.KindName()));
  }
  if (c.subject.is_markup()) return c.NotSupported("of what `safe` made");
  const MarkedText& s = c.subject.as_string();
  size_t cut = 0;
  for (int64_t i = 0; i < length - end_length; ++i) {
    cut += DecodeUtf8(s.text, cut).size;
  }
  MarkedText out = s.Substr(0, cut);
  if (!c.Flag(1, "killwords", false)) {
    const size_t space = out.text.rfind(' ');
    if (space != std::string::npos) out = out.Substr(0, space);
  }
  out.Append(end);
  return Value::String(std::move(out));
}

ValueOr WordCount(const Call& c) {
  DS_ASSIGN_OR_RETURN(const MarkedText text, c.Text());
  int64_t words = 0;
  bool inside = false;
  for (size_t pos = 0; pos < text.size();) {
    const CodePoint p = DecodeUtf8(text.text, pos);
    const bool word = IsPythonWord(p.value);
    words += word && !inside;
    inside = word;
    pos += p.size;
  }
  return Value::Int(words);
}

ValueOr Attr(const Call& c) {
  const Value& name = *c.Arg(0, "name");
  if (!name.is_string()) return c.Bad("needs a name");
  const absl::string_view key = name.as_string().text;
  if (c.subject.is_map() && !IsTemplateMethod(c.subject, key)) {
    return Value::Undefined(key);  // not an entry of that name
  }
  return TemplateAttribute(c.subject, key);
}

constexpr TemplateFilter kFilters[] = {
    {"abs", Abs, ""},
    {"attr", Attr, "name!"},
    {"capitalize", Case, ""},
    {"center", Center, "width"},
    {"count", Length, ""},
    {"d", Default, "default_value,boolean"},
    {"default", Default, "default_value,boolean"},
    {"e", Escape, ""},
    {"escape", Escape, ""},
    {"float", ToFloat, "default"},
    {"forceescape", Escape, ""},
    {"format", Format, "..."},
    {"indent", Indent, "width,first,blank"},
    {"int", ToInt, "default,base"},
    {"length", Length, ""},
    {"lower", Case, ""},
    {"replace", Replace, "old!,new!,count"},
    {"round", Round, "precision,method"},
    {"safe", Safe, ""},
    {"string", ToString, ""},
    {"title", Case, ""},
    {"tojson", ToJson, "ensure_ascii,indent,separators,sort_keys"},
    {"trim", Trim, "chars"},
    {"truncate", Truncate, "length,killwords,end,leeway"},
    {"upper", Case, ""},
    {"wordcount", WordCount, ""},
};

const TemplateFilter* Find(absl::string_view name) {
  for (const absl::Span<const TemplateFilter> table :
       {absl::MakeConstSpan(kFilters), TemplateListFilters(),
        TemplateLazyFilters()}) {
    for (const TemplateFilter& f : table) {
      if (f.name == name) return &f;
    }
  }
  return nullptr;
}

}  // namespace

absl::Status CheckTemplateArgs(absl::string_view what,
                               absl::string_view parameters,
                               const TemplateArgs& args) {
  if (parameters == "...") return absl::OkStatus();
  const std::vector<absl::string_view> names =
      absl::StrSplit(parameters, ',', absl::SkipEmpty());
  if (args.positional.size() > names.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " takes up to ", names.size(), " arguments, got ",
                     args.positional.size()));
  }
  for (size_t i = 0; i < names.size(); ++i) {
    absl::string_view name = names[i];
    const bool needed = absl::ConsumeSuffix(&name, "!");
    if (needed && !args.Get(i, name)) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, " needs \"", name, "\""));
    }
  }
  for (const auto& [key, value] : args.named) {
    size_t i = 0;
    while (i < names.size() && absl::StripSuffix(names[i], "!") != key) ++i;
    if (i == names.size() || i < args.positional.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, " takes no further argument \"", key, "\""));
    }
  }
  return absl::OkStatus();
}

bool IsTemplateFilter(absl::string_view name) { return Find(name) != nullptr; }

absl::StatusOr<TemplateValue> ApplyTemplateFilter(absl::string_view name,
                                                  const TemplateValue& subject,
                                                  const TemplateArgs& args,
                                                  TemplateMeter& meter) {
  DS_RETURN_IF_ERROR(meter.Charge(1));
  const TemplateFilter* filter = Find(name);
  if (!filter) {
    return absl::UnimplementedError(
        absl::StrCat("filter \"", name, "\" is not supported"));
  }
  DS_RETURN_IF_ERROR(CheckTemplateArgs(absl::StrCat("filter \"", name, "\""),
                                       filter->parameters, args));
  return filter->function({name, subject, args, meter});
}

}  // namespace deepslice
