// Truth for Embed: rows of a table by id, zeros for another rank's rows.
#include <algorithm>

#include "kernels/ref_util.h"
#include "schema/base/status_macros.h"

namespace deepslice {

absl::Status RefEmbed(const RefCall& call, RefTensor* out) {
  const RefTensor* ids = call.maybe(operand::Embed::ids);
  const RefTensor* table = call.maybe(operand::Embed::table);
  DS_RETURN_IF_ERROR(CheckRefShape("embed", "ids", ids, {-1}));
  DS_RETURN_IF_ERROR(CheckRefShape("embed", "table", table, {-1, -1}));
  const int64_t begin = call.attrs[attr::Embed::begin].i;
  const int64_t cols = table->cols();
  ResizeRef({ids->rows(), cols}, out);
  for (int64_t t = 0; t < ids->rows(); ++t) {
    const int64_t row = static_cast<int64_t>(ids->data[t]) - begin;
    if (row < 0 || row >= table->rows()) continue;
    std::copy_n(table->row(row), cols, out->data.data() + t * cols);
  }
  return absl::OkStatus();
}

}  // namespace deepslice
