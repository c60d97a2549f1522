#include "kernels/cuda/kernel_spec.h"

#include "schema/base/check.h"

namespace deepslice {

std::string CudaTypeName(DType t) {
  switch (t) {
    case DType::kF32: return "float";
    case DType::kF16: return "half_t";
    case DType::kBF16: return "bf16";
    case DType::kI32: return "int32_t";
    default: break;
  }
  DS_CHECK(false);
  return "";
}

}  // namespace deepslice
