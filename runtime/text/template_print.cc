// How the template language prints values: Python's str, repr and json.dumps.
#include <utf8proc.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/text/template_value.h"
#include "runtime/text/utf8.h"

namespace deepslice {
namespace {

using Kind = TemplateValue::Kind;

// The shortest digits that read back equal, laid out as Python does.
std::string FloatText(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto end =
      std::to_chars(buffer, buffer + 64, d, std::chars_format::scientific).ptr;
  const std::string text(buffer, end);
  const size_t e = text.find('e');
  const int exponent = std::atoi(text.c_str() + e + 1);
  if (exponent < -4 || exponent >= 16) {
    return absl::StrFormat("%se%c%02d", text.substr(0, e),
                           exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  const auto fixed =
      std::to_chars(buffer, buffer + 64, d, std::chars_format::fixed).ptr;
  std::string out(buffer, fixed);
  if (out.find('.') == std::string::npos) out += ".0";
  return out;
}

bool IsPrintable(uint32_t cp) {
  if (cp == ' ') return true;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(cp))) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

MarkedText StringRepr(const MarkedText& s) {
  const bool single = s.text.find('\'') != std::string::npos;
  const bool dbl = s.text.find('"') != std::string::npos;
  const char quote = single && !dbl ? '"' : '\'';
  MarkedText out(absl::string_view(&quote, 1));
  for (size_t pos = 0; pos < s.size();) {
    const CodePoint c = DecodeUtf8(s.text, pos);
    const bool user = s.marks[pos];
    if (c.value == '\\' || c.value == static_cast<uint32_t>(quote)) {
      out.Append("\\", user);
      out.Append(absl::string_view(s.text).substr(pos, 1), user);
    } else if (c.value == '\n') {
      out.Append("\\n", user);
    } else if (c.value == '\r') {
      out.Append("\\r", user);
    } else if (c.value == '\t') {
      out.Append("\\t", user);
    } else if (IsPrintable(c.value)) {
      out.Append(absl::string_view(s.text).substr(pos, c.size), user);
    } else if (c.value < 0x100) {
      out.Append(absl::StrFormat("\\x%02x", c.value), user);
    } else if (c.value < 0x10000) {
      out.Append(absl::StrFormat("\\u%04x", c.value), user);
    } else {
      out.Append(absl::StrFormat("\\U%08x", c.value), user);
    }
    pos += c.size;
  }
  out.Append(absl::string_view(&quote, 1));
  return out;
}

void AppendJsonString(const MarkedText& s, bool ascii, MarkedText* out) {
  out->Append("\"");
  for (size_t pos = 0; pos < s.size();) {
    const CodePoint c = DecodeUtf8(s.text, pos);
    const bool user = s.marks[pos];
    switch (c.value) {
      case '"':
        out->Append("\\\"", user);
        break;
      case '\\':
        out->Append("\\\\", user);
        break;
      case '\n':
        out->Append("\\n", user);
        break;
      case '\r':
        out->Append("\\r", user);
        break;
      case '\t':
        out->Append("\\t", user);
        break;
      case '\b':
        out->Append("\\b", user);
        break;
      case '\f':
        out->Append("\\f", user);
        break;
      default:
        if (c.value < 0x20 || (ascii && c.value >= 0x7F && c.value < 0x10000)) {
          if (c.value == 0x7F) {
            out->Append("\x7F", user);
          } else {
            out->Append(absl::StrFormat("\\u%04x", c.value), user);
          }
        } else if (ascii && c.value >= 0x10000) {
          out->Append(
              absl::StrFormat("\\u%04x\\u%04x", 0xD7C0 + (c.value >> 10),
                              0xDC00 + (c.value & 0x3FF)),
              user);
        } else {
          out->Append(absl::string_view(s.text).substr(pos, c.size), user);
        }
    }
    pos += c.size;
  }
  out->Append("\"");
}

bool AppendJson(const TemplateValue& v, const TemplateJsonOptions& o, int depth,
                MarkedText* out) {
  const auto newline = [&](int d) {
    if (o.indent < 0) return;
    out->Append("\n");
    out->Append(std::string(static_cast<size_t>(o.indent) * d, ' '));
  };
  const std::string item = !o.item_separator.empty() ? o.item_separator
                           : o.indent >= 0           ? ","
                                                     : ", ";
  const std::string key_end = o.key_separator.empty() ? ": " : o.key_separator;
  switch (v.kind()) {
    case Kind::kNone:
      out->Append("null");
      return true;
    case Kind::kBool:
      out->Append(v.as_int() ? "true" : "false");
      return true;
    case Kind::kInt:
      out->Append(absl::StrCat(v.as_int()));
      return true;
    case Kind::kFloat: {
      const double d = v.as_double();
      out->Append(std::isnan(d)   ? "NaN"
                  : std::isinf(d) ? (d < 0 ? "-Infinity" : "Infinity")
                                  : FloatText(d));
      return true;
    }
    case Kind::kString:
      AppendJsonString(v.as_string(), o.ascii, out);
      return true;
    case Kind::kList: {
      out->Append("[");
      bool first = true;
      for (const TemplateValue& x : v.as_list()) {
        if (!first) out->Append(item);
        first = false;
        newline(depth + 1);
        if (!AppendJson(x, o, depth + 1, out)) return false;
      }
      if (!first) newline(depth);
      out->Append("]");
      return true;
    }
    case Kind::kMap: {
      TemplateValue::Map map = v.as_map();
      if (o.sort_keys) {
        std::stable_sort(map.begin(), map.end(),
                         [](const auto& a, const auto& b) {
                           return a.first.text < b.first.text;
                         });
      }
      out->Append("{");
      bool first = true;
      for (const auto& [key, value] : map) {
        if (!first) out->Append(item);
        first = false;
        newline(depth + 1);
        AppendJsonString(key, o.ascii, out);
        out->Append(key_end);
        if (!AppendJson(value, o, depth + 1, out)) return false;
      }
      if (!first) newline(depth);
      out->Append("}");
      return true;
    }
    default:
      return false;
  }
}

}  // namespace

MarkedText ToText(const TemplateValue& v) {
  switch (v.kind()) {
    case Kind::kUndefined:
      return MarkedText();
    case Kind::kString:
      return v.as_string();
    default:
      return ToRepr(v);
  }
}

MarkedText ToRepr(const TemplateValue& v) {
  switch (v.kind()) {
    case Kind::kUndefined:
      return MarkedText("Undefined");
    case Kind::kNone:
      return MarkedText("None");
    case Kind::kBool:
      return MarkedText(v.as_int() ? "True" : "False");
    case Kind::kInt:
      return MarkedText(absl::StrCat(v.as_int()));
    case Kind::kFloat:
      return MarkedText(FloatText(v.as_double()));
    case Kind::kString:
      return StringRepr(v.as_string());
    case Kind::kList: {
      MarkedText out(v.is_tuple() ? "(" : "[");
      bool first = true;
      for (const TemplateValue& x : v.as_list()) {
        if (!first) out.Append(", ");
        first = false;
        out.Append(ToRepr(x));
      }
      if (v.is_tuple() && v.as_list().size() == 1) out.Append(",");
      out.Append(v.is_tuple() ? ")" : "]");
      return out;
    }
    case Kind::kMap: {
      MarkedText out("{");
      bool first = true;
      for (const auto& [key, value] : v.as_map()) {
        if (!first) out.Append(", ");
        first = false;
        out.Append(StringRepr(key));
        out.Append(": ");
        out.Append(ToRepr(value));
      }
      out.Append("}");
      return out;
    }
    default:
      return MarkedText(absl::StrCat("<", v.KindName(), ">"));
  }
}

bool ToJsonText(const TemplateValue& v, const TemplateJsonOptions& options,
                MarkedText* out) {
  return AppendJson(v, options, 0, out);
}

}  // namespace deepslice
