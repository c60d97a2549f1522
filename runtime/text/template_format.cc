// Values of the template language in a given width, precision and base.
#include "runtime/text/template_format.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/text/template_text.h"
#include "runtime/text/utf8.h"
#include "schema/base/float_text.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

using Value = TemplateValue;
using Spec = TemplateFormatSpec;

absl::Status Bad(const Value& v, const Spec& spec) {
  return absl::InvalidArgumentError(
      absl::StrCat("format \"", std::string(spec.kind ? 1 : 0, spec.kind),
                   "\" does not suit ", v.KindName()));
}

// Sets the text in its width.
absl::StatusOr<MarkedText> Pad(const MarkedText& text, const Spec& spec,
                               char align, TemplateMeter& meter) {
  const auto length = static_cast<int64_t>(Utf8Length(text.text));
  const int64_t missing = std::max<int64_t>(0, spec.width - length);
  DS_RETURN_IF_ERROR(
      meter.ChargeText(text.size() + static_cast<size_t>(missing) * 4));
  const int64_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  MarkedText out;
  for (int64_t i = 0; i < left; ++i) out.Append(spec.fill);
  out.Append(text);
  for (int64_t i = left; i < missing; ++i) out.Append(spec.fill);
  return out;
}

// "1234567" with separators, counted from the right.
std::string Group(absl::string_view digits, char separator, size_t by) {
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % by == 0) out += separator;
    out += digits[i];
  }
  return out;
}

// Sign, prefix and digits; "=" and "0" put the fill behind the sign.
absl::StatusOr<MarkedText> Number(bool negative, const std::string& prefix,
                                  std::string body, const Spec& spec,
                                  TemplateMeter& meter) {
  std::string sign = negative           ? "-"
                     : spec.sign == '-' ? ""
                                        : std::string(1, spec.sign);
  sign += prefix;
  if (spec.group != '\0') {
    const size_t end =
        std::min(body.find_first_not_of("0123456789abcdefABCDEF"), body.size());
    const bool decimal = prefix.empty();
    std::string digits = body.substr(0, end);
    if (spec.align == '=' && spec.fill == "0") {
      // Zeros are grouped as well.
      const size_t by = decimal ? 3 : 4;
      DS_RETURN_IF_ERROR(meter.ChargeText(static_cast<size_t>(spec.width)));
      while (static_cast<int64_t>(sign.size() + body.size() - end +
                                  Group(digits, spec.group, by).size()) <
             spec.width) {
        digits.insert(digits.begin(), '0');
        if (digits.size() > 4096) break;
      }
    }
    body = Group(digits, spec.group, decimal ? 3 : 4) + body.substr(end);
  }
  if (spec.align == '=') {
    Spec inner = spec;
    inner.width =
        std::max<int64_t>(0, spec.width - static_cast<int64_t>(sign.size()));
    DS_ASSIGN_OR_RETURN(const MarkedText padded,
                        Pad(MarkedText(body), inner, '>', meter));
    MarkedText out(sign);
    out.Append(padded);
    return out;
  }
  return Pad(MarkedText(sign + body), spec, spec.align ? spec.align : '>',
             meter);
}

absl::StatusOr<MarkedText> Integer(const Value& v, const Spec& spec,
                                   TemplateMeter& meter) {
  if (spec.precision) return Bad(v, spec);
  const int64_t i = v.as_int();
  const uint64_t magnitude =
      i < 0 ? uint64_t{0} - static_cast<uint64_t>(i) : static_cast<uint64_t>(i);
  std::string body, prefix;
  switch (spec.kind) {
    case '\0':
    case 'd':
    case 'n':
      body = absl::StrCat(magnitude);
      break;
    case 'x':
    case 'X':
      body = spec.kind == 'x' ? absl::StrFormat("%x", magnitude)
                              : absl::StrFormat("%X", magnitude);
      break;
    case 'o':
      body = absl::StrFormat("%o", magnitude);
      break;
    case 'b':
      for (uint64_t m = magnitude; body.empty() || m > 0; m >>= 1) {
        body.insert(body.begin(), m & 1 ? '1' : '0');
      }
      break;
    case 'c': {
      if (i < 0 || i > 0x10FFFF || (i >= 0xD800 && i < 0xE000)) {
        return Bad(v, spec);
      }
      std::string text;
      AppendUtf8(static_cast<uint32_t>(i), &text);
      return Pad(MarkedText(text), spec, spec.align ? spec.align : '<', meter);
    }
    default:
      return Bad(v, spec);
  }
  if (spec.alternate &&
      absl::string_view("xXob").find(spec.kind) != absl::string_view::npos) {
    prefix = absl::StrCat("0", std::string(1, spec.kind));
  }
  return Number(i < 0, prefix, body, spec, meter);
}

