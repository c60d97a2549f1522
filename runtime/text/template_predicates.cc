// Tests of the template language: what may follow "is".
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/text/template_functions.h"
#include "runtime/text/template_text.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

using Value = TemplateValue;
using Kind = TemplateValue::Kind;
using Shape = TemplateValue::Shape;

// Tests that need no argument; nullopt for other names.
std::optional<bool> Unary(absl::string_view name, const Value& v) {
  const Kind k = v.kind();
  if (name == "defined") return k != Kind::kUndefined;
  if (name == "undefined") return k == Kind::kUndefined;
  if (name == "none") return k == Kind::kNone;
  if (name == "string") return k == Kind::kString;
  if (name == "mapping") return k == Kind::kMap;
  const bool row = k == Kind::kString || k == Kind::kList || k == Kind::kMap ||
                   k == Kind::kUndefined;
  if (name == "iterable") {
    return row || k == Kind::kIterator || k == Kind::kLoop;
  }
  if (name == "sequence") {
    return row && !(k == Kind::kList && v.shape() >= Shape::kKeys);
  }
  if (name == "number") return v.is_number();
  if (name == "integer") return k == Kind::kInt;
  if (name == "float") return k == Kind::kFloat;
  if (name == "boolean") return k == Kind::kBool;
  if (name == "true") return k == Kind::kBool && v.as_int() == 1;
  if (name == "false") return k == Kind::kBool && v.as_int() == 0;
  if (name == "escaped") return v.is_markup();
  if (name == "callable") {
    return k == Kind::kMacro || k == Kind::kFunction || k == Kind::kMethod ||
           k == Kind::kLoop || k == Kind::kUndefined ||
           (k == Kind::kState && v.as_state().name == "joiner");
  }
  return std::nullopt;
}

// Tests with an argument that are comparisons.
absl::string_view Comparison(absl::string_view name) {
  constexpr std::pair<absl::string_view, absl::string_view> kNames[] = {
      {"eq", "=="},         {"equalto", "=="}, {"==", "=="}, {"ne", "!="},
      {"!=", "!="},         {"lt", "<"},       {"<", "<"},   {"lessthan", "<"},
      {"le", "<="},         {"<=", "<="},      {"gt", ">"},  {">", ">"},
      {"greaterthan", ">"}, {"ge", ">="},      {">=", ">="}, {"in", "in"}};
  for (const auto& [key, op] : kNames) {
    if (key == name) return op;
  }
  return "";
}

}  // namespace

bool IsTemplateTest(absl::string_view name) {
  if (Unary(name, Value()) || !Comparison(name).empty()) return true;
  for (absl::string_view known : {"odd", "even", "divisibleby", "sameas",
                                  "lower", "upper", "filter", "test"}) {
    if (name == known) return true;
  }
  return false;
}

absl::StatusOr<bool> ApplyTemplateTest(absl::string_view name,
                                       const TemplateValue& subject,
                                       const TemplateArgs& args,
                                       TemplateMeter& meter) {
  DS_RETURN_IF_ERROR(meter.Charge(1));
  if (!IsTemplateTest(name)) {
    return absl::UnimplementedError(
        absl::StrCat("test \"", name, "\" is not supported"));
  }
  const bool binary =
      !Comparison(name).empty() || name == "divisibleby" || name == "sameas";
  DS_RETURN_IF_ERROR(CheckTemplateArgs(absl::StrCat("test \"", name, "\""),
                                       name == "divisibleby" ? "num!"
                                       : name == "in"        ? "seq!"
                                       : binary              ? "other!"
                                                             : "",
                                       args));
  if (const auto r = Unary(name, subject)) return *r;
  if (name == "lower" || name == "upper") {
    DS_ASSIGN_OR_RETURN(const MarkedText text, meter.Print(subject));
    return *TextPredicate(text.text, name == "lower" ? "islower" : "isupper");
  }
  if (name == "filter" || name == "test") {
    if (!IsTemplateKey(subject)) {
      return absl::InvalidArgumentError(
          absl::StrCat(subject.KindName(), " can't be a key"));
    }
    if (!subject.is_string()) return false;
    const absl::string_view known = subject.as_string().text;
    return name == "filter" ? IsTemplateFilter(known) : IsTemplateTest(known);
  }
  if (name == "odd" || name == "even") {
    DS_ASSIGN_OR_RETURN(const Value rest,
                        TemplateBinary("%", subject, Value::Int(2), meter));
    return rest == Value::Int(name == "odd");
  }
  const Value& other =
      args.positional.empty() ? args.named[0].second : args.positional[0];
  if (name == "divisibleby") {
    DS_ASSIGN_OR_RETURN(const Value rest,
                        TemplateBinary("%", subject, other, meter));
    return rest == Value::Int(0);
  }
  if (name == "sameas") {
    return subject.kind() == other.kind() && subject == other &&
           (!subject.is_undefined() || subject.name() == other.name());
  }
  return TemplateCompare(Comparison(name), subject, other, meter);
}

}  // namespace deepslice
