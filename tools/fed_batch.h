// The padded batch of token ids that --feed brings, as rows without padding.
#ifndef DEEPSLICE_TOOLS_FED_BATCH_H_
#define DEEPSLICE_TOOLS_FED_BATCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tools/tensor_file.h"

namespace deepslice {

struct FedBatch {
  int64_t batch = 0, seq = 0;
  std::vector<bool> masked;  // [batch * seq]
  // Of each row, the tokens that the mask leaves; may be empty.
  std::vector<std::vector<int32_t>> rows;
  std::vector<std::vector<int32_t>> types;  // the same of token_type_ids
};

// InvalidArgument for a tensor that is none of `inputs`.
absl::Status CheckFedNames(const TensorFile& file,
                           absl::Span<const absl::string_view> inputs);

// `ids`, [batch, seq] or [seq]; `mask` (0 or 1, of the same shape; may be
// absent, as may `types`, which then are zeros). InvalidArgument with the name.
absl::StatusOr<FedBatch> ReadFedBatch(const TensorFile& file,
                                      absl::string_view ids,
                                      absl::string_view mask,
                                      absl::string_view types = {});

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_FED_BATCH_H_
