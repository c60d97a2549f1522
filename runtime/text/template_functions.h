// Filters, tests and methods of the template language.
#ifndef DEEPSLICE_RUNTIME_TEXT_TEMPLATE_FUNCTIONS_H_
#define DEEPSLICE_RUNTIME_TEXT_TEMPLATE_FUNCTIONS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "runtime/text/template_value.h"
#include "schema/base/limits.h"

namespace deepslice {

// Counts the work of one rendering against its bounds.
class TemplateMeter {
 public:
  absl::Status Charge(uint64_t steps) {
    steps_ += steps;
    if (steps_ <= static_cast<uint64_t>(limits::kTemplateSteps)) {
      return absl::OkStatus();
    }
    return absl::ResourceExhaustedError(
        "the chat template takes more than 1000000 steps; use another "
        "template or a shorter conversation");
  }
  // The value of a new text: long ones are many steps, too long ones refused.
  absl::StatusOr<TemplateValue> Text(MarkedText text);
  absl::Status ChargeText(size_t bytes);
  // Containers that are too deep or too heavy are refused.
  absl::StatusOr<TemplateValue> List(
      TemplateValue::List items,
      TemplateValue::Shape shape = TemplateValue::Shape::kList);
  absl::StatusOr<TemplateValue> Map(TemplateValue::Map map);
  absl::StatusOr<TemplateValue> Checked(TemplateValue container);
  // str(v), or repr(v).
  absl::StatusOr<MarkedText> Print(const TemplateValue& v, bool repr = false);

 private:
  uint64_t steps_ = 0;
};

struct TemplateArgs {
  std::vector<TemplateValue> positional;
  std::vector<std::pair<std::string, TemplateValue>> named;

  // By place, else by name; null when not given.
  const TemplateValue* Get(size_t index, absl::string_view name) const;
};

// InvalidArgument when the arguments do not suit a list of parameters (see
// TemplateFilter::parameters); `what` names the callee.
absl::Status CheckTemplateArgs(absl::string_view what,
                               absl::string_view parameters,
                               const TemplateArgs& args);

bool IsTemplateFilter(absl::string_view name);
bool IsTemplateTest(absl::string_view name);

// All: InvalidArgument when a value has a kind that Python would refuse;
// Unimplemented by name for what is outside the subset; without a line.
absl::StatusOr<TemplateValue> ApplyTemplateFilter(absl::string_view name,
                                                  const TemplateValue& subject,
                                                  const TemplateArgs& args,
                                                  TemplateMeter& meter);
absl::StatusOr<bool> ApplyTemplateTest(absl::string_view name,
                                       const TemplateValue& subject,
                                       const TemplateArgs& args,
                                       TemplateMeter& meter);
absl::StatusOr<TemplateValue> CallTemplateMethod(const TemplateValue& subject,
                                                 absl::string_view name,
                                                 const TemplateArgs& args,
                                                 TemplateMeter& meter);

// The names that templates can call without being given them.
inline constexpr absl::string_view kTemplateFunctions[] = {
    "range",  "namespace", "raise_exception", "dict",
    "cycler", "joiner",    "strftime_now"};
// One of these; raise_exception(x) is FailedPrecondition with x. `now` is what
// strftime_now tells.
absl::StatusOr<TemplateValue> CallTemplateFunction(absl::string_view name,
                                                   const TemplateArgs& args,
                                                   absl::Time now,
                                                   TemplateMeter& meter);

// v[index]: undefined when there is no such item.
absl::StatusOr<TemplateValue> TemplateIndex(const TemplateValue& v,
                                            const TemplateValue& index,
                                            TemplateMeter& meter);
// v[start:stop:step]; none stands for what is not given.
absl::StatusOr<TemplateValue> TemplateSlice(const TemplateValue& v,
                                            const TemplateValue& start,
                                            const TemplateValue& stop,
                                            const TemplateValue& step,
                                            TemplateMeter& meter);

// a op b for + - * / // % **; ~ joins texts.
absl::StatusOr<TemplateValue> TemplateBinary(absl::string_view op,
                                             const TemplateValue& a,
                                             const TemplateValue& b,
                                             TemplateMeter& meter);
// a op b for == != < <= > >= in "not in".
absl::StatusOr<bool> TemplateCompare(absl::string_view op,
                                     const TemplateValue& a,
                                     const TemplateValue& b,
                                     TemplateMeter& meter);
// All (remaining) items that a for walks over.
absl::StatusOr<TemplateValue::List> TemplateItems(const TemplateValue& v,
                                                  TemplateMeter& meter);
// str(v) with & < > ' " as HTML has them, unless it was made so before.
absl::StatusOr<TemplateValue> TemplateEscape(const TemplateValue& v,
                                             TemplateMeter& meter);
// Whether Python could hash it.
bool IsTemplateKey(const TemplateValue& v);

// Whether Python's type of v has a method (or other attribute) of this name
// that a sandboxed template reaches.
bool IsTemplateMethod(const TemplateValue& v, absl::string_view name);
// v.name: a method wins over a mapping's entry.
absl::StatusOr<TemplateValue> TemplateAttribute(const TemplateValue& v,
                                                absl::string_view name);
// v["name"]: a mapping's entry wins over a method.
absl::StatusOr<TemplateValue> TemplateMember(const TemplateValue& v,
                                             absl::string_view name);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_TEMPLATE_FUNCTIONS_H_
