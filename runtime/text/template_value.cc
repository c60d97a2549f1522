// Values of the template language: construction, equality, truth.
#include "runtime/text/template_value.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/text/template_functions.h"
#include "runtime/text/utf8.h"
#include "schema/base/status_macros.h"

namespace deepslice {

// Takes a new member of a container into account. Sums saturate: a container
// that is too heavy is refused long before.
void TemplateValue::Account(const TemplateValue& child) {
  constexpr uint64_t kMost = uint64_t{1} << 40;
  depth_ = std::max(depth_, child.depth_ + 1);
  weight_ = std::min(weight_ + child.weight_, kMost);
  holds_mutable_ = holds_mutable_ || child.holds_mutable_;
  has_text_ = has_text_ && child.has_text_;
}

TemplateValue TemplateValue::Undefined(absl::string_view name) {
  TemplateValue v;
  v.data_ = std::make_shared<MarkedText>(name);
  return v;
}
TemplateValue TemplateValue::None() {
  TemplateValue v;
  v.kind_ = Kind::kNone;
  return v;
}
TemplateValue TemplateValue::Bool(bool b) {
  TemplateValue v;
  v.kind_ = Kind::kBool;
  v.int_ = b;
  return v;
}
TemplateValue TemplateValue::Int(int64_t i) {
  TemplateValue v;
  v.kind_ = Kind::kInt;
  v.int_ = i;
  return v;
}
TemplateValue TemplateValue::Float(double d) {
  TemplateValue v;
  v.kind_ = Kind::kFloat;
  v.float_ = d;
  return v;
}
TemplateValue TemplateValue::String(MarkedText text) {
  TemplateValue v;
  v.kind_ = Kind::kString;
  v.weight_ = 1 + text.size() / 16;
  v.data_ = std::make_shared<MarkedText>(std::move(text));
  return v;
}
TemplateValue TemplateValue::Markup(MarkedText text) {
  TemplateValue v = String(std::move(text));
  v.markup_ = true;
  return v;
}
TemplateValue TemplateValue::MakeList(List items, Shape shape) {
  TemplateValue v;
  v.kind_ = Kind::kList;
  v.shape_ = shape;
  v.has_text_ = shape != Shape::kRange;  // its bounds are not kept
  for (const TemplateValue& item : items) v.Account(item);
  v.data_ = std::make_shared<List>(std::move(items));
  return v;
}
TemplateValue TemplateValue::MakeMap(Map map) {
  TemplateValue v;
  v.kind_ = Kind::kMap;
  for (const auto& [key, value] : map) {
    v.Account(value);
    v.weight_ += 1 + key.size() / 16;
  }
  v.data_ = std::make_shared<Map>(std::move(map));
  return v;
}
TemplateValue TemplateValue::Namespace(Map map) {
  TemplateValue v = MakeMap(std::move(map));
  v.kind_ = Kind::kNamespace;
  v.holds_mutable_ = true;
  // What it will hold is not known yet.
  v.has_text_ = false;
  return v;
}
TemplateValue TemplateValue::MakeLoop(std::shared_ptr<TemplateLoop> loop) {
  TemplateValue v;
  v.kind_ = Kind::kLoop;
  v.holds_mutable_ = true;
  v.has_text_ = false;
  v.data_ = std::move(loop);
  return v;
}
TemplateValue TemplateValue::Macro(const TemplateStatement* macro) {
  TemplateValue v;
  v.kind_ = Kind::kMacro;
  v.macro_ = macro;
  return v;
}
TemplateValue TemplateValue::Function(absl::string_view name) {
  TemplateValue v = Undefined(name);
  v.kind_ = Kind::kFunction;
  v.has_text_ = false;
  return v;
}
TemplateValue TemplateValue::MakeMethod(TemplateValue subject,
                                        absl::string_view name) {
  TemplateValue v;
  v.kind_ = Kind::kMethod;
  v.Account(subject);
  v.has_text_ = false;
  v.data_ = std::make_shared<Method>(Method{
      std::string(name), std::make_shared<TemplateValue>(std::move(subject))});
  return v;
}
TemplateValue TemplateValue::Iterator(Source source,
                                      const TemplateValue& over) {
  TemplateValue v;
  v.kind_ = Kind::kIterator;
  v.Account(over);
  v.has_text_ = false;
  v.data_ = std::make_shared<Source>(std::move(source));
  return v;
}
TemplateValue TemplateValue::MakeState(absl::string_view name, List items) {
  TemplateValue v;
  v.kind_ = Kind::kState;
  for (const TemplateValue& item : items) v.Account(item);
  v.has_text_ = false;
  v.data_ = std::make_shared<State>(
      State{std::string(name), std::make_shared<List>(std::move(items)), 0});
  return v;
}

const TemplateValue* TemplateValue::Find(absl::string_view key) const {
  if (kind_ != Kind::kMap && kind_ != Kind::kNamespace) return nullptr;
  for (const auto& [name, value] : as_map()) {
    if (name.text == key) return &value;
  }
  return nullptr;
}

void TemplateValue::SetAttribute(absl::string_view key, TemplateValue v) const {
  Map& map = *static_cast<Map*>(data_.get());
  for (auto& [name, value] : map) {
    if (name.text == key) {
      value = std::move(v);
      return;
    }
  }
  map.emplace_back(MarkedText(key), std::move(v));
}

bool TemplateValue::Truthy() const {
  switch (kind_) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return int_ != 0;
    case Kind::kFloat:
      return float_ != 0;
    case Kind::kString:
      return !as_string().text.empty();
    case Kind::kList:
      return !as_list().empty();
    case Kind::kMap:
      return !as_map().empty();
    default:
      return true;
  }
}

