// Operators of the template language with Python's rules for kinds.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/text/template_functions.h"
#include "runtime/text/template_text.h"
#include "runtime/text/utf8.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

using Value = TemplateValue;
using Kind = TemplateValue::Kind;

constexpr int kMaxDepth = 64;  // of lists and mappings in each other

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
  if (op == "//") return Value::Float(std::floor(a / b));
  if (op == "%") {
    const double r = std::fmod(a, b);
    return Value::Float(r != 0 && (r < 0) != (b < 0) ? r + b : r);
  }
  return Value::Float(std::pow(a, b));
}

// -1, 0 or 1; nullopt for kinds without an order.
std::optional<int> Order(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) {
    return a.as_int() < b.as_int() ? -1 : a.as_int() > b.as_int();
  }
  if (a.is_number() && b.is_number()) {
    return a.as_double() < b.as_double() ? -1 : a.as_double() > b.as_double();
  }
  if (a.is_string() && b.is_string()) {
    // Bytes of UTF-8 have the order of code points.
    const int c = a.as_string().text.compare(b.as_string().text);
    return c < 0 ? -1 : c > 0;
  }
  if (a.is_list() && b.is_list()) {
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
      return absl::StrContains(container.as_string().text,
                               item.as_string().text);
    case Kind::kList:
      DS_RETURN_IF_ERROR(
          meter.Charge(container.as_list().size() + container.weight() / 16));
      for (const Value& v : container.as_list()) {
        if (v == item) return true;
      }
      return false;
    case Kind::kMap:
      DS_RETURN_IF_ERROR(meter.Charge(container.as_map().size()));
      return item.is_string() &&
             container.Find(item.as_string().text) != nullptr;
    case Kind::kUndefined:
      return false;
    default:
      return CantApply("in", item, container);
  }
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
                                                  bool tuple) {
  DS_RETURN_IF_ERROR(Charge(items.size()));
  return Checked(Value::MakeList(std::move(items), tuple));
}

absl::StatusOr<TemplateValue> TemplateMeter::Map(TemplateValue::Map map) {
  DS_RETURN_IF_ERROR(Charge(map.size()));
  return Checked(Value::MakeMap(std::move(map)));
}

absl::StatusOr<TemplateValue> TemplateMeter::Checked(TemplateValue container) {
  if (container.depth() > kMaxDepth ||
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
    MarkedText text = a.as_string();
    text.Append(b.as_string());
    return meter.Text(std::move(text));
  }
  if (op == "+" && a.is_list() && b.is_list() && a.is_tuple() == b.is_tuple()) {
    Value::List items = a.as_list();
    items.insert(items.end(), b.as_list().begin(), b.as_list().end());
    return meter.List(std::move(items), a.is_tuple());
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
      return Value::String(std::move(out));
    }
    if (thing.is_list()) {
      const auto& list = thing.as_list();
      if (times > limits::kTemplateSteps)
        DS_RETURN_IF_ERROR(meter.Charge(times));
      DS_RETURN_IF_ERROR(meter.Charge(list.size() * times));
      Value::List out;
      for (int64_t i = 0; i < times && !list.empty(); ++i) {
        out.insert(out.end(), list.begin(), list.end());
      }
      return meter.List(std::move(out), thing.is_tuple());
    }
  }
  if (op == "%" && a.is_string()) {
    return TemplatePercent(a.as_string(),
                           b.is_tuple() ? b.as_list() : Value::List{b}, meter);
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
  if (op == "<") return *order < 0;
  if (op == "<=") return *order <= 0;
  if (op == ">") return *order > 0;
  return *order >= 0;
}

absl::StatusOr<TemplateValue::List> TemplateItems(const TemplateValue& v,
                                                  TemplateMeter& meter) {
  Value::List out;
  switch (v.kind()) {
    case Kind::kUndefined:
      return out;
    case Kind::kList:
      DS_RETURN_IF_ERROR(meter.Charge(v.as_list().size()));
      return v.as_list();
    case Kind::kMap:
      DS_RETURN_IF_ERROR(meter.Charge(v.as_map().size()));
      for (const auto& entry : v.as_map()) {
        out.push_back(Value::String(entry.first));
      }
      return out;
    case Kind::kString:
      DS_RETURN_IF_ERROR(meter.Charge(Utf8Length(v.as_string().text)));
      for (MarkedText& c : TextCharacters(v.as_string())) {
        out.push_back(Value::String(std::move(c)));
      }
      return out;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat(v.KindName(), " can't be walked over"));
  }
}

absl::StatusOr<TemplateValue> TemplateAttribute(const TemplateValue& v,
                                                absl::string_view name) {
  if (v.is_undefined()) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", v.name(), "\" is undefined"));
  }
  if (v.kind() == Kind::kLoop) {
    const Value::Loop& loop = v.as_loop();
    const auto size = static_cast<int64_t>(loop.items->size());
    const int64_t i = loop.index0;
    if (name == "index") return Value::Int(i + 1);
    if (name == "index0") return Value::Int(i);
    if (name == "revindex") return Value::Int(size - i);
    if (name == "revindex0") return Value::Int(size - i - 1);
    if (name == "first") return Value::Bool(i == 0);
    if (name == "last") return Value::Bool(i + 1 == size);
    if (name == "length") return Value::Int(size);
    // Only a recursive for, which is not in the subset, goes deeper.
    if (name == "depth") return Value::Int(1);
    if (name == "depth0") return Value::Int(0);
    if (name == "previtem") {
      return i > 0 ? (*loop.items)[i - 1] : Value::Undefined("loop.previtem");
    }
    if (name == "nextitem") {
      return i + 1 < size ? (*loop.items)[i + 1]
                          : Value::Undefined("loop.nextitem");
    }
  }
  if (const Value* found = v.Find(name)) return *found;
  return Value::Undefined(name);
}

absl::StatusOr<TemplateValue> TemplatePercent(
    const MarkedText& format, const TemplateValue::List& arguments,
    TemplateMeter& meter) {
  MarkedText out;
  size_t next = 0;
  for (size_t pos = 0; pos < format.size(); ++pos) {
    const size_t percent = std::min(format.text.find('%', pos), format.size());
    out.Append(format.Substr(pos, percent));
    if (percent == format.size()) break;
    pos = percent + 1;
    const char kind = pos < format.size() ? format.text[pos] : '\0';
    if (kind == '%') {
      out.Append("%");
      continue;
    }
    if (kind != 's' && kind != 'd' && kind != 'i' && kind != 'r') {
      return absl::UnimplementedError(
          absl::StrCat("format \"%", std::string(kind ? 1 : 0, kind),
                       "\" is not supported"));
    }
    if (next >= arguments.size()) {
      return absl::InvalidArgumentError("too few arguments for a format");
    }
    const Value& v = arguments[next++];
    if (kind == 's' || kind == 'r') {
      DS_ASSIGN_OR_RETURN(const MarkedText text, meter.Print(v, kind == 'r'));
      out.Append(text);
    } else if (v.is_integral()) {
      out.Append(absl::StrCat(v.as_int()));
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("%d needs an integer, got ", v.KindName()));
    }
    DS_RETURN_IF_ERROR(meter.ChargeText(out.size()));
  }
  if (next < arguments.size()) {
    return absl::InvalidArgumentError("too many arguments for a format");
  }
  return meter.Text(std::move(out));
}

}  // namespace deepslice
