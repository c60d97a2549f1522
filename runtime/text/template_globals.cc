// Functions that every template may call: range, namespace, dict and
// raise_exception.
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/text/template_functions.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

using Value = TemplateValue;

absl::StatusOr<Value> Range(const TemplateArgs& args, TemplateMeter& meter) {
  int64_t bounds[3] = {0, 0, 1};
  const size_t n = args.positional.size();
  if (n < 1 || n > 3) {
    return absl::InvalidArgumentError("range() takes 1 to 3 integers");
  }
  for (size_t i = 0; i < n; ++i) {
    if (!args.positional[i].is_integral()) {
      return absl::InvalidArgumentError("range() takes integers");
    }
    bounds[n == 1 ? 1 : i] = args.positional[i].as_int();
  }
  if (bounds[2] == 0) return absl::InvalidArgumentError("range() of step 0");
  Value::List out;
  for (int64_t i = bounds[0]; bounds[2] > 0 ? i < bounds[1] : i > bounds[1];) {
    DS_RETURN_IF_ERROR(meter.Charge(1));
    out.push_back(Value::Int(i));
    if (__builtin_add_overflow(i, bounds[2], &i)) break;
  }
  return meter.List(std::move(out));
}

// dict() and namespace(): maps by position, then names.
absl::StatusOr<Value> MakeMapping(absl::string_view name,
                                  const TemplateArgs& args,
                                  TemplateMeter& meter) {
  Value::Map map;
  for (const Value& v : args.positional) {
    if (!v.is_map()) {
      return absl::UnimplementedError(
          absl::StrCat(name, "() of ", v.KindName(), " is not supported"));
    }
    map = v.as_map();
  }
  for (const auto& [key, value] : args.named) {
    map.emplace_back(MarkedText(key), value);
  }
  if (name == "dict") return meter.Map(std::move(map));
  for (const auto& entry : map) {
    // It could come to hold itself, and would never be freed.
    if (entry.second.holds_namespace()) {
      return absl::UnimplementedError(
          "a namespace inside a namespace is not supported");
    }
  }
  return meter.Checked(Value::Namespace(std::move(map)));
}

}  // namespace

absl::StatusOr<TemplateValue> CallTemplateFunction(absl::string_view name,
                                                   const TemplateArgs& args,
                                                   TemplateMeter& meter) {
  if (name == "raise_exception") {
    const Value* message = args.Get(0, "message");
    return absl::FailedPreconditionError(message ? ToText(*message).text
                                                 : std::string());
  }
  if (name == "range") return Range(args, meter);
  return MakeMapping(name, args, meter);
}

}  // namespace deepslice
