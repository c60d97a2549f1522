// What `loop` is inside a for of the template language.
#ifndef DEEPSLICE_RUNTIME_TEXT_TEMPLATE_LOOP_H_
#define DEEPSLICE_RUNTIME_TEXT_TEMPLATE_LOOP_H_

#include <deque>
#include <functional>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/text/template_functions.h"
#include "runtime/text/template_value.h"

namespace deepslice {

// The state of one for. Items are asked for when they are needed, as jinja2
// does: the condition of a for may read what its body has set.
class TemplateLoop {
 public:
  using Next = std::function<absl::StatusOr<std::optional<TemplateValue>>()>;

  // `length`: of what is walked over, where Python's len() has one.
  TemplateLoop(Next next, std::optional<int64_t> length, int64_t depth0)
      : next_(std::move(next)), length_(length), depth0_(depth0) {}

  // Goes to the next pass; nullopt behind the last one.
  absl::StatusOr<std::optional<TemplateValue>> Advance();
  // The same where nothing names the loop.
  absl::StatusOr<std::optional<TemplateValue>> AdvanceBlindly() {
    return Ask();
  }
  // Nothing is asked for any more: what `next` refers to may go.
  void End() { next_ = nullptr; }
  bool ended() const { return next_ == nullptr; }
  int64_t depth0() const { return depth0_; }

  // loop.index, loop.last, ...; undefined for other names.
  absl::StatusOr<TemplateValue> Attribute(absl::string_view name);
  // loop.cycle(...) or loop.changed(...); NotFound for other names.
  absl::StatusOr<TemplateValue> Call(absl::string_view name,
                                     const TemplateArgs& args,
                                     TemplateMeter& meter);

 private:
  using Item = std::optional<TemplateValue>;
  absl::StatusOr<Item> Ask();
  absl::StatusOr<int64_t> Length();
  absl::StatusOr<Item> Peek();

  Next next_;
  std::deque<TemplateValue> ahead_;  // asked for, not yet walked over
  std::optional<int64_t> length_;
  int64_t depth0_;
  int64_t index0_ = -1;
  TemplateValue before_, current_;
  std::optional<TemplateValue::List> changed_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_TEMPLATE_LOOP_H_