// As printf has it: kind e, f or g, in either case.
std::string Printed(bool alternate, char kind, int digits, double d) {
  const std::string format =
      absl::StrCat("%", alternate ? "#" : "", ".*", std::string(1, kind));
  std::string out;
  const bool known =
      absl::FormatUntyped(&out, absl::UntypedFormatSpec(format),
                          {absl::FormatArg(digits), absl::FormatArg(d)});
  return known ? out : "";
}

absl::StatusOr<MarkedText> Real(const Value& v, const Spec& spec,
                                TemplateMeter& meter) {
  const double d = v.as_double();
  if (spec.precision && *spec.precision > limits::kTemplateDigits) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a format of ", *spec.precision,
        " digits; the chat template may ask for ", limits::kTemplateDigits));
  }
  const double magnitude = std::fabs(d);
  const int digits = static_cast<int>(spec.precision.value_or(6));
  std::string body;
  char kind = spec.kind;
  if (!std::isfinite(d)) {
    body = std::isnan(d) ? "nan" : "inf";
    if (absl::ascii_isupper(kind)) absl::AsciiStrToUpper(&body);
    if (kind == '%') body += '%';
  } else if (kind == '\0' && !spec.precision) {
    body = FloatText(magnitude);
  } else if (kind == '\0') {
    // As g, but with a digit behind the point, so that it reads as a float.
    const int p = std::max(1, digits);
    const int exponent =
        magnitude == 0 ? 0
                       : std::atoi(absl::StrFormat("%.*e", p - 1, magnitude)
                                       .substr(p > 1 ? p + 2 : 2)
                                       .c_str());
    body = absl::StrFormat("%.*g", p, magnitude);
    if (exponent < p - 1 || p == 1) {
      if (body.find_first_of(".e") == std::string::npos) body += ".0";
    } else if (body.find('e') == std::string::npos &&
               body.find('.') == std::string::npos) {
      body = absl::StrFormat("%.*e", p - 1, magnitude);
      // Zeros behind the point go, as in g.
      const size_t e = body.find('e');
      size_t end = e;
      if (body.find('.') < e) {
        while (end > 0 && body[end - 1] == '0') --end;
        if (end > 0 && body[end - 1] == '.') --end;
      }
      body = body.substr(0, end) + body.substr(e);
    }
  } else if (kind == '%') {
    body = absl::StrFormat("%.*f%%", digits, magnitude * 100);
  } else {
    switch (kind) {
      case 'e':
      case 'E':
      case 'f':
      case 'F':
        body = Printed(spec.alternate, kind, digits, magnitude);
        break;
      case 'g':
      case 'n':
        body = Printed(spec.alternate, 'g', std::max(digits, 1), magnitude);
        break;
      case 'G':
        body = Printed(spec.alternate, 'G', std::max(digits, 1), magnitude);
        break;
      default:
        return Bad(v, spec);
    }
  }
  return Number(std::signbit(d) && !std::isnan(d), "", body, spec, meter);
}

}  // namespace

absl::StatusOr<MarkedText> TemplateFormatValue(const TemplateValue& v,
                                               const TemplateFormatSpec& spec,
                                               TemplateMeter& meter) {
  if (spec.width > limits::kTemplateOutputBytes) {
    DS_RETURN_IF_ERROR(meter.ChargeText(static_cast<size_t>(spec.width)));
  }
  const bool real_kind =
      absl::string_view("eEfFgG%").find(spec.kind) != absl::string_view::npos &&
      spec.kind != '\0';
  if (v.is_number()) {
    TemplateFormatSpec number = spec;
    if (spec.zeros && spec.align == '\0') number.align = '=';
    return v.is_integral() && !real_kind ? Integer(v, number, meter)
                                         : Real(v, number, meter);
  }
  if (!v.is_string()) return Bad(v, spec);
  if ((spec.kind != '\0' && spec.kind != 's') || spec.align == '=' ||
      spec.sign != '-' || spec.alternate || spec.group != '\0') {
    return Bad(v, spec);
  }
  MarkedText text = v.as_string();
  if (spec.precision) {
    size_t end = 0;
    for (int64_t i = 0; i < *spec.precision && end < text.size(); ++i) {
      end += DecodeUtf8(text.text, end).size;
    }
    text = text.Substr(0, end);
  }
  return Pad(text, spec, spec.align ? spec.align : '<', meter);
}

}  // namespace deepslice
