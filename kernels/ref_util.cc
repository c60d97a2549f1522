#include "kernels/ref_util.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace deepslice {

std::string RefShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

absl::Status CheckRefShape(absl::string_view op, absl::string_view operand,
                           const RefTensor* t,
                           const std::vector<int64_t>& want) {
  if (t == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(op, ": ", operand, ": absent; this operand is needed"));
  }
  bool same = t->shape.size() == want.size();
  int64_t count = 1;
  for (size_t i = 0; same && i < want.size(); ++i) {
    same = t->shape[i] >= 0 && (want[i] < 0 || t->shape[i] == want[i]);
    count *= t->shape[i];
  }
  if (!same) {
    std::string allowed =
        absl::StrCat("[",
                     absl::StrJoin(want, ", ",
                                   [](std::string* s, int64_t d) {
                                     if (d < 0) {
                                       absl::StrAppend(s, "*");
                                     } else {
                                       absl::StrAppend(s, d);
                                     }
                                   }),
                     "]");
    return absl::InvalidArgumentError(
        absl::StrCat(op, ": ", operand, ": shape ", RefShapeText(t->shape),
                     "; must be ", allowed));
  }
  if (count != static_cast<int64_t>(t->data.size())) {
    return absl::InvalidArgumentError(absl::StrCat(
        op, ": ", operand, ": ", t->data.size(), " values; its shape ",
        RefShapeText(t->shape), " needs ", count));
  }
  return absl::OkStatus();
}

void ResizeRef(const std::vector<int64_t>& shape, RefTensor* out) {
  int64_t count = 1;
  for (int64_t d : shape) count *= d;
  out->shape = shape;
  out->data.assign(count, 0.0);
}

}  // namespace deepslice
