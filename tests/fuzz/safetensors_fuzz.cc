// safetensors files: the header, and rows of the tensors that it promises.
#include "compiler/checkpoint/loaded_checkpoint.h"
#include "compiler/checkpoint/safetensors.h"
#include "tests/fuzz/checkpoint_rows.h"
#include "tests/fuzz/fuzz_target.h"

namespace deepslice {
namespace {

FUZZ_TARGET(safetensors) {
  auto header = ReadSafetensorsHeader(input, "model.safetensors");
  if (!header.ok()) return CheckRefusal(header.status());
  uint64_t end = 0;
  for (const TensorInfo& t : header->tensors) {
    FUZZ_CHECK(t.bytes <= input.size() && t.offset <= input.size() - t.bytes);
    // No hole, no overlap.
    FUZZ_CHECK(end == 0 || t.bytes == 0 || t.offset == end);
    if (t.bytes > 0) end = t.offset + t.bytes;
  }
  FUZZ_CHECK(end == 0 || end == input.size());
  CheckpointParts parts;
  parts.tensors = std::move(header->tensors);
  parts.sources.push_back({"model.safetensors", input, {}});
  ReadAllRows(*MakeCheckpoint(std::move(parts)));
}

}  // namespace
}  // namespace deepslice
