// The kernels of a target, loaded: images out of kernels.bin, checked against
// the plan's hashes.
#ifndef DEEPSLICE_RUNTIME_BACKEND_CUDA_KERNEL_TABLE_H_
#define DEEPSLICE_RUNTIME_BACKEND_CUDA_KERNEL_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/backend/cuda/device.h"
#include "runtime/plan.h"

namespace deepslice {

class KernelTable {
 public:
  // Loads the kernels that `programs` launch, with the most dynamic shared
  // memory that they ask for, and the service kernels. DataLoss when an image
  // is not what the plan says or is not one at all; FailedPrecondition when the
  // device or the driver can't take it.
  static absl::StatusOr<KernelTable> Load(
      const GpuContext& gpu, const Plan& plan, const fb::Target& target,
      const std::vector<const fb::Program*>& programs);
  KernelTable() = default;
  ~KernelTable();
  KernelTable(KernelTable&& o) noexcept { *this = std::move(o); }
  KernelTable& operator=(KernelTable&& o) noexcept {
    std::swap(gpu_, o.gpu_);
    std::swap(modules_, o.modules_);
    std::swap(functions_, o.functions_);
    std::swap(service_, o.service_);
    return *this;
  }

  // Of kernel `i` of the target; nullptr when no program launches it.
  CUfunction function(int i) const { return functions_[i]; }
  // A service kernel by its label; nullptr when there is none.
  CUfunction service(absl::string_view label) const;

 private:
  const GpuContext* gpu_ = nullptr;
  std::vector<CUmodule> modules_;
  std::vector<CUfunction> functions_;
  std::vector<std::pair<std::string, CUfunction>> service_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_BACKEND_CUDA_KERNEL_TABLE_H_
