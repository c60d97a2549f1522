// How the template language prints values: Python's str, repr and json.dumps.
#include <utf8proc.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/text/template_ast.h"
#include "runtime/text/template_value.h"
#include "runtime/text/utf8.h"
#include "schema/base/float_text.h"
#include "schema/base/limits.h"

namespace deepslice {
namespace {

using Kind = TemplateValue::Kind;
using Shape = TemplateValue::Shape;

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
          out->Append(absl::StrFormat("\\u%04x", c.value), user);
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

// "[" or "{", what `item` writes for each of `size` members, and the end.
template <typename Item>
bool AppendMembers(absl::string_view brackets, size_t size,
                   const TemplateJsonOptions& o, int depth, MarkedText* out,
                   Item item) {
  const auto newline = [&](int d) {
    if (!o.indent) return;
    out->Append("\n");
    for (int i = 0; i < d; ++i) out->Append(*o.indent);
  };
  const std::string comma = o.item_separator.value_or(o.indent ? "," : ", ");
  out->Append(brackets.substr(0, 1));
  for (size_t i = 0; i < size; ++i) {
    if (i > 0) out->Append(comma);
    newline(depth + 1);
    if (!item(i)) return false;
    // Beyond what a template may write nothing is asked for any more.
    if (out->size() > limits::kTemplateOutputBytes) return true;
  }
  if (size > 0) newline(depth);
  out->Append(brackets.substr(1));
  return true;
}

bool AppendJson(const TemplateValue& v, const TemplateJsonOptions& o, int depth,
                MarkedText* out) {
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
    case Kind::kList:
      if (v.shape() != TemplateValue::Shape::kList && !v.is_tuple()) {
        return false;
      }
      return AppendMembers(
          "[]", v.as_list().size(), o, depth, out, [&](size_t i) {
            return AppendJson(v.as_list()[i], o, depth + 1, out);
          });
    case Kind::kMap: {
      TemplateValue::Map map = v.as_map();
      if (o.sort_keys) {
        std::stable_sort(map.begin(), map.end(),
                         [](const auto& a, const auto& b) {
                           return a.first.text < b.first.text;
                         });
      }
      return AppendMembers("{}", map.size(), o, depth, out, [&](size_t i) {
        AppendJsonString(map[i].first, o.ascii, out);
        out->Append(o.key_separator.value_or(": "));
        return AppendJson(map[i].second, o, depth + 1, out);
      });
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
    case Kind::kString: {
      if (!v.is_markup()) return StringRepr(v.as_string());
      MarkedText out("Markup(");
      out.Append(StringRepr(v.as_string()));
      out.Append(")");
      return out;
    }
    case Kind::kList: {
      const absl::string_view name =
          v.shape() == Shape::kKeys     ? "dict_keys("
          : v.shape() == Shape::kValues ? "dict_values("
          : v.shape() == Shape::kItems  ? "dict_items("
                                        : "";
      MarkedText out(name);
      out.Append(v.is_tuple() ? "(" : "[");
      bool first = true;
      for (const TemplateValue& x : v.as_list()) {
        if (!first) out.Append(", ");
        first = false;
        out.Append(ToRepr(x));
      }
      if (v.is_tuple() && v.as_list().size() == 1) out.Append(",");
      out.Append(v.is_tuple() ? ")" : "]");
      if (!name.empty()) out.Append(")");
      return out;
    }
    case Kind::kMacro: {
      MarkedText out("<Macro ");
      out.Append(StringRepr(MarkedText(v.as_macro()->name)));
      out.Append(">");
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
