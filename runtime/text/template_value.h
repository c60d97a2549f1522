// Values of the template language, and texts that remember who wrote them.
#ifndef DEEPSLICE_RUNTIME_TEXT_TEMPLATE_VALUE_H_
#define DEEPSLICE_RUNTIME_TEXT_TEMPLATE_VALUE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace deepslice {

struct TemplateStatement;

// UTF-8 in which each byte is known to come from the template or from a user.
struct MarkedText {
  std::string text;
  std::string marks;  // one for each byte: 1 from a user, else 0

  MarkedText() = default;
  explicit MarkedText(absl::string_view s, bool from_user = false)
      : text(s), marks(s.size(), from_user ? 1 : 0) {}

  size_t size() const { return text.size(); }
  bool AnyFromUser() const { return marks.find('\1') != std::string::npos; }
  void Append(const MarkedText& other) {
    text += other.text;
    marks += other.marks;
  }
  void Append(absl::string_view s, bool from_user = false) {
    text.append(s.data(), s.size());
    marks.append(s.size(), from_user ? 1 : 0);
  }
  MarkedText Substr(size_t begin, size_t end) const {
    MarkedText out;
    out.text = text.substr(begin, end - begin);
    out.marks = marks.substr(begin, end - begin);
    return out;
  }
};

// An immutable value; copies share what they hold. Only a namespace changes.
class TemplateValue {
 public:
  enum class Kind {
    kUndefined,
    kNone,
    kBool,
    kInt,
    kFloat,
    kString,
    kList,
    kMap,
    kNamespace,
    kLoop,
    kMacro,
    kFunction,
  };
  using List = std::vector<TemplateValue>;
  using Map = std::vector<std::pair<MarkedText, TemplateValue>>;
  // What `loop` shows in one pass of a for.
  struct Loop {
    std::shared_ptr<const List> items;
    int64_t index0 = 0;
  };

  TemplateValue() = default;  // undefined, without a name
  static TemplateValue Undefined(absl::string_view name);
  static TemplateValue None();
  static TemplateValue Bool(bool b);
  static TemplateValue Int(int64_t i);
  static TemplateValue Float(double d);
  static TemplateValue String(MarkedText text);
  static TemplateValue String(absl::string_view text) {
    return String(MarkedText(text));
  }
  static TemplateValue MakeList(List items, bool tuple = false);
  static TemplateValue MakeMap(Map map);
  static TemplateValue Namespace(Map map);
  static TemplateValue MakeLoop(Loop loop);
  // The same loop in another pass.
  TemplateValue AtPass(int64_t index0) const;
  static TemplateValue Macro(const TemplateStatement* macro);
  static TemplateValue Function(absl::string_view name);

  Kind kind() const { return kind_; }
  bool is_undefined() const { return kind_ == Kind::kUndefined; }
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_list() const { return kind_ == Kind::kList; }
  bool is_map() const { return kind_ == Kind::kMap; }
  // A bool counts as 0 or 1, as in Python.
  bool is_integral() const {
    return kind_ == Kind::kInt || kind_ == Kind::kBool;
  }
  bool is_number() const { return is_integral() || kind_ == Kind::kFloat; }
  bool is_tuple() const { return tuple_; }

  // Levels of containers in each other, and roughly how much work it is to walk
  // all of them (what is shared counts each time). TemplateMeter bounds both.
  int depth() const { return depth_; }
  uint64_t weight() const { return weight_; }
  // Whether a namespace is reachable from here.
  bool holds_namespace() const { return holds_namespace_; }

  // Unchecked: meaningful for the kind they name.
  int64_t as_int() const { return int_; }
  double as_double() const {
    return kind_ == Kind::kFloat ? float_ : static_cast<double>(int_);
  }
  const MarkedText& as_string() const { return Data<MarkedText>(); }
  const List& as_list() const { return Data<List>(); }
  const Map& as_map() const { return Data<Map>(); }
  const Loop& as_loop() const { return Data<Loop>(); }
  const TemplateStatement* as_macro() const { return macro_; }
  // Of an undefined value or a function.
  absl::string_view name() const {
    return data_ ? absl::string_view(Data<MarkedText>().text) : "";
  }

  // Entry of a map or namespace; null when absent.
  const TemplateValue* Find(absl::string_view key) const;
  // Sets an entry of a namespace, for every copy of it.
  void SetAttribute(absl::string_view key, TemplateValue v) const;

  bool Truthy() const;
  // "a string", "none", ...: for error texts.
  absl::string_view KindName() const;

 private:
  template <typename T>
  const T& Data() const {
    return *static_cast<const T*>(data_.get());
  }
  void Account(const TemplateValue& child);

  Kind kind_ = Kind::kUndefined;
  bool tuple_ = false;
  bool holds_namespace_ = false;
  int depth_ = 1;
  uint64_t weight_ = 1;
  union {
    int64_t int_ = 0;
    double float_;
    const TemplateStatement* macro_;
  };
  // MarkedText, List, Map or Loop, as the kind says.
  std::shared_ptr<void> data_;
};

bool operator==(const TemplateValue& a, const TemplateValue& b);

// Python's str(): what an output tag writes.
MarkedText ToText(const TemplateValue& v);
// Python's repr(), as inside a printed list.
MarkedText ToRepr(const TemplateValue& v);

struct TemplateJsonOptions {
  int indent = -1;  // none
  bool ascii = false;
  bool sort_keys = false;
  std::string item_separator;  // empty: Python's default
  std::string key_separator;
};
// Python's json.dumps. False when the value holds something without a JSON
// form.
bool ToJsonText(const TemplateValue& v, const TemplateJsonOptions& options,
                MarkedText* out);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_TEMPLATE_VALUE_H_
