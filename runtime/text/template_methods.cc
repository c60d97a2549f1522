// Methods of strings, mappings, lists and loops of the template language.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "runtime/text/template_functions.h"
#include "runtime/text/template_text.h"
#include "runtime/text/utf8.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

using Value = TemplateValue;
using Kind = TemplateValue::Kind;
using ValueOr = absl::StatusOr<TemplateValue>;

absl::Status Needs(absl::string_view name, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("method \"", name, "\" needs ", what));
}

// Text of an argument that must be a string.
absl::StatusOr<absl::string_view> TextArg(absl::string_view name,
                                          const Value* v) {
  if (v && v->is_string()) return absl::string_view(v->as_string().text);
  return Needs(name,
               absl::StrCat("a string, got ", v ? v->KindName() : "nothing"));
}

// {} {0} {name} of str.format; {{ and }} are braces.
ValueOr FormatMethod(const MarkedText& s, const TemplateArgs& args,
                     TemplateMeter& meter) {
  MarkedText out;
  size_t next = 0;
  for (size_t pos = 0; pos < s.size();) {
    const char c = s.text[pos];
    const bool twice = pos + 1 < s.size() && s.text[pos + 1] == c;
    if (c != '{' && c != '}') {
      const size_t brace = std::min(s.text.find_first_of("{}", pos), s.size());
      out.Append(s.Substr(pos, brace));
      pos = brace;
      continue;
    }
    if (twice) {
      out.Append(s.Substr(pos, pos + 1));
      pos += 2;
      continue;
    }
    const size_t end = s.text.find('}', pos);
    if (c == '}' || end == std::string::npos) {
      return absl::InvalidArgumentError("a format has a single brace");
    }
    const std::string field = s.text.substr(pos + 1, end - pos - 1);
    const Value* v = nullptr;
    size_t index = 0;
    if (field.find_first_of(".[!:") != std::string::npos) {
      return absl::UnimplementedError(
          absl::StrCat("format field \"{", field, "}\" is not supported"));
    }
    if (field.empty()) {
      v = args.Get(next++, "");
    } else if (absl::SimpleAtoi(field, &index)) {
      v = args.Get(index, "");
    } else {
      v = args.Get(SIZE_MAX, field);
    }
    if (!v) {
      return absl::InvalidArgumentError(
          absl::StrCat("format field \"{", field, "}\" has no argument"));
    }
    DS_ASSIGN_OR_RETURN(const MarkedText text, meter.Print(*v));
    out.Append(text);
    DS_RETURN_IF_ERROR(meter.ChargeText(out.size()));
    pos = end + 1;
  }
  return meter.Text(std::move(out));
}

// Whether s starts or ends with the argument, or with one of a tuple.
ValueOr StartsOrEnds(const MarkedText& s, absl::string_view name,
                     const TemplateArgs& args) {
  const Value* v = args.Get(0, "prefix");
  const Value::List choices = v && v->is_list() ? v->as_list()
                              : v               ? Value::List{*v}
                                                : Value::List{Value()};
  for (const Value& choice : choices) {
    DS_ASSIGN_OR_RETURN(const absl::string_view part, TextArg(name, &choice));
    if (name == "startswith" ? absl::StartsWith(s.text, part)
                             : absl::EndsWith(s.text, part)) {
      return Value::Bool(true);
    }
  }
  return Value::Bool(false);
}

ValueOr ReplaceMethod(const MarkedText& s, const TemplateArgs& args,
                      TemplateMeter& meter) {
  DS_ASSIGN_OR_RETURN(const absl::string_view from,
                      TextArg("replace", args.Get(0, "old")));
  const Value* to = args.Get(1, "new");
  DS_RETURN_IF_ERROR(TextArg("replace", to).status());
  const Value* count = args.Get(2, "count");
  const int64_t most = count && count->is_integral() ? count->as_int() : -1;
  // The result is charged before it is made.
  uint64_t places = from.empty() ? Utf8Length(s.text) + 1 : 0;
  const absl::string_view text = s.text;
  for (size_t at = 0; !from.empty() && (at = text.find(from, at)) != text.npos;
       at += from.size()) {
    ++places;
  }
  if (most >= 0) places = std::min(places, static_cast<uint64_t>(most));
  DS_RETURN_IF_ERROR(meter.ChargeText(s.size() - places * from.size() +
                                      places * to->as_string().size()));
  return meter.Text(ReplaceText(s, from, to->as_string(), most));
}

ValueOr SplitMethod(const MarkedText& s, absl::string_view name,
                    const TemplateArgs& args, TemplateMeter& meter) {
  const Value* separator = args.Get(0, "sep");
  const Value* most = args.Get(1, "maxsplit");
  std::optional<absl::string_view> by;
  if (separator && !separator->is_none()) {
    DS_ASSIGN_OR_RETURN(by, TextArg(name, separator));
    if (by->empty()) return Needs(name, "a separator that is not empty");
  }
  DS_RETURN_IF_ERROR(
      meter.Charge(by ? static_cast<size_t>(std::count(
                            s.text.begin(), s.text.end(), by->front()))
                      : CountControlAndSpace(s)));
  Value::List out;
  for (MarkedText& part :
       SplitText(s, by, most && most->is_integral() ? most->as_int() : -1,
                 name == "rsplit")) {
    out.push_back(Value::String(std::move(part)));
  }
  return meter.List(std::move(out));
}

