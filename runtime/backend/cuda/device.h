// One GPU: its context, and memory, streams and events that free themselves.
#ifndef DEEPSLICE_RUNTIME_BACKEND_CUDA_DEVICE_H_
#define DEEPSLICE_RUNTIME_BACKEND_CUDA_DEVICE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "runtime/backend/cuda/gpu_api.h"

namespace deepslice {

struct DeviceInfo {
  int ordinal = 0;
  std::string name;  // "NVIDIA H200"
  int major = 0, minor = 0;
  int multiprocessors = 0;
  int64_t shared_bytes = 0;  // most that a block may use
  int64_t l2_bytes = 0;
  int64_t memory_bytes = 0;
  int driver = 0;  // 13000 for CUDA 13.0

  // "device 0 (NVIDIA H200, sm_90)".
  std::string Text() const;
};

// The primary context of a device, current in the thread that opened it. What
// it made must be gone before it.
class GpuContext {
 public:
  // FailedPrecondition when the driver is too old or there is no such device.
  // `cuda` must outlive it.
  static absl::StatusOr<std::unique_ptr<GpuContext>> Open(const CudaApi& cuda,
                                                          int ordinal);
  ~GpuContext();
  GpuContext(const GpuContext&) = delete;

  const CudaApi& cuda() const { return cuda_; }
  const DeviceInfo& info() const { return info_; }
  // For every other thread that calls the driver.
  absl::Status MakeCurrent() const;
  // CudaStatus of `result`, after `context` and ": ".
  template <typename... Context>
  absl::Status Check(CudaResult result, const Context&... context) const {
    if (result == kCudaSuccess) return absl::OkStatus();
    return Fail(result, absl::StrCat(context...));
  }
  // Bytes that nobody has taken.
  absl::StatusOr<int64_t> FreeBytes() const;

 private:
  GpuContext(const CudaApi& cuda, DeviceInfo info)
      : cuda_(cuda), info_(std::move(info)) {}
  absl::Status Fail(CudaResult result, absl::string_view context) const;

  const CudaApi& cuda_;
  DeviceInfo info_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
};

// What the device is, without a context.
absl::StatusOr<DeviceInfo> DescribeDevice(const CudaApi& cuda, int ordinal);
// How many devices the driver shows; 0 when it says that there is none.
absl::StatusOr<int> CountDevices(const CudaApi& cuda);

// Device memory, from 256-byte aligned addresses; nothing at 0 bytes.
class DeviceMemory {
 public:
  // ResourceExhausted, with `what` and the bytes, when there is too little.
  static absl::StatusOr<DeviceMemory> Make(const GpuContext& gpu, int64_t bytes,
                                           absl::string_view what);
  DeviceMemory() = default;
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& o) noexcept { *this = std::move(o); }
  DeviceMemory& operator=(DeviceMemory&& o) noexcept {
    std::swap(cuda_, o.cuda_);
    std::swap(data_, o.data_);
    std::swap(bytes_, o.bytes_);
    return *this;
  }

  CUdeviceptr data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  const CudaApi* cuda_ = nullptr;
  CUdeviceptr data_ = 0;
  int64_t bytes_ = 0;
};

// Host memory that the device reaches at full speed.
class PinnedMemory {
 public:
  static absl::StatusOr<PinnedMemory> Make(const GpuContext& gpu, int64_t bytes,
                                           absl::string_view what);
  PinnedMemory() = default;
  ~PinnedMemory();
  PinnedMemory(PinnedMemory&& o) noexcept { *this = std::move(o); }
  PinnedMemory& operator=(PinnedMemory&& o) noexcept {
    std::swap(cuda_, o.cuda_);
    std::swap(data_, o.data_);
    std::swap(bytes_, o.bytes_);
    return *this;
  }

  char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  const CudaApi* cuda_ = nullptr;
  char* data_ = nullptr;
  int64_t bytes_ = 0;
};

class GpuStream {
 public:
  static absl::StatusOr<GpuStream> Make(const GpuContext& gpu);
  GpuStream() = default;
  ~GpuStream();
  GpuStream(GpuStream&& o) noexcept { *this = std::move(o); }
  GpuStream& operator=(GpuStream&& o) noexcept {
    std::swap(cuda_, o.cuda_);
    std::swap(stream_, o.stream_);
    return *this;
  }
  CUstream get() const { return stream_; }

 private:
  const CudaApi* cuda_ = nullptr;
  CUstream stream_ = nullptr;
};

class GpuEvent {
 public:
  static absl::StatusOr<GpuEvent> Make(const GpuContext& gpu,
                                       bool timing = false);
  GpuEvent() = default;
  ~GpuEvent();
  GpuEvent(GpuEvent&& o) noexcept { *this = std::move(o); }
  GpuEvent& operator=(GpuEvent&& o) noexcept {
    std::swap(cuda_, o.cuda_);
    std::swap(event_, o.event_);
    return *this;
  }
  CUevent get() const { return event_; }

 private:
  const CudaApi* cuda_ = nullptr;
  CUevent event_ = nullptr;
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_BACKEND_CUDA_DEVICE_H_
