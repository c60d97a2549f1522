// "%s" % x of the template language.
#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/text/template_format.h"
#include "runtime/text/template_text.h"
#include "runtime/text/utf8.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

using Value = TemplateValue;
using Shape = TemplateValue::Shape;

class Percent {
 public:
  Percent(const MarkedText& format, const Value& argument, TemplateMeter& meter)
      : format_(format),
        argument_(argument),
        meter_(meter),
        several_(argument.is_list() && argument.is_tuple()) {}

  absl::StatusOr<Value> Run() {
    while (pos_ < format_.size()) {
      const size_t percent =
          std::min(format_.text.find('%', pos_), format_.size());
      out_.Append(format_.Substr(pos_, percent));
      pos_ = percent + 1;
      if (percent < format_.size()) DS_RETURN_IF_ERROR(One());
      DS_RETURN_IF_ERROR(meter_.ChargeText(out_.size()));
    }
    const size_t given = several_ ? argument_.as_list().size() : 1;
    // One that could be asked by name or place needs not be used.
    const bool optional =
        !several_ &&
        (argument_.is_map() || argument_.is_undefined() ||
         (argument_.is_list() && argument_.shape() < Shape::kKeys));
    if (next_ < given && !optional) {
      return absl::InvalidArgumentError("too many arguments for a format");
    }
    return meter_.Text(std::move(out_));
  }

 private:
  char Peek() const {
    return pos_ < format_.size() ? format_.text[pos_] : '\0';
  }

  absl::StatusOr<Value> Take() {
    if (several_) {
      if (next_ >= argument_.as_list().size()) {
        return absl::InvalidArgumentError("too few arguments for a format");
      }
      return argument_.as_list()[next_++];
    }
    if (next_++ > 0) {
      return absl::InvalidArgumentError("too few arguments for a format");
    }
    return argument_;
  }

  // Digits, or "*" for an argument.
  absl::StatusOr<std::optional<int64_t>> TakeNumber() {
    if (Peek() == '*') {
      ++pos_;
      DS_ASSIGN_OR_RETURN(const Value v, Take());
      if (!v.is_integral()) {
        return absl::InvalidArgumentError("\"*\" in a format needs an integer");
      }
      return v.as_int();
    }
    if (!absl::ascii_isdigit(Peek())) return std::nullopt;
    int64_t n = 0;
    while (absl::ascii_isdigit(Peek())) {
      n = std::min<int64_t>(n * 10 + (Peek() - '0'), 1 << 30);
      ++pos_;
    }
    return n;
  }

  // A conversion; pos_ is behind its "%".
  absl::Status One() {
    if (Peek() == '%') {
      ++pos_;
      out_.Append("%");
      return absl::OkStatus();
    }
    std::optional<Value> named;
    if (Peek() == '(') {
      const size_t end = format_.text.find(')', pos_);
      if (end == std::string::npos || !argument_.is_map()) {
        return absl::InvalidArgumentError("a format needs a mapping");
      }
      const Value* found =
          argument_.Find(format_.text.substr(pos_ + 1, end - pos_ - 1));
      if (!found) return absl::InvalidArgumentError("a format's key is absent");
      named = *found;
      pos_ = end + 1;
    }
    TemplateFormatSpec spec;
    bool zero = false, left = false;
    for (bool flags = true; flags;) {
      switch (Peek()) {
        case '-':
          left = true;
          break;
        case '+':
          spec.sign = '+';
          break;
        case ' ':
          if (spec.sign == '-') spec.sign = ' ';
          break;
        case '#':
          spec.alternate = true;
          break;
        case '0':
          zero = true;
          break;
        default:
          flags = false;
      }
      if (flags) ++pos_;
    }
    DS_ASSIGN_OR_RETURN(const auto width, TakeNumber());
    if (width && *width < 0) left = true;
    spec.width = width ? std::abs(std::max<int64_t>(*width, -(1 << 30))) : 0;
    if (Peek() == '.') {
      ++pos_;
      DS_ASSIGN_OR_RETURN(const auto precision, TakeNumber());
      spec.precision = std::max<int64_t>(0, precision.value_or(0));
    }
    const char kind = Peek();
    ++pos_;
    Value v;
    if (named) {
      v = *std::move(named);
    } else {
      DS_ASSIGN_OR_RETURN(v, Take());
    }
    spec.align = left ? '<' : '>';
    if (zero && !left) {
      spec.align = '=';
      spec.fill = "0";
    }
    return Convert(kind, v, spec);
  }

