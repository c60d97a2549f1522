#include "runtime/backend/cuda/device.h"

#include "absl/strings/str_cat.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

absl::Status Initialise(const CudaApi& cuda) {
  DS_RETURN_IF_ERROR(CheckDriver(cuda));
  const CudaResult result = cuda.Init(0);
  if (result == kCudaSuccess || result == kCudaNoDevice) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "the GPU's driver does not start: ", CudaStatus(cuda, result).message(),
      "; look at nvidia-smi, or use a plan with target cpu"));
}

}  // namespace

std::string DeviceInfo::Text() const {
  return absl::StrCat("device ", ordinal, " (", name, ", sm_", major, minor,
                      ")");
}

absl::StatusOr<int> CountDevices(const CudaApi& cuda) {
  DS_RETURN_IF_ERROR(Initialise(cuda));
  int count = 0;
  const CudaResult result = cuda.DeviceGetCount(&count);
  // Without a device the driver refuses every call but Init.
  if (result != kCudaSuccess) return 0;
  return count;
}

absl::StatusOr<DeviceInfo> DescribeDevice(const CudaApi& cuda, int ordinal) {
  DS_ASSIGN_OR_RETURN(const int count, CountDevices(cuda));
  if (count == 0) {
    return absl::FailedPreconditionError(
        "the driver finds no GPU; look at nvidia-smi and "
        "CUDA_VISIBLE_DEVICES, or use a plan with target cpu");
  }
  if (ordinal < 0 || ordinal >= count) {
    return absl::FailedPreconditionError(
        absl::StrCat("device ", ordinal, ": this process sees ", count, " GPU",
                     count == 1 ? "" : "s", "; --device cuda:0",
                     count == 1 ? "" : absl::StrCat(" to cuda:", count - 1),
                     count == 1 ? " is allowed" : " are allowed"));
  }
  DeviceInfo info;
  info.ordinal = ordinal;
  CUdevice device;
  const auto check = [&](CudaResult r) {
    return Annotate(CudaStatus(cuda, r), "device ", ordinal);
  };
  DS_RETURN_IF_ERROR(check(cuda.DeviceGet(&device, ordinal)));
  char name[256] = {};
  DS_RETURN_IF_ERROR(check(cuda.DeviceGetName(name, sizeof(name) - 1, device)));
  info.name = name;
  const auto attribute = [&](int which, auto* out) {
    int value = 0;
    const absl::Status status =
        check(cuda.DeviceGetAttribute(&value, which, device));
    *out = value;
    return status;
  };
  DS_RETURN_IF_ERROR(attribute(kDeviceMajor, &info.major));
  DS_RETURN_IF_ERROR(attribute(kDeviceMinor, &info.minor));
  DS_RETURN_IF_ERROR(attribute(kDeviceMultiprocessors, &info.multiprocessors));
  DS_RETURN_IF_ERROR(attribute(kDeviceSharedBytesOptin, &info.shared_bytes));
  DS_RETURN_IF_ERROR(attribute(kDeviceL2Bytes, &info.l2_bytes));
  size_t bytes = 0;
  DS_RETURN_IF_ERROR(check(cuda.DeviceTotalMem(&bytes, device)));
  info.memory_bytes = static_cast<int64_t>(bytes);
  DS_RETURN_IF_ERROR(check(cuda.DriverGetVersion(&info.driver)));
  return info;
}

absl::StatusOr<std::unique_ptr<GpuContext>> GpuContext::Open(
    const CudaApi& cuda, int ordinal) {
  DS_ASSIGN_OR_RETURN(DeviceInfo info, DescribeDevice(cuda, ordinal));
  std::unique_ptr<GpuContext> gpu(new GpuContext(cuda, std::move(info)));
  const auto check = [&](CudaResult r) {
    return gpu->Check(r, gpu->info_.Text(), ": no context");
  };
  DS_RETURN_IF_ERROR(check(cuda.DeviceGet(&gpu->device_, ordinal)));
  DS_RETURN_IF_ERROR(
      check(cuda.DevicePrimaryCtxRetain(&gpu->context_, gpu->device_)));
  DS_RETURN_IF_ERROR(gpu->MakeCurrent());
  return gpu;
}

GpuContext::~GpuContext() {
  if (context_ != nullptr) cuda_.DevicePrimaryCtxRelease(device_);
}

absl::Status GpuContext::MakeCurrent() const {
  return Check(cuda_.CtxSetCurrent(context_), info_.Text());
}

absl::Status GpuContext::Fail(CudaResult result,
                              absl::string_view context) const {
  return Annotate(CudaStatus(cuda_, result), context);
}

absl::StatusOr<int64_t> GpuContext::FreeBytes() const {
  size_t free = 0, total = 0;
  DS_RETURN_IF_ERROR(Check(cuda_.MemGetInfo(&free, &total), info_.Text()));
  return static_cast<int64_t>(free);
}

absl::StatusOr<DeviceMemory> DeviceMemory::Make(const GpuContext& gpu,
                                                int64_t bytes,
                                                absl::string_view what) {
  DeviceMemory out;
  if (bytes == 0) return out;
  DS_RETURN_IF_ERROR(
      gpu.Check(gpu.cuda().MemAlloc(&out.data_, static_cast<size_t>(bytes)),
                gpu.info().Text(), ": ", what, ", ", bytes, " bytes"));
  out.cuda_ = &gpu.cuda();
  out.bytes_ = bytes;
  return out;
}

DeviceMemory::~DeviceMemory() {
  if (data_ != 0) cuda_->MemFree(data_);
}

absl::StatusOr<PinnedMemory> PinnedMemory::Make(const GpuContext& gpu,
                                                int64_t bytes,
                                                absl::string_view what) {
  PinnedMemory out;
  if (bytes == 0) return out;
  void* data = nullptr;
  DS_RETURN_IF_ERROR(
      gpu.Check(gpu.cuda().MemHostAlloc(&data, static_cast<size_t>(bytes),
                                        kHostAllocPortable),
                what, ", ", bytes, " bytes of pinned host memory"));
  out.data_ = static_cast<char*>(data);
  out.cuda_ = &gpu.cuda();
  out.bytes_ = bytes;
  return out;
}

PinnedMemory::~PinnedMemory() {
  if (data_ != nullptr) cuda_->MemFreeHost(data_);
}

absl::StatusOr<GpuStream> GpuStream::Make(const GpuContext& gpu) {
  GpuStream out;
  DS_RETURN_IF_ERROR(
      gpu.Check(gpu.cuda().StreamCreate(&out.stream_, kStreamNonBlocking),
                gpu.info().Text(), ": no stream"));
  out.cuda_ = &gpu.cuda();
  return out;
}

GpuStream::~GpuStream() {
  if (stream_ != nullptr) cuda_->StreamDestroy(stream_);
}

absl::StatusOr<GpuEvent> GpuEvent::Make(const GpuContext& gpu, bool timing) {
  GpuEvent out;
  DS_RETURN_IF_ERROR(
      gpu.Check(gpu.cuda().EventCreate(
                    &out.event_, timing ? kEventDefault : kEventDisableTiming),
                gpu.info().Text(), ": no event"));
  out.cuda_ = &gpu.cuda();
  return out;
}

GpuEvent::~GpuEvent() {
  if (event_ != nullptr) cuda_->EventDestroy(event_);
}

}  // namespace deepslice
