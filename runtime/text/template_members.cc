// Attributes of values of the template language: a mapping's entries, and the
// names that Python's own types have.
#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/text/template_functions.h"
#include "runtime/text/template_loop.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

using Value = TemplateValue;
using Kind = TemplateValue::Kind;
using Shape = TemplateValue::Shape;

bool Holds(absl::string_view words, absl::string_view word) {
  const std::vector<absl::string_view> parts = absl::StrSplit(words, ' ');
  return std::find(parts.begin(), parts.end(), word) != parts.end();
}

// Methods of Python's type that a sandboxed template reaches.
absl::string_view Methods(const Value& v) {
  switch (v.kind()) {
    case Kind::kString:
      return "capitalize casefold center count encode endswith expandtabs find "
             "format format_map index isalnum isalpha isascii isdecimal "
             "isdigit isidentifier islower isnumeric isprintable isspace "
             "istitle isupper join ljust lower lstrip maketrans partition "
             "removeprefix removesuffix replace rfind rindex rjust rpartition "
             "rsplit rstrip split splitlines startswith strip swapcase title "
             "translate upper zfill";
    case Kind::kMap:
      return "copy fromkeys get items keys values";
    case Kind::kList:
      switch (v.shape()) {
        case Shape::kList:
          return "copy count index";
        case Shape::kTuple:
        case Shape::kGroup:
          return "count index";
        case Shape::kRange:
          return "count index start step stop";
        case Shape::kKeys:
        case Shape::kItems:
          return "isdisjoint mapping";
        case Shape::kValues:
          return "mapping";
      }
      return "";
    case Kind::kBool:
    case Kind::kInt:
      return "as_integer_ratio bit_count bit_length conjugate denominator "
             "from_bytes imag numerator real to_bytes";
    case Kind::kFloat:
      return "as_integer_ratio conjugate fromhex hex imag is_integer real";
    case Kind::kLoop:
      return "changed cycle";
    case Kind::kState:
      return v.as_state().name == "cycler" ? "next reset" : "";
    case Kind::kMacro:
      return "arguments caller catch_kwargs catch_varargs explicit_caller name";
    case Kind::kIterator:
      return "close send throw gi_code gi_frame gi_running gi_yieldfrom";
    default:
      return "";
  }
}

// Methods that would change a value: a sandbox makes them undefined.
bool IsMutating(const Value& v, absl::string_view name) {
  if (v.is_map()) {
    return Holds("clear pop popitem setdefault update", name);
  }
  return v.is_list() && v.shape() == Shape::kList &&
         Holds("append clear extend insert pop remove reverse sort", name);
}

}  // namespace

bool IsTemplateMethod(const TemplateValue& v, absl::string_view name) {
  return Holds(Methods(v), name);
}

absl::StatusOr<TemplateValue> TemplateAttribute(const TemplateValue& v,
                                                absl::string_view name) {
  if (v.is_undefined()) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", v.name(), "\" is undefined"));
  }
  if (absl::StartsWith(name, "_") && !v.is_map()) {
    return Value::Undefined(name);
  }
  if (IsTemplateMethod(v, name)) return Value::MakeMethod(v, name);
  if (v.kind() == Kind::kLoop) return v.as_loop().Attribute(name);
  if (v.kind() == Kind::kState && v.as_state().name == "cycler" &&
      name == "current") {
    return (*v.as_state().items)[v.as_state().at];
  }
  if (v.is_list() && v.shape() == Shape::kGroup) {
    if (name == "grouper") return v.as_list()[0];
    if (name == "list") return v.as_list()[1];
  }
  if (IsMutating(v, name)) return Value::Undefined(name);
  if (const Value* found = v.Find(name)) return *found;
  return Value::Undefined(name);
}

absl::StatusOr<TemplateValue> TemplateMember(const TemplateValue& v,
                                             absl::string_view name) {
  if (v.is_map()) {
    if (const Value* found = v.Find(name)) return *found;
  }
  return TemplateAttribute(v, name);
}

}  // namespace deepslice
