// "{}".format(x) of the template language.
#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "runtime/text/template_format.h"
#include "runtime/text/template_text.h"
#include "runtime/text/utf8.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

using Value = TemplateValue;

absl::Status Bad(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("a format ", what));
}

// [[fill]align][sign][#][0][width][grouping][.precision][kind]
absl::StatusOr<TemplateFormatSpec> ParseSpec(absl::string_view text) {
  TemplateFormatSpec spec;
  const auto is_align = [](char c) {
    return c == '<' || c == '>' || c == '^' || c == '=';
  };
  size_t pos = 0;
  const auto peek = [&] { return pos < text.size() ? text[pos] : '\0'; };
  if (!text.empty()) {
    const size_t first = DecodeUtf8(text, 0).size;
    if (first < text.size() && is_align(text[first])) {
      spec.fill = std::string(text.substr(0, first));
      spec.align = text[first];
      pos = first + 1;
    } else if (is_align(text[0])) {
      spec.align = text[0];
      pos = 1;
    }
  }
  if (peek() == '+' || peek() == '-' || peek() == ' ') spec.sign = text[pos++];
  if (peek() == '#') spec.alternate = true, ++pos;
  if (peek() == '0') {
    ++pos;
    if (spec.align == '\0') {
      spec.zeros = true;
      spec.fill = "0";
    }
  }
  const auto number = [&] {
    int64_t n = 0;
    while (absl::ascii_isdigit(peek())) {
      n = std::min<int64_t>(n * 10 + (text[pos++] - '0'), 1 << 30);
    }
    return n;
  };
  spec.width = number();
  if (peek() == ',' || peek() == '_') spec.group = text[pos++];
  if (peek() == '.') {
    ++pos;
    if (!absl::ascii_isdigit(peek())) return Bad("has a point without digits");
    spec.precision = number();
  }
  if (pos < text.size()) spec.kind = text[pos++];
  if (pos < text.size()) return Bad("has an unknown kind");
  return spec;
}

class Braces {
 public:
  Braces(const TemplateArgs& args, TemplateMeter& meter)
      : args_(args), meter_(meter) {}

  absl::StatusOr<MarkedText> Expand(const MarkedText& s, int depth) {
    if (depth > 2) return Bad("is nested too deep");
    MarkedText out;
    for (size_t pos = 0; pos < s.size();) {
      const char c = s.text[pos];
      if (c != '{' && c != '}') {
        const size_t brace =
            std::min(s.text.find_first_of("{}", pos), s.size());
        out.Append(s.Substr(pos, brace));
        pos = brace;
        continue;
      }
      if (pos + 1 < s.size() && s.text[pos + 1] == c) {
        out.Append(s.Substr(pos, pos + 1));
        pos += 2;
        continue;
      }
      if (c == '}') return Bad("has a single brace");
      size_t end = pos + 1;
      int open = 1;
      for (; end < s.size(); ++end) {
        if (s.text[end] == '{') ++open;
        if (s.text[end] == '}' && --open == 0) break;
        // A bracket's index may hold braces.
        if (s.text[end] == '[') {
          end = std::min(s.text.find(']', end), s.size() - 1);
        }
      }
      if (end >= s.size() || open != 0) return Bad("has a single brace");
      DS_ASSIGN_OR_RETURN(const MarkedText text,
                          Field(s.Substr(pos + 1, end), depth));
      out.Append(text);
      DS_RETURN_IF_ERROR(meter_.ChargeText(out.size()));
      pos = end + 1;
    }
    return out;
  }

 private:
  // name[.attribute | [index]]*[!conversion][:spec]
  absl::StatusOr<MarkedText> Field(const MarkedText& field, int depth) {
    size_t name_end = 0;
    while (name_end < field.size() && field.text[name_end] != '!' &&
           field.text[name_end] != ':') {
      if (field.text[name_end] == '[') {
        name_end = std::min(field.text.find(']', name_end), field.size() - 1);
      }
      ++name_end;
    }
    DS_ASSIGN_OR_RETURN(
        Value v, Lookup(absl::string_view(field.text).substr(0, name_end)));
    size_t pos = name_end;
    if (pos < field.size() && field.text[pos] == '!') {
      const char conversion =
          pos + 1 < field.size() ? field.text[pos + 1] : '\0';
      if (conversion != 's' && conversion != 'r' && conversion != 'a') {
        return Bad("has an unknown conversion");
      }
      DS_ASSIGN_OR_RETURN(MarkedText text, meter_.Print(v, conversion != 's'));
      v = Value::String(conversion == 'a' ? AsciiText(text) : std::move(text));
      pos += 2;
      if (pos < field.size() && field.text[pos] != ':') {
        return Bad("has text behind its conversion");
      }
    }
    if (pos >= field.size()) return meter_.Print(v);
    DS_ASSIGN_OR_RETURN(const MarkedText spec_text,
                        Expand(field.Substr(pos + 1, field.size()), depth + 1));
    if (spec_text.size() == 0) return meter_.Print(v);
    DS_ASSIGN_OR_RETURN(const TemplateFormatSpec spec,
                        ParseSpec(spec_text.text));
    return TemplateFormatValue(v, spec, meter_);
  }

  absl::StatusOr<Value> Lookup(absl::string_view path) {
    const size_t end = std::min(path.find_first_of(".["), path.size());
    absl::string_view first = path.substr(0, end);
    size_t index = 0;
    const Value* found = nullptr;
    if (first.empty() || absl::SimpleAtoi(first, &index)) {
      const bool automatic = first.empty();
      if (numbering_ != kNone && numbering_ != (automatic ? kAuto : kManual)) {
        return Bad("numbers some of its fields");
      }
      numbering_ = automatic ? kAuto : kManual;
      if (automatic) index = next_++;
      if (index < args_.positional.size()) found = &args_.positional[index];
    } else {
      for (const auto& [key, value] : args_.named) {
        if (key == first) found = &value;
      }
    }
    if (!found) {
      return Bad(absl::StrCat("field \"{", path, "}\" has no argument"));
    }
    Value v = *found;
    for (size_t pos = end; pos < path.size();) {
      if (path[pos] == '.') {
        const size_t stop =
            std::min(path.find_first_of(".[", pos + 1), path.size());
        if (stop == pos + 1) return Bad("has an empty attribute");
        DS_ASSIGN_OR_RETURN(
            v, TemplateAttribute(v, path.substr(pos + 1, stop - pos - 1)));
        pos = stop;
      } else {
        const size_t stop = path.find(']', pos);
        if (path[pos] != '[' || stop == path.npos || stop == pos + 1) {
          return Bad("has a bad index");
        }
        const absl::string_view key = path.substr(pos + 1, stop - pos - 1);
        int64_t number;
        const Value by =
            absl::ascii_isdigit(key[0]) && absl::SimpleAtoi(key, &number)
                ? Value::Int(number)
                : Value::String(key);
        DS_ASSIGN_OR_RETURN(v, TemplateIndex(v, by, meter_));
        pos = stop + 1;
      }
    }
    return v;
  }

  enum Numbering { kNone, kAuto, kManual };
  const TemplateArgs& args_;
  TemplateMeter& meter_;
  Numbering numbering_ = kNone;
  size_t next_ = 0;
};

}  // namespace

absl::StatusOr<TemplateValue> TemplateBraces(const MarkedText& format,
                                             const TemplateArgs& args,
                                             TemplateMeter& meter) {
  DS_ASSIGN_OR_RETURN(MarkedText text, Braces(args, meter).Expand(format, 0));
  return meter.Text(std::move(text));
}

}  // namespace deepslice
