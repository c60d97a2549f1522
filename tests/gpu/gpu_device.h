// One GPU of this machine for the check: memory, launches and times.
#ifndef DEEPSLICE_TESTS_GPU_GPU_DEVICE_H_
#define DEEPSLICE_TESTS_GPU_GPU_DEVICE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/cuda/kernel_spec.h"
#include "runtime/backend/cuda/gpu_api.h"
#include "schema/plan_format.h"

namespace deepslice {

// Not thread-safe; all work goes to one stream.
class GpuDevice {
 public:
  // The first GPU, with an arena of so many bytes.
  static absl::StatusOr<std::unique_ptr<GpuDevice>> Open(int64_t arena_bytes);
  ~GpuDevice();

  const std::string& name() const { return name_; }
  int multiprocessors() const { return multiprocessors_; }

  // How much of their on-chip memory multiprocessors keep for shared memory, of
  // kernels that are loaded from now on: percent, or -1 for what the driver
  // likes. A kernel may join one that still runs on a multiprocessor only where
  // both want the same.
  void set_carveout(int carveout) { carveout_ = carveout; }
  // The function `entry` of an image; loaded until the device goes.
  absl::StatusOr<CUfunction> Load(const KernelSpec& spec,
                                  const std::string& image,
                                  const std::string& entry);

  // Memory of the arena, on 256 bytes, until Reset.
  absl::StatusOr<CUdeviceptr> Allocate(int64_t bytes);
  void Reset() { used_ = 0; }
  absl::Status Upload(CUdeviceptr to, const void* from, int64_t bytes);
  absl::Status Download(void* to, CUdeviceptr from, int64_t bytes);
  absl::Status Fill(CUdeviceptr to, unsigned char value, int64_t bytes);

  // `params` are pointers to the values. The grid is the spec's at `info`.
  absl::Status Launch(const KernelSpec& spec, CUfunction function,
                      const StepInfo& info, void** params);
  // Waits, and gives the first error.
  absl::Status Wait();

  // Microseconds that the work of `record` takes when it is launched as a
  // graph: the best of several.
  absl::StatusOr<double> Time(const std::function<absl::Status()>& record);

 private:
  explicit GpuDevice(const CudaApi& cuda) : cuda_(cuda) {}
  absl::Status Check(CudaResult result, const std::string& what);

  const CudaApi& cuda_;
  std::string name_;
  int multiprocessors_ = 0;
  int carveout_ = 100;
  CUdevice device_ = 0;
  CUstream stream_ = nullptr;
  CUdeviceptr arena_ = 0;
  int64_t arena_bytes_ = 0, used_ = 0;
};

}  // namespace deepslice

#endif  // DEEPSLICE_TESTS_GPU_GPU_DEVICE_H_
