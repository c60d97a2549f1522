#include "runtime/text/template_string_methods.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/text/template_format.h"
#include "runtime/text/template_text.h"
#include "runtime/text/utf8.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

using Value = TemplateValue;
using ValueOr = absl::StatusOr<TemplateValue>;

// A call, with arguments already known to suit the parameters.
struct Call {
  const MarkedText& s;
  absl::string_view name;
  const TemplateArgs& args;
  TemplateMeter& meter;

  absl::Status Needs(absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("method \"", name, "\" needs ", what));
  }
  const Value* Arg(size_t i, absl::string_view key = "") const {
    return args.Get(i, key);
  }
  // The argument, which must be a string.
  absl::StatusOr<const MarkedText*> Text(size_t i,
                                         absl::string_view key = "") const {
    const Value* v = Arg(i, key);
    if (v && v->is_string()) return &v->as_string();
    return Needs(absl::StrCat("a string, got ", v ? v->KindName() : "nothing"));
  }
  // The argument, which must be an integer; `fallback` when it is not given.
  absl::StatusOr<int64_t> Number(size_t i, absl::string_view key,
                                 int64_t fallback) const {
    const Value* v = Arg(i, key);
    if (!v) return fallback;
    if (v->is_integral()) return v->as_int();
    return Needs(absl::StrCat("an integer, got ", v->KindName()));
  }
};

ValueOr Strip(const Call& c) {
  std::optional<absl::string_view> chars;
  if (const Value* v = c.Arg(0); v && !v->is_none()) {
    DS_ASSIGN_OR_RETURN(const MarkedText* text, c.Text(0));
    chars = text->text;
    // They are sorted.
    DS_RETURN_IF_ERROR(c.meter.Charge(chars->size() / 16));
  }
  return c.meter.Text(
      StripText(c.s, c.name != "rstrip", c.name != "lstrip", chars));
}

ValueOr Split(const Call& c) {
  std::optional<absl::string_view> by;
  if (const Value* v = c.Arg(0, "sep"); v && !v->is_none()) {
    DS_ASSIGN_OR_RETURN(const MarkedText* text, c.Text(0, "sep"));
    by = text->text;
    if (by->empty()) return c.Needs("a separator that is not empty");
  }
  DS_ASSIGN_OR_RETURN(const int64_t most, c.Number(1, "maxsplit", -1));
  DS_RETURN_IF_ERROR(
      c.meter.Charge(by ? static_cast<size_t>(std::count(
                              c.s.text.begin(), c.s.text.end(), by->front()))
                        : CountControlAndSpace(c.s)));
  Value::List out;
  for (MarkedText& part : SplitText(c.s, by, most, c.name == "rsplit")) {
    out.push_back(Value::String(std::move(part)));
  }
  return c.meter.List(std::move(out));
}

ValueOr SplitLines(const Call& c) {
  DS_RETURN_IF_ERROR(c.meter.Charge(CountControlAndSpace(c.s)));
  const Value* keep = c.Arg(0, "keepends");
  if (keep && !keep->is_integral()) {
    return c.Needs(absl::StrCat("true or false, got ", keep->KindName()));
  }
  Value::List out;
  for (MarkedText& line : SplitTextLines(c.s, keep && keep->Truthy())) {
    out.push_back(Value::String(std::move(line)));
  }
  return c.meter.List(std::move(out));
}

// The bytes of s[start:stop], as bounds of find, count and startswith; false
// when the start lies behind the text.
absl::StatusOr<bool> Bounds(const Call& c, size_t* begin, size_t* end) {
  const auto size = static_cast<int64_t>(Utf8Length(c.s.text));
  int64_t bounds[2] = {0, size};
  for (size_t i = 0; i < 2; ++i) {
    const Value* v = c.Arg(1 + i);
    if (!v || v->is_none()) continue;
    DS_ASSIGN_OR_RETURN(int64_t at, c.Number(1 + i, "", 0));
    if (at < 0) at = std::max<int64_t>(0, at + size);
    bounds[i] = i == 0 ? at : std::min(at, size);
  }
  if (bounds[0] > bounds[1]) return false;
  const auto place = [&](int64_t n) {
    size_t pos = 0;
    for (; n > 0; --n) pos += DecodeUtf8(c.s.text, pos).size;
    return pos;
  };
  *begin = place(bounds[0]);
  *end = place(bounds[1]);
  return true;
}

