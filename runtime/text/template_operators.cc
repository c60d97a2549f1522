// Operators of the template language with Python's rules for kinds.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/text/template_format.h"
#include "runtime/text/template_functions.h"
#include "runtime/text/template_text.h"
#include "runtime/text/utf8.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

using Value = TemplateValue;
using Kind = TemplateValue::Kind;

absl::Status CantApply(absl::string_view op, const Value& a, const Value& b) {
  for (const Value* v : {&a, &b}) {
    if (v->is_undefined()) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", v->name(), "\" is undefined"));
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "can't apply \"", op, "\" to ", a.KindName(), " and ", b.KindName()));
}

absl::Status TooLarge(absl::string_view op) {
  return absl::InvalidArgumentError(
      absl::StrCat("the result of \"", op, "\" does not fit 64 bits"));
}

// Rounds towards minus infinity; b is not 0.
int64_t FloorDiv(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return a % b != 0 && (a % b < 0) != (b < 0) ? q - 1 : q;
}

absl::StatusOr<Value> IntArithmetic(absl::string_view op, int64_t a,
                                    int64_t b) {
  int64_t r = 0;
  bool overflow = false;
  if (op == "+") {
    overflow = __builtin_add_overflow(a, b, &r);
  } else if (op == "-") {
    overflow = __builtin_sub_overflow(a, b, &r);
  } else if (op == "*") {
    overflow = __builtin_mul_overflow(a, b, &r);
  } else if (op == "//" || op == "%" || op == "/") {
    if (b == 0) return absl::InvalidArgumentError("division by zero");
    if (op == "/") {
      return Value::Float(static_cast<double>(a) / static_cast<double>(b));
    }
    if (b == -1) {  // the one quotient that may not fit
      overflow = op == "//" && __builtin_sub_overflow(int64_t{0}, a, &r);
    } else {
      r = op == "//" ? FloorDiv(a, b) : a - FloorDiv(a, b) * b;
    }
  } else {  // **
    if (b < 0) {
      if (a == 0) return absl::InvalidArgumentError("division by zero");
      return Value::Float(
          std::pow(static_cast<double>(a), static_cast<double>(b)));
    }
    r = 1;
    // At most 64 products: beyond, only 0, 1 and -1 stay in range.
    if (a == 0 || a == 1 || a == -1) b = b % 2 == 0 && b > 0 ? 2 : b > 0;
    for (int64_t i = 0; i < b && !overflow; ++i) {
      overflow = __builtin_mul_overflow(r, a, &r);
    }
  }
  if (overflow) return TooLarge(op);
  return Value::Int(r);
}

absl::StatusOr<Value> FloatArithmetic(absl::string_view op, double a,
                                      double b) {
  if ((op == "/" || op == "//" || op == "%") && b == 0) {
    return absl::InvalidArgumentError("division by zero");
  }
  if (op == "+") return Value::Float(a + b);
  if (op == "-") return Value::Float(a - b);
  if (op == "*") return Value::Float(a * b);
  if (op == "/") return Value::Float(a / b);
  if (op == "//" || op == "%") {
    // Python's: the quotient comes from the rest, not from a / b.
    double rest = std::fmod(a, b);
    double quotient = (a - rest) / b;
    if (rest == 0) {
      rest = std::copysign(0.0, b);
    } else if ((b < 0) != (rest < 0)) {
      rest += b;
      quotient -= 1;
    }
    if (op == "%") return Value::Float(rest);
    if (quotient == 0) return Value::Float(std::copysign(0.0, a / b));
    const double whole = std::floor(quotient);
    return Value::Float(quotient - whole > 0.5 ? whole + 1 : whole);
  }
  const double power = std::pow(a, b);
  if (a == 0 && b < 0) return absl::InvalidArgumentError("division by zero");
  if (std::isfinite(a) && std::isfinite(b) && !std::isfinite(power)) {
    return absl::InvalidArgumentError(
        "the result of \"**\" is no floating-point number");
  }
  return Value::Float(power);
}

