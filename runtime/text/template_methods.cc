// Methods of values of the template language other than strings, and the call
// of any method.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/text/template_functions.h"
#include "runtime/text/template_loop.h"
#include "runtime/text/template_string_methods.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

using Value = TemplateValue;
using Kind = TemplateValue::Kind;
using Shape = TemplateValue::Shape;
using ValueOr = absl::StatusOr<TemplateValue>;

absl::Status Check(absl::string_view name, absl::string_view parameters,
                   const TemplateArgs& args) {
  // Python's own methods take arguments by place alone.
  if (!args.named.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("method \"", name, "\" takes no arguments by name"));
  }
  return CheckTemplateArgs(absl::StrCat("method \"", name, "\""), parameters,
                           args);
}

absl::Status Unknown(const Value& subject, absl::string_view name) {
  return absl::UnimplementedError(absl::StrCat(
      "method \"", name, "\" of ", subject.KindName(), " is not supported"));
}

ValueOr MapMethod(const Value& map, absl::string_view name,
                  const TemplateArgs& args, TemplateMeter& meter) {
  DS_RETURN_IF_ERROR(meter.Charge(map.as_map().size()));
  if (name == "get") {
    DS_RETURN_IF_ERROR(Check(name, "key!,default", args));
    const Value& key = args.positional[0];
    if (!IsTemplateKey(key)) {
      return absl::InvalidArgumentError(
          absl::StrCat(key.KindName(), " can't be a key"));
    }
    const Value* fallback = args.Get(1, "");
    const Value* found =
        key.is_string() ? map.Find(key.as_string().text) : nullptr;
    return found ? *found : fallback ? *fallback : Value::None();
  }
  if (name == "copy") {
    DS_RETURN_IF_ERROR(Check(name, "", args));
    return map;
  }
  if (name == "items" || name == "keys" || name == "values") {
    DS_RETURN_IF_ERROR(Check(name, "", args));
    Value::List out;
    for (const auto& [key, value] : map.as_map()) {
      const Value k = Value::String(key);
      out.push_back(name == "keys" ? k
                    : name == "values"
                        ? value
                        : Value::MakeList({k, value}, Shape::kTuple));
    }
    return meter.List(std::move(out), name == "keys"     ? Shape::kKeys
                                      : name == "values" ? Shape::kValues
                                                         : Shape::kItems);
  }
  return Unknown(map, name);
}

ValueOr ListMethod(const Value& subject, absl::string_view name,
                   const TemplateArgs& args, TemplateMeter& meter) {
  DS_RETURN_IF_ERROR(meter.Charge(subject.weight()));
  const auto& list = subject.as_list();
  if (name == "copy") {
    DS_RETURN_IF_ERROR(Check(name, "", args));
    return subject;
  }
  if (name == "count") {
    DS_RETURN_IF_ERROR(Check(name, "item!", args));
    return Value::Int(std::count(list.begin(), list.end(), args.positional[0]));
  }
  if (name == "index" && args.positional.size() == 1) {
    DS_RETURN_IF_ERROR(Check(name, "item!", args));
    const auto at = std::find(list.begin(), list.end(), args.positional[0]);
    if (at == list.end()) {
      return absl::InvalidArgumentError(
          "method \"index\" needs an item that is in the list");
    }
    return Value::Int(at - list.begin());
  }
  return Unknown(subject, name);
}

ValueOr StateMethod(Value::State& state, absl::string_view name,
                    const TemplateArgs& args) {
  DS_RETURN_IF_ERROR(Check(name, "", args));
  if (name == "reset") {
    state.at = 0;
    return Value::None();
  }
  const size_t at = state.at;
  state.at = (at + 1) % state.items->size();
  return (*state.items)[at];
}

}  // namespace

absl::StatusOr<TemplateValue> CallTemplateMethod(const TemplateValue& subject,
                                                 absl::string_view name,
                                                 const TemplateArgs& args,
                                                 TemplateMeter& meter) {
  DS_RETURN_IF_ERROR(meter.Charge(1));
  switch (subject.kind()) {
    case Kind::kString:
      return CallTemplateStringMethod(subject, name, args, meter);
    case Kind::kMap:
      return MapMethod(subject, name, args, meter);
    case Kind::kList:
      return ListMethod(subject, name, args, meter);
    case Kind::kLoop:
      return subject.as_loop().Call(name, args, meter);
    case Kind::kState:
      return StateMethod(subject.as_state(), name, args);
    case Kind::kFloat:
      if (name != "is_integer") break;
      DS_RETURN_IF_ERROR(Check(name, "", args));
      return Value::Bool(std::isfinite(subject.as_double()) &&
                         std::floor(subject.as_double()) ==
                             subject.as_double());
    default:
      break;
  }
  return Unknown(subject, name);
}

}  // namespace deepslice
