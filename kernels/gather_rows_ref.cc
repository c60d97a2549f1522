// Truth for GatherRows: the rows whose logits are wanted.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/ref_util.h"
#include "schema/base/status_macros.h"

namespace deepslice {

absl::Status RefGatherRows(const RefCall& call, RefTensor* out) {
  const RefTensor* x = call.maybe(operand::GatherRows::x);
  const RefTensor* rows = call.maybe(operand::GatherRows::rows);
  DS_RETURN_IF_ERROR(CheckRefShape("gather_rows", "x", x, {-1, -1}));
  DS_RETURN_IF_ERROR(CheckRefShape("gather_rows", "rows", rows, {-1}));
  const int64_t cols = x->cols();
  ResizeRef({rows->rows(), cols}, out);
  for (int64_t r = 0; r < rows->rows(); ++r) {
    const int64_t from = static_cast<int64_t>(rows->data[r]);
    if (from < 0 || from >= x->rows()) {
      return absl::InvalidArgumentError(
          absl::StrCat("gather_rows: rows[", r, "]: ", from, "; x has rows 0..",
                       x->rows() - 1));
    }
    std::copy_n(x->row(from), cols, out->data.data() + r * cols);
  }
  return absl::OkStatus();
}

}  // namespace deepslice