// A list or a tuple: what can be added, repeated and ordered.
bool IsSequence(const Value& v) {
  return v.is_list() && (v.shape() == Value::Shape::kList || v.is_tuple());
}

// Of an integer and a double that are equal as doubles, but not exactly.
int OrderLarge(const Value& a, const Value& b) {
  // A double of 2^53 and more is a whole number; only 2^63 does not fit.
  const auto whole = [](const Value& v) {
    if (v.is_integral()) return static_cast<__int128>(v.as_int());
    return static_cast<__int128>(v.as_double());
  };
  return whole(a) < whole(b) ? -1 : whole(a) > whole(b);
}

// -1, 0 or 1; 2 with a NaN; nullopt for kinds without an order.
std::optional<int> Order(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) {
    return a.as_int() < b.as_int() ? -1 : a.as_int() > b.as_int();
  }
  if (a.is_number() && b.is_number()) {
    const double x = a.as_double(), y = b.as_double();
    if (std::isnan(x) || std::isnan(y)) return 2;
    // Only of large numbers do integers and doubles differ.
    if (x == y && !(a == b)) return OrderLarge(a, b);
    return x < y ? -1 : x > y;
  }
  if (a.is_string() && b.is_string()) {
    // Bytes of UTF-8 have the order of code points.
    const int c = a.as_string().text.compare(b.as_string().text);
    return c < 0 ? -1 : c > 0;
  }
  if (a.is_list() && b.is_list() && IsSequence(a) && IsSequence(b) &&
      a.is_tuple() == b.is_tuple()) {
    const auto& x = a.as_list();
    const auto& y = b.as_list();
    for (size_t i = 0; i < x.size() && i < y.size(); ++i) {
      if (!(x[i] == y[i])) return Order(x[i], y[i]);
    }
    return x.size() < y.size() ? -1 : x.size() > y.size();
  }
  return std::nullopt;
}

absl::StatusOr<bool> Contains(const Value& item, const Value& container,
                              TemplateMeter& meter) {
  switch (container.kind()) {
    case Kind::kString:
      if (!item.is_string()) return CantApply("in", item, container);
      DS_RETURN_IF_ERROR(meter.ChargeText(container.as_string().size()));
      return FindPart(container.as_string().text, item.as_string().text, 0) !=
             absl::string_view::npos;
    case Kind::kList:
      DS_RETURN_IF_ERROR(
          meter.Charge(container.as_list().size() + container.weight() / 16));
      for (const Value& v : container.as_list()) {
        if (v == item) return true;
      }
      return false;
    case Kind::kMap:
      DS_RETURN_IF_ERROR(meter.Charge(container.as_map().size()));
      if (!IsTemplateKey(item)) {
        return absl::InvalidArgumentError(
            absl::StrCat(item.KindName(), " can't be a key"));
      }
      return item.is_string() &&
             container.Find(item.as_string().text) != nullptr;
    case Kind::kUndefined:
    case Kind::kIterator: {
      TemplateCursor cursor(container);
      while (true) {
        DS_ASSIGN_OR_RETURN(const auto next, cursor.Next(meter));
        if (!next) return false;
        DS_RETURN_IF_ERROR(meter.Charge(next->weight() / 16));
        if (*next == item) return true;
      }
    }
    default:
      return CantApply("in", item, container);
  }
}

MarkedText EscapeHtml(const MarkedText& s) {
  MarkedText out;
  for (size_t i = 0; i < s.size(); ++i) {
    const char c = s.text[i];
    const bool user = s.marks[i] != 0;
    out.Append(c == '&'    ? "&amp;"
               : c == '<'  ? "&lt;"
               : c == '>'  ? "&gt;"
               : c == '\'' ? "&#39;"
               : c == '"'  ? "&#34;"
                           : absl::string_view(&c, 1),
               user);
  }
  return out;
}

}  // namespace