ValueOr StartsOrEnds(const Call& c) {
  const Value* v = c.Arg(0);
  const bool several = v->is_list() && v->is_tuple();
  const Value::List choices = several ? v->as_list() : Value::List{*v};
  size_t begin = 0, end = 0;
  DS_ASSIGN_OR_RETURN(const bool inside, Bounds(c, &begin, &end));
  for (const Value& choice : choices) {
    if (!choice.is_string()) {
      return c.Needs(absl::StrCat("a string, got ", choice.KindName()));
    }
    const absl::string_view text =
        absl::string_view(c.s.text).substr(begin, end - begin);
    const absl::string_view part = choice.as_string().text;
    DS_RETURN_IF_ERROR(c.meter.Charge(part.size() / 256));
    if (inside && (c.name == "startswith" ? absl::StartsWith(text, part)
                                          : absl::EndsWith(text, part))) {
      return Value::Bool(true);
    }
  }
  return Value::Bool(false);
}

// find, rfind, index, rindex and count.
ValueOr Find(const Call& c) {
  DS_ASSIGN_OR_RETURN(const MarkedText* argument, c.Text(0));
  const absl::string_view part = argument->text;
  size_t begin = 0, end = 0;
  DS_ASSIGN_OR_RETURN(const bool inside, Bounds(c, &begin, &end));
  const absl::string_view text =
      absl::string_view(c.s.text).substr(begin, end - begin);
  if (c.name == "count") {
    if (!inside) return Value::Int(0);
    if (part.empty()) {
      return Value::Int(static_cast<int64_t>(Utf8Length(text)) + 1);
    }
    int64_t n = 0;
    for (size_t at = 0; (at = FindPart(text, part, at)) != text.npos;
         at += part.size()) {
      ++n;
    }
    return Value::Int(n);
  }
  const bool first = c.name == "find" || c.name == "index";
  const size_t at = !inside ? text.npos
                    : first ? FindPart(text, part, 0)
                            : FindLastPart(text, part);
  if (at != text.npos) {
    return Value::Int(static_cast<int64_t>(
        Utf8Length(absl::string_view(c.s.text).substr(0, begin + at))));
  }
  if (absl::EndsWith(c.name, "index")) return c.Needs("a part of the string");
  return Value::Int(-1);
}

ValueOr RemoveAffix(const Call& c) {
  DS_ASSIGN_OR_RETURN(const MarkedText* argument, c.Text(0));
  const absl::string_view part = argument->text;
  const bool front = c.name == "removeprefix";
  if (!(front ? absl::StartsWith(c.s.text, part)
              : absl::EndsWith(c.s.text, part))) {
    return Value::String(c.s);
  }
  return Value::String(front ? c.s.Substr(part.size(), c.s.size())
                             : c.s.Substr(0, c.s.size() - part.size()));
}

ValueOr Replace(const Call& c) {
  DS_ASSIGN_OR_RETURN(const MarkedText* old, c.Text(0));
  DS_ASSIGN_OR_RETURN(const MarkedText* to, c.Text(1));
  DS_ASSIGN_OR_RETURN(const int64_t most, c.Number(2, "", -1));
  const absl::string_view from = old->text;
  // The result is charged before it is made.
  uint64_t places = from.empty() ? Utf8Length(c.s.text) + 1 : 0;
  const absl::string_view text = c.s.text;
  for (size_t at = 0;
       !from.empty() && (at = FindPart(text, from, at)) != text.npos;
       at += from.size()) {
    ++places;
  }
  if (most >= 0) places = std::min(places, static_cast<uint64_t>(most));
  DS_RETURN_IF_ERROR(c.meter.ChargeText(c.s.size() - places * from.size() +
                                        places * to->size()));
  return c.meter.Text(ReplaceText(c.s, from, *to, most));
}

