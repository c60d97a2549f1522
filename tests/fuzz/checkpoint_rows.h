// Reads what a checkpoint says it holds.
#ifndef DEEPSLICE_TESTS_FUZZ_CHECKPOINT_ROWS_H_
#define DEEPSLICE_TESTS_FUZZ_CHECKPOINT_ROWS_H_

#include <algorithm>
#include <cstring>
#include <vector>

#include "compiler/checkpoint/checkpoint.h"
#include "compiler/checkpoint/dequantize.h"
#include "compiler/checkpoint/raw_runs.h"
#include "tests/fuzz/fuzz_target.h"

namespace deepslice {

// Every small tensor whole, of large ones the last rows.
inline void ReadAllRows(const Checkpoint& checkpoint) {
  for (const TensorInfo& t : checkpoint.tensors()) {
    FUZZ_CHECK(checkpoint.Find(t.name) == &t);
    // ReadRows checks the places of parts; what is unreadable has none.
    if (t.parts.empty() && t.unreadable.empty()) {
      FUZZ_CHECK(t.bytes <= checkpoint.file_bytes(t.file).size());
      FUZZ_CHECK(t.offset <= checkpoint.file_bytes(t.file).size() - t.bytes);
    }
    const int64_t columns = t.row_elements();
    if (columns == 0 || t.rows() == 0) continue;
    const int64_t rows = std::min<int64_t>(t.rows(), 4096 / columns);
    std::vector<float> out(rows * columns);
    const absl::Status status =
        checkpoint.ReadRows(t, t.rows() - rows, t.rows(), absl::MakeSpan(out));
    if (!status.ok()) CheckRefusal(status);
    FUZZ_CHECK(checkpoint.RawRows(t, t.rows() - rows, t.rows()).size() <=
               t.bytes);
    if (!status.ok()) continue;
    const auto runs = RawRuns::Of(checkpoint, t, false);
    if (!runs.has_value()) continue;
    std::vector<float> same(rows * columns);
    float* to = same.data();
    FUZZ_CHECK(runs->ForEach(t.rows() - rows, t.rows(), 0, columns,
                             [&](const uint8_t* elements, int64_t count) {
                               WidenToFloat(t.dtype, elements, count, to);
                               to += count;
                               return absl::OkStatus();
                             })
                   .ok());
    FUZZ_CHECK(std::memcmp(out.data(), same.data(), out.size() * 4) == 0);
  }
}

}  // namespace deepslice

#endif  // DEEPSLICE_TESTS_FUZZ_CHECKPOINT_ROWS_H_
