// Tests of the template language: what may follow "is".
#include "absl/strings/str_cat.h"
#include "runtime/text/template_functions.h"
#include "runtime/text/template_text.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

using Value = TemplateValue;
using Kind = TemplateValue::Kind;

// Tests that need no argument; nullopt for other names.
std::optional<bool> Unary(absl::string_view name, const Value& v) {
  const Kind k = v.kind();
  if (name == "defined") return k != Kind::kUndefined;
  if (name == "undefined") return k == Kind::kUndefined;
  if (name == "none") return k == Kind::kNone;
  if (name == "string") return k == Kind::kString;
  if (name == "mapping") return k == Kind::kMap;
  if (name == "iterable" || name == "sequence") {
    return k == Kind::kString || k == Kind::kList || k == Kind::kMap ||
           k == Kind::kUndefined;
  }
  if (name == "number") return v.is_number();
  if (name == "integer") return k == Kind::kInt;
  if (name == "float") return k == Kind::kFloat;
  if (name == "boolean") return k == Kind::kBool;
  if (name == "true") return k == Kind::kBool && v.as_int() == 1;
  if (name == "false") return k == Kind::kBool && v.as_int() == 0;
  if (name == "callable") return k == Kind::kMacro || k == Kind::kFunction;
  return std::nullopt;
}

// Tests with an argument that are comparisons.
absl::string_view Comparison(absl::string_view name) {
  constexpr std::pair<absl::string_view, absl::string_view> kNames[] = {
      {"eq", "=="},      {"equalto", "=="}, {"ne", "!="}, {"lt", "<"},
      {"lessthan", "<"}, {"le", "<="},      {"gt", ">"},  {"greaterthan", ">"},
      {"ge", ">="},      {"in", "in"}};
  for (const auto& [key, op] : kNames) {
    if (key == name) return op;
  }
  return "";
}

}  // namespace

bool IsTemplateTest(absl::string_view name) {
  return Unary(name, Value()).has_value() || !Comparison(name).empty() ||
         name == "odd" || name == "even" || name == "divisibleby" ||
         name == "sameas" || name == "lower" || name == "upper";
}

absl::StatusOr<bool> ApplyTemplateTest(absl::string_view name,
                                       const TemplateValue& subject,
                                       const TemplateArgs& args,
                                       TemplateMeter& meter) {
  DS_RETURN_IF_ERROR(meter.Charge(1));
  if (const auto r = Unary(name, subject)) return *r;
  if (name == "lower" || name == "upper") {
    DS_ASSIGN_OR_RETURN(const MarkedText text, meter.Print(subject));
    const auto to = name == "lower" ? TextCase::kLower : TextCase::kUpper;
    const auto other = name == "lower" ? TextCase::kUpper : TextCase::kLower;
    return ChangeCase(text, to).text == text.text &&
           ChangeCase(text, other).text != text.text;
  }
  if (name == "odd" || name == "even") {
    if (!subject.is_integral()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "test \"", name, "\" needs an integer, got ", subject.KindName()));
    }
    return (subject.as_int() % 2 != 0) == (name == "odd");
  }
  const Value* other = args.Get(0, "other");
  if (!other) {
    return absl::InvalidArgumentError(
        absl::StrCat("test \"", name, "\" needs an argument"));
  }
  if (name == "divisibleby") {
    DS_ASSIGN_OR_RETURN(const Value rest,
                        TemplateBinary("%", subject, *other, meter));
    return rest == Value::Int(0);
  }
  if (name == "sameas") {
    return subject.kind() == other->kind() && subject == *other;
  }
  const absl::string_view op = Comparison(name);
  if (op.empty()) {
    return absl::UnimplementedError(
        absl::StrCat("test \"", name, "\" is not supported"));
  }
  return TemplateCompare(op, subject, *other, meter);
}

}  // namespace deepslice
