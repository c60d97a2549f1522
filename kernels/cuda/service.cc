#include "kernels/cuda/service.h"

#include "absl/strings/str_cat.h"

namespace deepslice {

std::vector<KernelSpec> ServiceKernels(const GpuTarget& target) {
  std::vector<KernelSpec> kernels;
  for (DType t : {DType::kF32, DType::kF16, DType::kBF16}) {
    KernelSpec& k = kernels.emplace_back();
    k.source = "fill_random.cuh";
    k.entry = absl::StrCat("FillRandom<", CudaTypeName(t), ">");
    k.label = absl::StrCat("fill_random ", DTypeName(t));
    k.grid[0].times = 8 * target.num_sms;
    k.block[0] = 256;
  }
  for (DType t : {DType::kF32, DType::kF16, DType::kBF16}) {
    KernelSpec& k = kernels.emplace_back();
    k.source = "all_reduce_one_shot.cuh";
    k.entry = absl::StrCat("AllReduceOneShot<", CudaTypeName(t), ">");
    k.label = absl::StrCat("all_reduce_one_shot ", DTypeName(t));
    k.block[0] = 512;
  }
  KernelSpec& read = kernels.emplace_back();
  read.source = "read_bandwidth.cuh";
  read.entry = "ReadBandwidth";
  read.label = "read_bandwidth";
  read.grid[0].times = 4 * target.num_sms;
  read.block[0] = 512;
  return kernels;
}

}  // namespace deepslice
