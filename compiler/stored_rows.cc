#include "compiler/stored_rows.h"

#include <vector>

#include "compiler/emit_weight.h"
#include "schema/base/dtype.h"
#include "schema/base/status_macros.h"

namespace deepslice {

absl::Status StoredRows::Read(int64_t begin, int64_t end,
                              absl::Span<float> out) {
  DS_RETURN_IF_ERROR(reader_.ReadRows(begin, end, out));
  switch (weight_.encoding) {
    case Encoding::kF32:
      break;
    case Encoding::kF16:
      for (float& v : out) v = F16ToFloat(FloatToF16(v));
      break;
    case Encoding::kBF16:
      for (float& v : out) v = BF16ToFloat(FloatToBF16(v));
      break;
    case Encoding::kI8Row: {
      std::vector<int8_t> q(cols());
      for (int64_t r = 0; r < end - begin; ++r) {
        float* row = out.data() + r * cols();
        const float scale = RowScale(row, cols());
        QuantizeRow(row, cols(), scale, q.data());
        for (int64_t i = 0; i < cols(); ++i) row[i] = q[i] * scale;
      }
      break;
    }
    default:
      return absl::UnimplementedError("rows of this encoding");
  }
  return absl::OkStatus();
}

}  // namespace deepslice
