// Functions that every template may call: range, namespace, dict, cycler,
// joiner, strftime_now and raise_exception.
#include <ctime>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/text/template_functions.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

using Value = TemplateValue;

absl::StatusOr<Value> Range(const TemplateArgs& args, TemplateMeter& meter) {
  int64_t bounds[3] = {0, 0, 1};
  const size_t n = args.positional.size();
  if (n < 1 || n > 3) {
    return absl::InvalidArgumentError("range() takes 1 to 3 integers");
  }
  for (size_t i = 0; i < n; ++i) {
    if (!args.positional[i].is_integral()) {
      return absl::InvalidArgumentError("range() takes integers");
    }
    bounds[n == 1 ? 1 : i] = args.positional[i].as_int();
  }
  if (bounds[2] == 0) return absl::InvalidArgumentError("range() of step 0");
  if (!args.named.empty()) {
    return absl::InvalidArgumentError("range() takes no arguments by name");
  }
  Value::List out;
  for (int64_t i = bounds[0]; bounds[2] > 0 ? i < bounds[1] : i > bounds[1];) {
    DS_RETURN_IF_ERROR(meter.Charge(1));
    if (static_cast<int64_t>(out.size()) == limits::kTemplateRange) {
      return absl::ResourceExhaustedError(
          absl::StrCat("range() of more than ", limits::kTemplateRange,
                       " items; the chat template may have that many"));
    }
    out.push_back(Value::Int(i));
    if (__builtin_add_overflow(i, bounds[2], &i)) break;
  }
  return meter.List(std::move(out), Value::Shape::kRange);
}

// Sets an entry, or adds it.
void Put(MarkedText key, Value value, Value::Map* map) {
  for (auto& entry : *map) {
    if (entry.first.text != key.text) continue;
    entry.second = std::move(value);
    return;
  }
  map->emplace_back(std::move(key), std::move(value));
}

// dict() and namespace(): a mapping or pairs, then names.
absl::StatusOr<Value> MakeMapping(absl::string_view name,
                                  const TemplateArgs& args,
                                  TemplateMeter& meter) {
  Value::Map map;
  if (args.positional.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, "() takes one mapping"));
  }
  for (const Value& v : args.positional) {
    if (v.is_map()) {
      map = v.as_map();
      continue;
    }
    if (v.is_undefined()) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", v.name(), "\" is undefined"));
    }
    DS_ASSIGN_OR_RETURN(const Value::List pairs, TemplateItems(v, meter));
    for (const Value& pair : pairs) {
      DS_ASSIGN_OR_RETURN(Value::List parts, TemplateItems(pair, meter));
      if (parts.size() != 2) {
        return absl::InvalidArgumentError(
            absl::StrCat(name, "() needs pairs, got ", parts.size(), " parts"));
      }
      if (!parts[0].is_string()) {
        return absl::UnimplementedError(
            absl::StrCat(parts[0].KindName(),
                         " as a key is not supported; only a string is"));
      }
      DS_RETURN_IF_ERROR(meter.Charge(map.size() / 16));
      Put(parts[0].as_string(), std::move(parts[1]), &map);
    }
  }
  for (const auto& [key, value] : args.named) {
    Put(MarkedText(key), value, &map);
  }
  if (name == "dict") return meter.Map(std::move(map));
  for (const auto& entry : map) {
    if (!entry.first.text.empty() && entry.first.text[0] == '_') {
      return absl::InvalidArgumentError(
          absl::StrCat("namespace attribute \"", entry.first.text,
                       "\" starts with an underscore"));
    }
    // It could come to hold itself, and would never be freed.
    if (entry.second.holds_mutable()) {
      return absl::UnimplementedError(
          "a namespace inside a namespace is not supported");
    }
  }
  return meter.Checked(Value::Namespace(std::move(map)));
}

// datetime.strftime of local time: the C library's, with %f and without a zone.
absl::StatusOr<Value> Strftime(const TemplateArgs& args, absl::Time now,
                               TemplateMeter& meter) {
  const Value* format = args.Get(0, "format");
  if (!format || !format->is_string() ||
      args.positional.size() + args.named.size() != 1) {
    return absl::InvalidArgumentError("strftime_now() takes a format");
  }
  const MarkedText& text = format->as_string();
  if (static_cast<int64_t>(text.size()) > limits::kTemplateTimeFormatBytes ||
      text.text.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("strftime_now() takes a format of up to ",
                     limits::kTemplateTimeFormatBytes, " bytes"));
  }
  std::string pattern;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text.text[i];
    const char kind = i + 1 < text.size() ? text.text[i + 1] : '\0';
    if (c != '%' || kind == '\0') {
      pattern += c == '%' ? "%%" : std::string(1, c);
      continue;
    }
    ++i;
    if (kind == 'f') {
      absl::StrAppendFormat(&pattern, "%06d",
                            absl::ToUnixMicros(now) % 1000000);
    } else if (kind != 'z' && kind != 'Z') {
      pattern += {'%', kind};
    }
  }
  const time_t seconds = absl::ToTimeT(now);
  std::tm local = {};
  localtime_r(&seconds, &local);
  // 64: the longest conversion, %c, is shorter.
  std::string out(pattern.size() * 64 + 1, '\0');
  out.resize(pattern.empty() ? 0
                             : std::strftime(out.data(), out.size(),
                                             pattern.c_str(), &local));
  return meter.Text(MarkedText(out, text.AnyFromUser()));
}

}  // namespace

absl::StatusOr<TemplateValue> CallTemplateFunction(absl::string_view name,
                                                   const TemplateArgs& args,
                                                   absl::Time now,
                                                   TemplateMeter& meter) {
  if (name == "raise_exception") {
    const Value* message = args.Get(0, "message");
    if (!message || args.positional.size() + args.named.size() != 1) {
      return absl::InvalidArgumentError("raise_exception() takes a message");
    }
    DS_ASSIGN_OR_RETURN(const MarkedText text, meter.Print(*message));
    return absl::FailedPreconditionError(text.text);
  }
  if (name == "range") return Range(args, meter);
  if (name == "strftime_now") return Strftime(args, now, meter);
  if (name == "cycler") {
    if (args.positional.empty() || !args.named.empty()) {
      return absl::InvalidArgumentError("cycler() takes the items");
    }
    return meter.Checked(Value::MakeState(name, args.positional));
  }
  if (name == "joiner") {
    const Value* separator = args.Get(0, "sep");
    if (args.positional.size() + args.named.size() > (separator ? 1 : 0)) {
      return absl::InvalidArgumentError("joiner() takes a separator");
    }
    return meter.Checked(
        Value::MakeState(name, {separator ? *separator : Value::String(", ")}));
  }
  return MakeMapping(name, args, meter);
}

}  // namespace deepslice
