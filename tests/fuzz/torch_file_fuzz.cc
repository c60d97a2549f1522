// Files of torch.save, both containers: the state dict and rows of its tensors.
#include "compiler/checkpoint/loaded_checkpoint.h"
#include "compiler/checkpoint/torch_weights.h"
#include "tests/fuzz/checkpoint_rows.h"
#include "tests/fuzz/fuzz_target.h"

namespace deepslice {
namespace {

FUZZ_TARGET(torch_file) {
  auto weights = ReadTorchWeights(input, "model.pt");
  if (!weights.ok()) return CheckRefusal(weights.status());
  for (const TensorInfo& t : weights->tensors) {
    FUZZ_CHECK(t.strides.empty() || t.strides.size() == t.shape.size());
    FUZZ_CHECK(t.bytes <= input.size() && t.offset <= input.size() - t.bytes);
  }
  CheckpointParts parts;
  parts.tensors = std::move(weights->tensors);
  parts.sources.push_back({"model.pt", input, {}});
  ReadAllRows(*MakeCheckpoint(std::move(parts)));
}

}  // namespace
}  // namespace deepslice