  absl::Status Convert(char kind, const Value& v, TemplateFormatSpec spec) {
    switch (kind) {
      case 's':
      case 'r':
      case 'a': {
        if (spec.align == '=') spec.align = '>', spec.fill = " ";
        spec.sign = '-';
        spec.alternate = false;
        DS_ASSIGN_OR_RETURN(MarkedText text, meter_.Print(v, kind != 's'));
        if (kind == 'a') text = AsciiText(text);
        return Put(Value::String(std::move(text)), spec);
      }
      case 'c': {
        if (spec.align == '=') spec.align = '>', spec.fill = " ";
        spec.sign = '-';
        spec.precision.reset();
        if (v.is_integral()) spec.kind = 'c';
        if (v.is_string() && Utf8Length(v.as_string().text) != 1) break;
        if (!v.is_integral() && !v.is_string()) break;
        return Put(v, spec);
      }
      case 'd':
      case 'i':
      case 'u':
      case 'o':
      case 'x':
      case 'X': {
        const bool decimal = kind == 'd' || kind == 'i' || kind == 'u';
        if (!v.is_number() || (!v.is_integral() && !decimal)) break;
        int64_t i = v.as_int();
        if (!v.is_integral()) {
          // 2^63 is the first double that does not fit.
          if (!(v.as_double() > -9223372036854775808.0 &&
                v.as_double() < 9223372036854775808.0)) {
            return absl::InvalidArgumentError("a number does not fit 64 bits");
          }
          i = static_cast<int64_t>(v.as_double());
        }
        spec.kind = decimal ? 'd' : kind;
        if (!spec.precision) return Put(Value::Int(i), spec);
        return Digits(i, spec);
      }
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        if (!v.is_number()) break;
        spec.kind = kind;
        return Put(v, spec);
      default:
        return absl::InvalidArgumentError("a format ends in no known letter");
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "format \"%", std::string(1, kind), "\" does not suit ", v.KindName()));
  }

  // %.5d: at least so many digits.
  absl::Status Digits(int64_t i, TemplateFormatSpec spec) {
    TemplateFormatSpec inner = spec;
    inner.precision.reset();
    inner.width = 0;
    inner.align = '>';
    inner.sign = '-';
    DS_ASSIGN_OR_RETURN(const MarkedText plain,
                        TemplateFormatValue(Value::Int(i), inner, meter_));
    std::string digits = plain.text;
    const bool negative = absl::StartsWith(digits, "-");
    if (negative) digits.erase(0, 1);
    const std::string prefix =
        spec.alternate && spec.kind != 'd' ? digits.substr(0, 2) : "";
    digits.erase(0, prefix.size());
    DS_RETURN_IF_ERROR(meter_.ChargeText(static_cast<size_t>(*spec.precision)));
    if (static_cast<int64_t>(digits.size()) < *spec.precision) {
      digits.insert(0, static_cast<size_t>(*spec.precision) - digits.size(),
                    '0');
    }
    const std::string sign = negative           ? "-"
                             : spec.sign == '-' ? ""
                                                : std::string(1, spec.sign);
    if (spec.align == '=') {
      const size_t used = sign.size() + prefix.size();
      DS_RETURN_IF_ERROR(meter_.ChargeText(static_cast<size_t>(spec.width)));
      const size_t want = static_cast<size_t>(
          std::max<int64_t>(0, spec.width - static_cast<int64_t>(used)));
      if (digits.size() < want) digits.insert(0, want - digits.size(), '0');
      out_.Append(sign + prefix + digits);
      return absl::OkStatus();
    }
    spec.precision.reset();
    spec.kind = '\0';
    spec.sign = '-';
    spec.alternate = false;
    return Put(Value::String(sign + prefix + digits), spec);
  }

  absl::Status Put(const Value& v, const TemplateFormatSpec& spec) {
    DS_ASSIGN_OR_RETURN(const MarkedText text,
                        TemplateFormatValue(v, spec, meter_));
    out_.Append(text);
    return absl::OkStatus();
  }

  const MarkedText& format_;
  const Value& argument_;
  TemplateMeter& meter_;
  const bool several_;
  size_t next_ = 0;
  size_t pos_ = 0;
  MarkedText out_;
};

}  // namespace

absl::StatusOr<TemplateValue> TemplatePercent(const MarkedText& format,
                                              const TemplateValue& argument,
                                              TemplateMeter& meter) {
  return Percent(format, argument, meter).Run();
}

}  // namespace deepslice