ValueOr Case(const Call& c) {
  constexpr std::pair<absl::string_view, TextCase> kCases[] = {
      {"upper", TextCase::kUpper},           {"lower", TextCase::kLower},
      {"title", TextCase::kTitle},           {"swapcase", TextCase::kSwap},
      {"capitalize", TextCase::kCapitalize}, {"casefold", TextCase::kFold}};
  for (const auto& [name, to] : kCases) {
    if (name == c.name) return c.meter.Text(ChangeCase(c.s, to));
  }
  return c.Needs("a case");
}

ValueOr Format(const Call& c) { return TemplateBraces(c.s, c.args, c.meter); }

ValueOr Join(const Call& c) {
  MarkedText out;
  TemplateCursor cursor(*c.Arg(0));
  for (bool first = true;; first = false) {
    DS_ASSIGN_OR_RETURN(const auto item, cursor.Next(c.meter));
    if (!item) return Value::String(std::move(out));
    if (!item->is_string()) {
      return c.Needs(absl::StrCat("strings, got ", item->KindName()));
    }
    if (!first) out.Append(c.s);
    out.Append(item->as_string());
    DS_RETURN_IF_ERROR(c.meter.ChargeText(out.size()));
  }
}

// center, ljust, rjust and zfill.
ValueOr Pad(const Call& c) {
  DS_ASSIGN_OR_RETURN(const int64_t width, c.Number(0, "", 0));
  MarkedText fill(c.name == "zfill" ? "0" : " ");
  if (c.Arg(1)) {
    DS_ASSIGN_OR_RETURN(const MarkedText* text, c.Text(1));
    if (Utf8Length(text->text) != 1) return c.Needs("a fill of one character");
    fill = *text;
  }
  const auto length = static_cast<int64_t>(Utf8Length(c.s.text));
  const int64_t missing = std::max<int64_t>(0, width - length);
  if (missing > 0) {
    // Far above any text there may be.
    const int64_t bounded = std::min<int64_t>(missing, int64_t{1} << 32);
    DS_RETURN_IF_ERROR(c.meter.ChargeText(
        c.s.size() + fill.size() * static_cast<size_t>(bounded)));
  }
  // As CPython: an odd one goes to the left of an odd width.
  const int64_t left = c.name == "ljust" ? 0
                       : c.name == "center"
                           ? missing / 2 + (missing & width & 1)
                           : missing;
  MarkedText out;
  size_t begin = 0;
  if (c.name == "zfill" &&
      (absl::StartsWith(c.s.text, "-") || absl::StartsWith(c.s.text, "+"))) {
    out = c.s.Substr(0, 1);
    begin = 1;
  }
  for (int64_t i = 0; i < left; ++i) out.Append(fill);
  out.Append(c.s.Substr(begin, c.s.size()));
  for (int64_t i = left; i < missing; ++i) out.Append(fill);
  return Value::String(std::move(out));
}

ValueOr Partition(const Call& c) {
  DS_ASSIGN_OR_RETURN(const MarkedText* separator, c.Text(0));
  if (separator->text.empty()) return c.Needs("a separator that is not empty");
  const bool left = c.name == "partition";
  const size_t at = left ? FindPart(c.s.text, separator->text, 0)
                         : FindLastPart(c.s.text, separator->text);
  Value::List out;
  if (at == std::string::npos) {
    out = {Value::String(""), Value::String("")};
    out.insert(left ? out.begin() : out.end(), Value::String(c.s));
  } else {
    const size_t end = at + separator->size();
    out = {Value::String(c.s.Substr(0, at)), Value::String(c.s.Substr(at, end)),
           Value::String(c.s.Substr(end, c.s.size()))};
  }
  return c.meter.List(std::move(out), Value::Shape::kTuple);
}

ValueOr Predicate(const Call& c) {
  return Value::Bool(TextPredicate(c.s.text, c.name).value_or(false));
}

struct StringMethod {
  absl::string_view name;
  ValueOr (*function)(const Call&);
  absl::string_view parameters;
  bool by_name = false;  // arguments may be named
  // Of what `safe` made: the result is so as well.
  enum { kNotOfMarkup, kPlain, kMarkup } markup = kNotOfMarkup;
};
using M = StringMethod;