absl::string_view TemplateValue::KindName() const {
  switch (kind_) {
    case Kind::kUndefined:
      return "undefined";
    case Kind::kNone:
      return "none";
    case Kind::kBool:
      return "a boolean";
    case Kind::kInt:
      return "an integer";
    case Kind::kFloat:
      return "a number";
    case Kind::kString:
      return "a string";
    case Kind::kList:
      return "a list";
    case Kind::kMap:
      return "a mapping";
    case Kind::kNamespace:
      return "a namespace";
    case Kind::kLoop:
      return "a loop";
    case Kind::kMacro:
      return "a macro";
    case Kind::kFunction:
      return "a function";
    case Kind::kMethod:
      return "a method";
    case Kind::kIterator:
      return "an iterator";
    case Kind::kState:
      return as_state().name == "joiner" ? "a joiner" : "a cycler";
  }
  return "";
}

namespace {

// a == b of an integer and a float: exact, where a double would round.
bool EqualNumbers(int64_t a, double b) {
  // 2^63 is the first double that does not fit.
  return b >= -9223372036854775808.0 && b < 9223372036854775808.0 &&
         static_cast<double>(static_cast<int64_t>(b)) == b &&
         static_cast<int64_t>(b) == a;
}

// Views of keys and of items are sets.
bool SameMembers(const TemplateValue::List& a, const TemplateValue::List& b) {
  return a.size() == b.size() &&
         std::all_of(a.begin(), a.end(), [&](const TemplateValue& v) {
           return std::find(b.begin(), b.end(), v) != b.end();
         });
}

}  // namespace

bool operator==(const TemplateValue& a, const TemplateValue& b) {
  using Kind = TemplateValue::Kind;
  using Shape = TemplateValue::Shape;
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return a.as_int() == b.as_int();
    if (a.is_integral()) return EqualNumbers(a.as_int(), b.as_double());
    if (b.is_integral()) return EqualNumbers(b.as_int(), a.as_double());
    return a.as_double() == b.as_double();
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
      return a.as_string().text == b.as_string().text;
    case Kind::kList:
      if (a.shape() == Shape::kValues || b.shape() == Shape::kValues) {
        return &a.as_list() == &b.as_list();
      }
      if (a.shape() == Shape::kKeys || a.shape() == Shape::kItems) {
        return (b.shape() == Shape::kKeys || b.shape() == Shape::kItems) &&
               SameMembers(a.as_list(), b.as_list());
      }
      return (a.shape() == b.shape() || (a.is_tuple() && b.is_tuple())) &&
             a.as_list() == b.as_list();
    case Kind::kMap: {
      if (a.as_map().size() != b.as_map().size()) return false;
      for (const auto& [key, value] : a.as_map()) {
        const TemplateValue* other = b.Find(key.text);
        if (!other || !(*other == value)) return false;
      }
      return true;
    }
    case Kind::kNamespace:
      return &a.as_map() == &b.as_map();
    case Kind::kLoop:
      return &a.as_loop() == &b.as_loop();
    case Kind::kMacro:
      return a.as_macro() == b.as_macro();
    case Kind::kFunction:
      return a.name() == b.name();
    case Kind::kMethod:
      return a.as_method().name == b.as_method().name &&
             a.as_method().subject == b.as_method().subject;
    case Kind::kIterator:
      return &a.as_iterator() == &b.as_iterator();
    case Kind::kState:
      return &a.as_state() == &b.as_state();
    default:
      return false;  // numbers: above
  }
}

std::optional<int64_t> TemplateLength(const TemplateValue& v) {
  using Kind = TemplateValue::Kind;
  switch (v.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      return static_cast<int64_t>(Utf8Length(v.as_string().text));
    case Kind::kList:
      return static_cast<int64_t>(v.as_list().size());
    case Kind::kMap:
      return static_cast<int64_t>(v.as_map().size());
    default:
      return std::nullopt;
  }
}

absl::StatusOr<std::optional<TemplateValue>> TemplateCursor::Next(
    TemplateMeter& meter) {
  using Kind = TemplateValue::Kind;
  DS_RETURN_IF_ERROR(meter.Charge(1));
  switch (over_.kind()) {
    case Kind::kUndefined:
      return std::nullopt;
    case Kind::kList:
      if (at_ >= over_.as_list().size()) return std::nullopt;
      return over_.as_list()[at_++];
    case Kind::kMap:
      if (at_ >= over_.as_map().size()) return std::nullopt;
      return TemplateValue::String(over_.as_map()[at_++].first);
    case Kind::kString: {
      const MarkedText& s = over_.as_string();
      if (at_ >= s.size()) return std::nullopt;
      const size_t begin = at_;
      at_ += DecodeUtf8(s.text, begin).size;
      return TemplateValue::String(s.Substr(begin, at_));
    }
    case Kind::kIterator:
      return over_.as_iterator()(meter);
    default:
      return absl::InvalidArgumentError(
          absl::StrCat(over_.KindName(), " can't be walked over"));
  }
}

}  // namespace deepslice
