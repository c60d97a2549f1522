// Values of the template language: construction, equality, truth.
#include "runtime/text/template_value.h"

#include <algorithm>
#include <utility>

namespace deepslice {

// Takes a new member of a container into account. Sums saturate: a container
// that is too heavy is refused long before.
void TemplateValue::Account(const TemplateValue& child) {
  constexpr uint64_t kMost = uint64_t{1} << 40;
  depth_ = std::max(depth_, child.depth_ + 1);
  weight_ = std::min(weight_ + child.weight_, kMost);
  holds_namespace_ = holds_namespace_ || child.holds_namespace_;
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
TemplateValue TemplateValue::MakeList(List items, bool tuple) {
  TemplateValue v;
  v.kind_ = Kind::kList;
  v.tuple_ = tuple;
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
  v.holds_namespace_ = true;
  return v;
}
TemplateValue TemplateValue::MakeLoop(Loop loop) {
  TemplateValue v;
  v.kind_ = Kind::kLoop;
  for (const TemplateValue& item : *loop.items) v.Account(item);
  v.data_ = std::make_shared<Loop>(std::move(loop));
  return v;
}
TemplateValue TemplateValue::AtPass(int64_t index0) const {
  TemplateValue v = *this;
  v.data_ = std::make_shared<Loop>(Loop{as_loop().items, index0});
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
  }
  return "";
}

bool operator==(const TemplateValue& a, const TemplateValue& b) {
  using Kind = TemplateValue::Kind;
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return a.as_int() == b.as_int();
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
      return a.is_tuple() == b.is_tuple() && a.as_list() == b.as_list();
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
    default:
      return false;  // numbers: above
  }
}

}  // namespace deepslice