constexpr StringMethod kMethods[] = {
    {"capitalize", Case, "", false, M::kMarkup},
    {"casefold", Case, "", false, M::kNotOfMarkup},
    {"center", Pad, "width!,fill", false, M::kMarkup},
    {"count", Find, "part!,start,stop", false, M::kPlain},
    {"endswith", StartsOrEnds, "part!,start,stop", false, M::kPlain},
    {"find", Find, "part!,start,stop", false, M::kPlain},
    {"format", Format, "...", true, M::kNotOfMarkup},
    {"index", Find, "part!,start,stop", false, M::kPlain},
    {"isalnum", Predicate, "", false, M::kPlain},
    {"isalpha", Predicate, "", false, M::kPlain},
    {"isascii", Predicate, "", false, M::kPlain},
    {"isdecimal", Predicate, "", false, M::kPlain},
    {"isdigit", Predicate, "", false, M::kPlain},
    {"islower", Predicate, "", false, M::kPlain},
    {"isnumeric", Predicate, "", false, M::kPlain},
    {"isspace", Predicate, "", false, M::kPlain},
    {"istitle", Predicate, "", false, M::kPlain},
    {"isupper", Predicate, "", false, M::kPlain},
    {"join", Join, "items!", false, M::kNotOfMarkup},
    {"ljust", Pad, "width!,fill", false, M::kMarkup},
    {"lower", Case, "", false, M::kMarkup},
    {"lstrip", Strip, "chars", false, M::kMarkup},
    {"partition", Partition, "sep!", false, M::kNotOfMarkup},
    {"removeprefix", RemoveAffix, "prefix!", false, M::kNotOfMarkup},
    {"removesuffix", RemoveAffix, "suffix!", false, M::kNotOfMarkup},
    {"replace", Replace, "old!,new!,count", false, M::kNotOfMarkup},
    {"rfind", Find, "part!,start,stop", false, M::kPlain},
    {"rindex", Find, "part!,start,stop", false, M::kPlain},
    {"rjust", Pad, "width!,fill", false, M::kMarkup},
    {"rpartition", Partition, "sep!", false, M::kNotOfMarkup},
    {"rsplit", Split, "sep,maxsplit", true, M::kNotOfMarkup},
    {"rstrip", Strip, "chars", false, M::kMarkup},
    {"split", Split, "sep,maxsplit", true, M::kNotOfMarkup},
    {"splitlines", SplitLines, "keepends", true, M::kNotOfMarkup},
    {"startswith", StartsOrEnds, "part!,start,stop", false, M::kPlain},
    {"strip", Strip, "chars", false, M::kMarkup},
    {"swapcase", Case, "", false, M::kMarkup},
    {"title", Case, "", false, M::kMarkup},
    {"upper", Case, "", false, M::kMarkup},
    {"zfill", Pad, "width!", false, M::kMarkup},
};

}  // namespace

absl::StatusOr<TemplateValue> CallTemplateStringMethod(
    const TemplateValue& subject, absl::string_view name,
    const TemplateArgs& args, TemplateMeter& meter) {
  const auto* method =
      std::find_if(std::begin(kMethods), std::end(kMethods),
                   [&](const StringMethod& m) { return m.name == name; });
  const bool markup = subject.is_markup();
  if (method == std::end(kMethods) ||
      (markup &&
       (method->markup == M::kNotOfMarkup ||
        (method->markup == M::kMarkup && !args.positional.empty())))) {
    return absl::UnimplementedError(absl::StrCat(
        "method \"", name, "\" of ", markup ? "what `safe` made" : "a string",
        " is not supported"));
  }
  if (!args.named.empty() && !method->by_name) {
    return absl::InvalidArgumentError(
        absl::StrCat("method \"", name, "\" takes no arguments by name"));
  }
  DS_RETURN_IF_ERROR(CheckTemplateArgs(absl::StrCat("method \"", name, "\""),
                                       method->parameters, args));
  const MarkedText& s = subject.as_string();
  DS_RETURN_IF_ERROR(meter.ChargeText(s.size()));
  DS_ASSIGN_OR_RETURN(Value v, method->function({s, name, args, meter}));
  if (markup && v.is_string()) return Value::Markup(v.as_string());
  return v;
}

}  // namespace deepslice
