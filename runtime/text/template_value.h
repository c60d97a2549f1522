// Values of the template language, and texts that remember who wrote them.
#ifndef DEEPSLICE_RUNTIME_TEXT_TEMPLATE_VALUE_H_
#define DEEPSLICE_RUNTIME_TEXT_TEMPLATE_VALUE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
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

class TemplateMeter;
class TemplateLoop;

// An immutable value; copies share what they hold. Only a namespace changes,
// and what is walked over once: an iterator, a loop, a joiner, a cycler.
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
    kMethod,    // of a value: x.items without a call
    kIterator,  // what filters like map give: items that come once
    kState,     // a joiner or a cycler
  };
  // Python's types that hold items in a row.
  // kGroup is the tuple of two that groupby gives.
  enum class Shape { kList, kTuple, kGroup, kRange, kKeys, kValues, kItems };
  using List = std::vector<TemplateValue>;
  using Map = std::vector<std::pair<MarkedText, TemplateValue>>;
  // Gives the next item, nullopt behind the last one.
  using Source = std::function<absl::StatusOr<std::optional<TemplateValue>>(
      TemplateMeter&)>;
  struct Method {
    std::string name;
    // One value, but its type is not complete here.
    std::shared_ptr<const TemplateValue> subject;
  };
  // Of joiner(separator) and cycler(items).
  struct State {
    std::string name;
    std::shared_ptr<const List> items;
    size_t at = 0;
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
  // A string that `safe` or `escape` made: others are escaped for HTML where
  // they are added to it.
  static TemplateValue Markup(MarkedText text);
  static TemplateValue MakeList(List items, Shape shape = Shape::kList);
  static TemplateValue MakeMap(Map map);
  static TemplateValue Namespace(Map map);
  static TemplateValue MakeLoop(std::shared_ptr<TemplateLoop> loop);
  // The macro, or (caller) the body of a call block.
  static TemplateValue Macro(const TemplateStatement* macro);
  static TemplateValue Function(absl::string_view name);
  static TemplateValue MakeMethod(TemplateValue subject,
                                  absl::string_view name);
  // `over` is what `source` walks over: it bounds the iterator's depth.
  static TemplateValue Iterator(Source source, const TemplateValue& over);
  static TemplateValue MakeState(absl::string_view name, List items);

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
  Shape shape() const { return shape_; }
  bool is_tuple() const {
    return shape_ == Shape::kTuple || shape_ == Shape::kGroup;
  }
  bool is_markup() const { return markup_; }

  // Levels of containers in each other, and roughly how much work it is to walk
  // all of them (what is shared counts each time). TemplateMeter bounds both.
  int depth() const { return depth_; }
  uint64_t weight() const { return weight_; }
  // Whether something that changes and holds values is reachable from here: in
  // a namespace it could come to hold itself, and would never be freed.
  bool holds_mutable() const { return holds_mutable_; }
  // Whether str() of it is the same in every Python process: not of iterators,
  // functions and methods, whose text is an address.
  bool has_text() const { return has_text_; }

  // Unchecked: meaningful for the kind they name.
  int64_t as_int() const { return int_; }
  double as_double() const {
    return kind_ == Kind::kFloat ? float_ : static_cast<double>(int_);
  }
  const MarkedText& as_string() const { return Data<MarkedText>(); }
  const List& as_list() const { return Data<List>(); }
  const Map& as_map() const { return Data<Map>(); }
  TemplateLoop& as_loop() const {
    return *static_cast<TemplateLoop*>(data_.get());
  }
  const TemplateStatement* as_macro() const { return macro_; }
  const Method& as_method() const { return Data<Method>(); }
  const Source& as_iterator() const { return Data<Source>(); }
  State& as_state() const { return *static_cast<State*>(data_.get()); }
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
  Shape shape_ = Shape::kList;
  bool markup_ = false;
  bool holds_mutable_ = false;
  bool has_text_ = true;
  int depth_ = 1;
  uint64_t weight_ = 1;
  union {
    int64_t int_ = 0;
    double float_;
    const TemplateStatement* macro_;
  };
  // MarkedText, List, Map, TemplateLoop, ..., as the kind says.
  std::shared_ptr<void> data_;
};

bool operator==(const TemplateValue& a, const TemplateValue& b);

// Walks over a value's items as Python's iter() does: those of a list in
// order, keys of a mapping, characters of a string, nothing of undefined, what
// is left of an iterator.
class TemplateCursor {
 public:
  explicit TemplateCursor(TemplateValue over) : over_(std::move(over)) {}
  // nullopt behind the last item; InvalidArgument for what has no items.
  absl::StatusOr<std::optional<TemplateValue>> Next(TemplateMeter& meter);

 private:
  TemplateValue over_;
  size_t at_ = 0;
};

// The length that Python's len() gives; nullopt for what has none.
std::optional<int64_t> TemplateLength(const TemplateValue& v);

// Python's str(): what an output tag writes.
MarkedText ToText(const TemplateValue& v);
// Python's repr(), as inside a printed list.
MarkedText ToRepr(const TemplateValue& v);

struct TemplateJsonOptions {
  std::optional<std::string> indent;  // of a level
  bool ascii = false;
  bool sort_keys = false;
  std::optional<std::string> item_separator;  // else Python's default
  std::optional<std::string> key_separator;
};
// Python's json.dumps. False when the value holds something without a JSON
// form.
bool ToJsonText(const TemplateValue& v, const TemplateJsonOptions& options,
                MarkedText* out);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_TEMPLATE_VALUE_H_