absl::Status TemplateMeter::ChargeText(size_t bytes) {
  if (bytes > static_cast<size_t>(limits::kTemplateOutputBytes)) {
    return absl::ResourceExhaustedError(
        "the chat template makes a text of more than 4194304 bytes; use "
        "another template or a shorter conversation");
  }
  return Charge(bytes / 256);
}

absl::StatusOr<TemplateValue> TemplateMeter::Text(MarkedText text) {
  DS_RETURN_IF_ERROR(ChargeText(text.size()));
  return Value::String(std::move(text));
}

absl::StatusOr<TemplateValue> TemplateMeter::List(TemplateValue::List items,
                                                  TemplateValue::Shape shape) {
  DS_RETURN_IF_ERROR(Charge(items.size()));
  return Checked(Value::MakeList(std::move(items), shape));
}

absl::StatusOr<TemplateValue> TemplateMeter::Map(TemplateValue::Map map) {
  DS_RETURN_IF_ERROR(Charge(map.size()));
  return Checked(Value::MakeMap(std::move(map)));
}

absl::StatusOr<TemplateValue> TemplateMeter::Checked(TemplateValue container) {
  if (container.depth() > limits::kTemplateValueDepth ||
      container.weight() > static_cast<uint64_t>(limits::kTemplateSteps)) {
    return absl::ResourceExhaustedError(
        "the chat template makes too large a list or mapping; use another "
        "template or a shorter conversation");
  }
  return container;
}

absl::StatusOr<MarkedText> TemplateMeter::Print(const TemplateValue& v,
                                                bool repr) {
  DS_RETURN_IF_ERROR(Charge(v.weight() / 16));
  if (!v.has_text()) {
    return absl::UnimplementedError(
        absl::StrCat("writing ", v.KindName(),
                     v.is_list() || v.is_map() ? " of what has no text" : "",
                     " is not supported"));
  }
  MarkedText text = repr ? ToRepr(v) : ToText(v);
  DS_RETURN_IF_ERROR(ChargeText(text.size()));
  return text;
}

const TemplateValue* TemplateArgs::Get(size_t index,
                                       absl::string_view name) const {
  if (index < positional.size()) return &positional[index];
  for (const auto& [key, value] : named) {
    if (key == name) return &value;
  }
  return nullptr;
}

