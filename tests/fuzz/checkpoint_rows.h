// Reads what a checkpoint says it holds.
#ifndef DEEPSLICE_TESTS_FUZZ_CHECKPOINT_ROWS_H_
#define DEEPSLICE_TESTS_FUZZ_CHECKPOINT_ROWS_H_

#include <algorithm>
#include <vector>

#include "compiler/checkpoint/checkpoint.h"
#include "tests/fuzz/fuzz_target.h"

namespace deepslice {

// Every small tensor whole, of large ones the last rows.
inline void ReadAllRows(const Checkpoint& checkpoint) {
  for (const TensorInfo& t : checkpoint.tensors()) {
    FUZZ_CHECK(checkpoint.Find(t.name) == &t);
    FUZZ_CHECK(t.bytes <= checkpoint.file_bytes(t.file).size());
    FUZZ_CHECK(t.offset <= checkpoint.file_bytes(t.file).size() - t.bytes);
    const int64_t columns = t.row_elements();
    if (columns == 0 || t.rows() == 0) continue;
    const int64_t rows = std::min<int64_t>(t.rows(), 4096 / columns);
    std::vector<float> out(rows * columns);
    const absl::Status status =
        checkpoint.ReadRows(t, t.rows() - rows, t.rows(), absl::MakeSpan(out));
    if (!status.ok()) CheckRefusal(status);
    FUZZ_CHECK(checkpoint.RawRows(t, t.rows() - rows, t.rows()).size() <=
               t.bytes);
  }
}

}  // namespace deepslice

#endif  // DEEPSLICE_TESTS_FUZZ_CHECKPOINT_ROWS_H_
