#include "runtime/text/template_loop.h"

#include <utility>

#include "schema/base/status_macros.h"

namespace deepslice {

using Value = TemplateValue;

absl::StatusOr<std::optional<TemplateValue>> TemplateLoop::Ask() {
  if (next_ == nullptr) return std::nullopt;
  return next_();
}

absl::StatusOr<std::optional<TemplateValue>> TemplateLoop::Peek() {
  if (ahead_.empty()) {
    DS_ASSIGN_OR_RETURN(Item item, Ask());
    if (!item) return std::nullopt;
    ahead_.push_back(*std::move(item));
  }
  return ahead_.front();
}

absl::StatusOr<std::optional<TemplateValue>> TemplateLoop::Advance() {
  DS_ASSIGN_OR_RETURN(Item item, Peek());
  if (!item) return std::nullopt;
  ahead_.pop_front();
  ++index0_;
  before_ = std::exchange(current_, *item);
  return item;
}

absl::StatusOr<int64_t> TemplateLoop::Length() {
  if (!length_) {
    while (true) {
      DS_ASSIGN_OR_RETURN(Item item, Ask());
      if (!item) break;
      ahead_.push_back(*std::move(item));
    }
    length_ = index0_ + 1 + static_cast<int64_t>(ahead_.size());
  }
  return *length_;
}

absl::StatusOr<TemplateValue> TemplateLoop::Attribute(absl::string_view name) {
  if (name == "index") return Value::Int(index0_ + 1);
  if (name == "index0") return Value::Int(index0_);
  if (name == "first") return Value::Bool(index0_ == 0);
  if (name == "depth") return Value::Int(depth0_ + 1);
  if (name == "depth0") return Value::Int(depth0_);
  if (name == "length" || name == "revindex" || name == "revindex0") {
    DS_ASSIGN_OR_RETURN(const int64_t size, Length());
    if (name == "length") return Value::Int(size);
    return Value::Int(size - index0_ - (name == "revindex0"));
  }
  if (name == "previtem") {
    return index0_ > 0 ? before_ : Value::Undefined("loop.previtem");
  }
  if (name == "last" || name == "nextitem") {
    DS_ASSIGN_OR_RETURN(const Item item, Peek());
    if (name == "last") return Value::Bool(!item);
    return item ? *item : Value::Undefined("loop.nextitem");
  }
  return Value::Undefined(name);
}

absl::StatusOr<TemplateValue> TemplateLoop::Call(absl::string_view name,
                                                 const TemplateArgs& args,
                                                 TemplateMeter& meter) {
  if (!args.named.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("loop.", name, " takes no arguments by name"));
  }
  if (name == "cycle") {
    if (args.positional.empty()) {
      return absl::InvalidArgumentError("loop.cycle needs an argument");
    }
    return args
        .positional[static_cast<size_t>(index0_) % args.positional.size()];
  }
  if (name == "changed") {
    for (const Value& v : args.positional) {
      if (v.holds_mutable()) {
        return absl::UnimplementedError(absl::StrCat(
            "loop.changed of ", v.KindName(), " is not supported"));
      }
      DS_RETURN_IF_ERROR(meter.Charge(v.weight() / 16));
    }
    const bool changed = !changed_ || !(*changed_ == args.positional);
    if (changed) changed_ = args.positional;
    return Value::Bool(changed);
  }
  return absl::NotFoundError("");
}

}  // namespace deepslice
