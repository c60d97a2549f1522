// Brings a plan's weights onto the device as fast as the bus takes them,
// checking every block on the way.
#ifndef DEEPSLICE_RUNTIME_BACKEND_CUDA_WEIGHT_UPLOAD_H_
#define DEEPSLICE_RUNTIME_BACKEND_CUDA_WEIGHT_UPLOAD_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "runtime/backend/cuda/device.h"
#include "runtime/backend/cuda/kernel_table.h"
#include "runtime/plan.h"

namespace deepslice {

// Copies the weights file to `to`, byte by byte as it is, from threads of its
// own: each reads a part into pinned memory, compares the hashes of its blocks
// with the plan's, and hands it to the copy engine while it reads the next.
class WeightUpload {
 public:
  // Bytes of one part, a multiple of kHashBlock, and parts in flight a thread.
  static constexpr int64_t kPartBytes = 4 << 20;
  static constexpr int kSlots = 3;

  // Starts. `gpu` and `plan` must outlive it. `loaded` is told how many bytes
  // of all were read and checked, by one thread at a time; may be empty.
  WeightUpload(const GpuContext& gpu, const Plan& plan, CUdeviceptr to,
               int threads,
               std::function<void(int64_t done, int64_t all)> loaded = {});
  ~WeightUpload();  // stops what is under way
  // Waits for all copies. DataLoss with the damaged block, or what failed.
  absl::Status Finish();
  // From the start to the last byte; after Finish.
  double seconds() const;

 private:
  absl::Status Work();
  absl::Status Read(int file, uint64_t begin, int64_t bytes, char* to) const;
  void Stop(const absl::Status& why);

  const GpuContext& gpu_;
  const Plan& plan_;
  const CUdeviceptr to_;
  const int64_t bytes_;
  const std::function<void(int64_t done, int64_t all)> loaded_;
  int64_t loaded_bytes_ = 0;      // of mutex_
  std::atomic<int64_t> next_{0};  // part
  std::atomic<bool> stopped_{false};
  std::mutex mutex_;
  absl::Status status_;  // the first failure
  std::vector<std::thread> threads_;
  const std::chrono::steady_clock::time_point begun_ =
      std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point ended_ = begun_;  // of the last thread
};

// Fills the weights that are made up, behind the file's, with the target's
// service kernels. FailedPrecondition when it has none for a type.
absl::Status FillSyntheticOnDevice(const GpuContext& gpu, const Plan& plan,
                                   const KernelTable& kernels, CUdeviceptr to,
                                   CUstream stream);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_BACKEND_CUDA_WEIGHT_UPLOAD_H_
