// The beginning of a safetensors file that is written.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_SAFETENSORS_WRITER_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_SAFETENSORS_WRITER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "schema/base/dtype.h"

namespace deepslice {

struct WrittenTensor {
  std::string name;
  DType dtype = DType::kF32;  // of floats
  std::vector<int64_t> shape;

  uint64_t bytes() const;
};

// Length and JSON, up to a multiple of 8; the tensors' bytes follow without
// gaps, in the order given. Names must differ.
std::string SafetensorsHead(const std::vector<WrittenTensor>& tensors);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_SAFETENSORS_WRITER_H_