ValueOr StringMethod(const MarkedText& s, absl::string_view name,
                     const TemplateArgs& args, TemplateMeter& meter) {
  DS_RETURN_IF_ERROR(meter.ChargeText(s.size()));
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    std::optional<absl::string_view> chars;
    if (const Value* v = args.Get(0, "chars"); v && !v->is_none()) {
      DS_ASSIGN_OR_RETURN(chars, TextArg(name, v));
    }
    return meter.Text(StripText(s, name != "rstrip", name != "lstrip", chars));
  }
  if (name == "split" || name == "rsplit") {
    return SplitMethod(s, name, args, meter);
  }
  if (name == "splitlines") {
    DS_RETURN_IF_ERROR(meter.Charge(CountControlAndSpace(s)));
    Value::List out;
    for (MarkedText& line : SplitTextLines(s)) {
      out.push_back(Value::String(std::move(line)));
    }
    return meter.List(std::move(out));
  }
  if (name == "startswith" || name == "endswith") {
    return StartsOrEnds(s, name, args);
  }
  if (name == "removeprefix" || name == "removesuffix") {
    DS_ASSIGN_OR_RETURN(const absl::string_view part,
                        TextArg(name, args.Get(0, "")));
    const bool front = name == "removeprefix";
    if (!(front ? absl::StartsWith(s.text, part)
                : absl::EndsWith(s.text, part))) {
      return Value::String(s);
    }
    return Value::String(front ? s.Substr(part.size(), s.size())
                               : s.Substr(0, s.size() - part.size()));
  }
  if (name == "replace") return ReplaceMethod(s, args, meter);
  if (name == "upper") return meter.Text(ChangeCase(s, TextCase::kUpper));
  if (name == "lower") return meter.Text(ChangeCase(s, TextCase::kLower));
  if (name == "title") return meter.Text(ChangeCase(s, TextCase::kTitle));
  if (name == "capitalize") {
    return meter.Text(ChangeCase(s, TextCase::kCapitalize));
  }
  if (name == "format") return FormatMethod(s, args, meter);
  if (name == "join") {
    const Value* items = args.Get(0, "");
    if (!items) return Needs(name, "a list");
    TemplateArgs separator;
    separator.positional.push_back(Value::String(s));
    return ApplyTemplateFilter("join", *items, separator, meter);
  }
  if (name == "find" || name == "rfind" || name == "count") {
    DS_ASSIGN_OR_RETURN(const absl::string_view part,
                        TextArg(name, args.Get(0, "")));
    if (args.positional.size() > 1) {
      return absl::UnimplementedError(
          absl::StrCat("method \"", name, "\" with bounds is not supported"));
    }
    const absl::string_view text = s.text;
    if (name == "count") {
      if (part.empty()) return Value::Int(Utf8Length(text) + 1);
      int64_t n = 0;
      for (size_t at = 0; (at = text.find(part, at)) != text.npos;
           at += part.size()) {
        ++n;
      }
      return Value::Int(n);
    }
    const size_t at = name == "find" ? text.find(part) : text.rfind(part);
    if (at == text.npos) return Value::Int(-1);
    return Value::Int(static_cast<int64_t>(Utf8Length(text.substr(0, at))));
  }
  if (name == "isdigit") {
    return Value::Bool(s.size() > 0 &&
                       std::all_of(s.text.begin(), s.text.end(), [](char c) {
                         return c >= '0' && c <= '9';
                       }));
  }
  return absl::UnimplementedError(
      absl::StrCat("method \"", name, "\" of a string is not supported"));
}

ValueOr MapMethod(const Value& map, absl::string_view name,
                  const TemplateArgs& args, TemplateMeter& meter) {
  DS_RETURN_IF_ERROR(meter.Charge(map.as_map().size()));
  if (name == "get") {
    const Value* key = args.Get(0, "key");
    if (!key) return Needs(name, "a key");
    const Value* fallback = args.Get(1, "default");
    const Value* found =
        key->is_string() ? map.Find(key->as_string().text) : nullptr;
    return found ? *found : fallback ? *fallback : Value::None();
  }
  if (name == "items" || name == "keys" || name == "values") {
    Value::List out;
    for (const auto& [key, value] : map.as_map()) {
      const Value k = Value::String(key);
      out.push_back(name == "keys"     ? k
                    : name == "values" ? value
                                       : Value::MakeList({k, value}, true));
    }
    return meter.List(std::move(out));
  }
  return absl::UnimplementedError(
      absl::StrCat("method \"", name, "\" of a mapping is not supported"));
}

}  // namespace

absl::StatusOr<TemplateValue> CallTemplateMethod(const TemplateValue& subject,
                                                 absl::string_view name,
                                                 const TemplateArgs& args,
                                                 TemplateMeter& meter) {
  DS_RETURN_IF_ERROR(meter.Charge(1));
  switch (subject.kind()) {
    case Kind::kUndefined:
      return absl::InvalidArgumentError(
          absl::StrCat("\"", subject.name(), "\" is undefined"));
    case Kind::kString:
      return StringMethod(subject.as_string(), name, args, meter);
    case Kind::kMap:
      return MapMethod(subject, name, args, meter);
    case Kind::kList: {
      const Value* item = args.Get(0, "");
      if ((name != "count" && name != "index") || !item) break;
      DS_RETURN_IF_ERROR(meter.Charge(subject.weight()));
      const auto& list = subject.as_list();
      if (name == "count") {
        return Value::Int(std::count(list.begin(), list.end(), *item));
      }
      const auto at = std::find(list.begin(), list.end(), *item);
      if (at == list.end()) return Needs(name, "an item that is in the list");
      return Value::Int(at - list.begin());
    }
    case Kind::kLoop:
      if (name != "cycle" || args.positional.empty()) break;
      return args.positional[subject.as_loop().index0 %
                             static_cast<int64_t>(args.positional.size())];
    default:
      break;
  }
  return absl::UnimplementedError(absl::StrCat(
      "method \"", name, "\" of ", subject.KindName(), " is not supported"));
}

}  // namespace deepslice