absl::StatusOr<TemplateValue> TemplateBinary(absl::string_view op,
                                             const TemplateValue& a,
                                             const TemplateValue& b,
                                             TemplateMeter& meter) {
  if (op == "~") {
    DS_ASSIGN_OR_RETURN(MarkedText text, meter.Print(a));
    DS_ASSIGN_OR_RETURN(const MarkedText second, meter.Print(b));
    text.Append(second);
    return meter.Text(std::move(text));
  }
  if (a.is_integral() && b.is_integral()) {
    return IntArithmetic(op, a.as_int(), b.as_int());
  }
  if (a.is_number() && b.is_number()) {
    return FloatArithmetic(op, a.as_double(), b.as_double());
  }
  if (op == "+" && a.is_string() && b.is_string()) {
    const bool markup = a.is_markup() || b.is_markup();
    MarkedText text =
        markup && !a.is_markup() ? EscapeHtml(a.as_string()) : a.as_string();
    text.Append(markup && !b.is_markup() ? EscapeHtml(b.as_string())
                                         : b.as_string());
    DS_ASSIGN_OR_RETURN(Value out, meter.Text(std::move(text)));
    return markup ? Value::Markup(out.as_string()) : out;
  }
  if (op == "+" && IsSequence(a) && IsSequence(b) &&
      a.is_tuple() == b.is_tuple()) {
    Value::List items = a.as_list();
    items.insert(items.end(), b.as_list().begin(), b.as_list().end());
    return meter.List(std::move(items), a.is_tuple() ? Value::Shape::kTuple
                                                     : Value::Shape::kList);
  }
  if (op == "*" && (a.is_integral() || b.is_integral())) {
    const Value& thing = a.is_integral() ? b : a;
    const int64_t times =
        std::max<int64_t>(0, a.is_integral() ? a.as_int() : b.as_int());
    if (thing.is_string()) {
      const MarkedText& s = thing.as_string();
      if (times > limits::kTemplateOutputBytes) {
        DS_RETURN_IF_ERROR(meter.ChargeText(times));
      }
      DS_RETURN_IF_ERROR(meter.ChargeText(s.size() * times));
      MarkedText out;
      for (int64_t i = 0; i < times && s.size() > 0; ++i) out.Append(s);
      return thing.is_markup() ? Value::Markup(std::move(out))
                               : Value::String(std::move(out));
    }
    if (IsSequence(thing)) {
      const auto& list = thing.as_list();
      if (times > limits::kTemplateSteps)
        DS_RETURN_IF_ERROR(meter.Charge(times));
      DS_RETURN_IF_ERROR(meter.Charge(list.size() * times));
      Value::List out;
      for (int64_t i = 0; i < times && !list.empty(); ++i) {
        out.insert(out.end(), list.begin(), list.end());
      }
      return meter.List(std::move(out), thing.is_tuple() ? Value::Shape::kTuple
                                                         : Value::Shape::kList);
    }
  }
  if (op == "%" && a.is_string()) {
    if (a.is_markup()) {
      return absl::UnimplementedError(
          "\"%\" of what `safe` made is not supported");
    }
    return TemplatePercent(a.as_string(), b, meter);
  }
  return CantApply(op, a, b);
}

absl::StatusOr<bool> TemplateCompare(absl::string_view op,
                                     const TemplateValue& a,
                                     const TemplateValue& b,
                                     TemplateMeter& meter) {
  DS_RETURN_IF_ERROR(meter.Charge(std::min(a.weight(), b.weight()) / 16));
  if (op == "==") return a == b;
  if (op == "!=") return !(a == b);
  if (op == "in") return Contains(a, b, meter);
  if (op == "not in") {
    DS_ASSIGN_OR_RETURN(const bool in, Contains(a, b, meter));
    return !in;
  }
  const std::optional<int> order = Order(a, b);
  if (!order) return CantApply(op, a, b);
  if (*order == 2) return false;
  if (op == "<") return *order < 0;
  if (op == "<=") return *order <= 0;
  if (op == ">") return *order > 0;
  return *order >= 0;
}

absl::StatusOr<TemplateValue> TemplateEscape(const TemplateValue& v,
                                             TemplateMeter& meter) {
  if (v.is_markup()) return v;
  DS_ASSIGN_OR_RETURN(const MarkedText text, meter.Print(v));
  MarkedText escaped = EscapeHtml(text);
  DS_RETURN_IF_ERROR(meter.ChargeText(escaped.size()));
  return Value::Markup(std::move(escaped));
}

bool IsTemplateKey(const TemplateValue& v) {
  switch (v.kind()) {
    case Kind::kMap:
      return false;
    case Kind::kList:
      return (v.is_tuple() && std::all_of(v.as_list().begin(),
                                          v.as_list().end(), IsTemplateKey)) ||
             v.shape() == Value::Shape::kRange ||
             v.shape() == Value::Shape::kValues;
    default:
      return true;
  }
}

absl::StatusOr<TemplateValue::List> TemplateItems(const TemplateValue& v,
                                                  TemplateMeter& meter) {
  if (v.is_list()) {
    DS_RETURN_IF_ERROR(meter.Charge(v.as_list().size()));
    return v.as_list();
  }
  Value::List out;
  TemplateCursor cursor(v);
  while (true) {
    DS_ASSIGN_OR_RETURN(auto item, cursor.Next(meter));
    if (!item) return out;
    out.push_back(*std::move(item));
  }
}

}  // namespace deepslice
