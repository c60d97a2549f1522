#include "tests/gpu/gpu_device.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

unsigned Blocks(const GridExtent& e, const StepInfo& info) {
  int64_t count = 1;
  switch (e.dim) {
    case CountDim::kNone: return static_cast<unsigned>(e.times);
    case CountDim::kTokens: count = info.tokens; break;
    case CountDim::kRows: count = info.rows; break;
    case CountDim::kTiles: count = info.tiles; break;
    case CountDim::kImageTokens:
      count = info.image_tokens;
      break;
    case CountDim::kSourceTokens:
      count = info.source_tokens;
      break;
    case CountDim::kImages:
      count = info.images;
      break;
  }
  return static_cast<unsigned>(e.times *
                               ((count + e.per_block - 1) / e.per_block));
}

}  // namespace

absl::Status GpuDevice::Check(CudaResult result, const std::string& what) {
  if (result == kCudaSuccess) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat(what, ": ", CudaStatus(cuda_, result).message()));
}

absl::StatusOr<std::unique_ptr<GpuDevice>> GpuDevice::Open(
    int64_t arena_bytes) {
  DS_ASSIGN_OR_RETURN(const CudaApi* cuda, LoadCuda());
  std::unique_ptr<GpuDevice> d(new GpuDevice(*cuda));
  DS_RETURN_IF_ERROR(d->Check(cuda->Init(0), "cuInit"));
  DS_RETURN_IF_ERROR(d->Check(cuda->DeviceGet(&d->device_, 0), "cuDeviceGet"));
  CUcontext context = nullptr;
  DS_RETURN_IF_ERROR(
      d->Check(cuda->DevicePrimaryCtxRetain(&context, d->device_), "context"));
  DS_RETURN_IF_ERROR(d->Check(cuda->CtxSetCurrent(context), "context"));
  char name[128] = {};
  DS_RETURN_IF_ERROR(
      d->Check(cuda->DeviceGetName(name, sizeof name - 1, d->device_), "name"));
  d->name_ = name;
  DS_RETURN_IF_ERROR(
      d->Check(cuda->DeviceGetAttribute(&d->multiprocessors_,
                                        kDeviceMultiprocessors, d->device_),
               "multiprocessors"));
  DS_RETURN_IF_ERROR(d->Check(
      cuda->StreamCreate(&d->stream_, kStreamNonBlocking), "cuStreamCreate"));
  DS_RETURN_IF_ERROR(
      d->Check(cuda->MemAlloc(&d->arena_, arena_bytes), "cuMemAlloc"));
  d->arena_bytes_ = arena_bytes;
  return d;
}

GpuDevice::~GpuDevice() {
  if (arena_ != 0) cuda_.MemFree(arena_);
  if (stream_ != nullptr) cuda_.StreamDestroy(stream_);
  cuda_.DevicePrimaryCtxRelease(device_);
}

absl::StatusOr<CUfunction> GpuDevice::Load(const KernelSpec& spec,
                                           const std::string& image,
                                           const std::string& entry) {
  CUmodule module = nullptr;
  DS_RETURN_IF_ERROR(
      Check(cuda_.ModuleLoadData(&module, image.data()), spec.label));
  CUfunction function = nullptr;
  DS_RETURN_IF_ERROR(Check(
      cuda_.ModuleGetFunction(&function, module, entry.c_str()), spec.label));
  if (carveout_ >= 0) {
    DS_RETURN_IF_ERROR(Check(
        cuda_.FuncSetAttribute(function, kFunctionSharedCarveout, carveout_),
        spec.label));
  }
  if (spec.shared_bytes > 0) {
    DS_RETURN_IF_ERROR(
        Check(cuda_.FuncSetAttribute(function, kFunctionMaxDynamicShared,
                                     static_cast<int>(spec.shared_bytes)),
              absl::StrCat(spec.label, ": ", spec.shared_bytes,
                           " bytes of shared memory")));
  }
  return function;
}

absl::StatusOr<CUdeviceptr> GpuDevice::Allocate(int64_t bytes) {
  const int64_t size = (bytes + 255) / 256 * 256;
  if (used_ + size > arena_bytes_) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the arena has ", arena_bytes_ - used_, " bytes left, not ", size));
  }
  used_ += size;
  return arena_ + used_ - size;
}

absl::Status GpuDevice::Upload(CUdeviceptr to, const void* from,
                               int64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  return Check(cuda_.MemcpyHtoDAsync(to, from, bytes, stream_), "upload");
}
absl::Status GpuDevice::Download(void* to, CUdeviceptr from, int64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  return Check(cuda_.MemcpyDtoHAsync(to, from, bytes, stream_), "download");
}
absl::Status GpuDevice::Fill(CUdeviceptr to, unsigned char value,
                             int64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  return Check(cuda_.MemsetD8Async(to, value, bytes, stream_), "fill");
}

absl::Status GpuDevice::Launch(const KernelSpec& spec, CUfunction function,
                               const StepInfo& info, void** params) {
  CudaLaunchAttribute early = {};
  early.id = kLaunchProgrammaticSerialization;
  early.value.flag = 1;
  CudaLaunchConfig config = {};
  config.grid_x = Blocks(spec.grid[0], info);
  config.grid_y = Blocks(spec.grid[1], info);
  config.grid_z = Blocks(spec.grid[2], info);
  config.block_x = spec.block[0];
  config.block_y = spec.block[1];
  config.block_z = spec.block[2];
  config.shared_bytes = spec.shared_bytes;
  config.stream = stream_;
  config.attributes = &early;
  config.num_attributes = spec.programmatic ? 1 : 0;
  return Check(cuda_.LaunchKernelEx(&config, function, params, nullptr),
               absl::StrCat("launch of ", config.grid_x, "x", config.grid_y,
                            "x", config.grid_z, " blocks"));
}

absl::Status GpuDevice::Wait() {
  return Check(cuda_.StreamSynchronize(stream_), "kernel");
}

absl::StatusOr<double> GpuDevice::Time(
    const std::function<absl::Status()>& record) {
  DS_RETURN_IF_ERROR(
      Check(cuda_.StreamBeginCapture(stream_, kCaptureRelaxed), "capture"));
  const absl::Status recorded = record();
  CUgraph graph = nullptr;
  const absl::Status ended =
      Check(cuda_.StreamEndCapture(stream_, &graph), "capture");
  DS_RETURN_IF_ERROR(recorded);
  DS_RETURN_IF_ERROR(ended);
  CUgraphExec exec = nullptr;
  DS_RETURN_IF_ERROR(
      Check(cuda_.GraphInstantiate(&exec, graph, 0), "instantiate"));
  CUevent begin = nullptr, end = nullptr;
  DS_RETURN_IF_ERROR(Check(cuda_.EventCreate(&begin, kEventDefault), "event"));
  DS_RETURN_IF_ERROR(Check(cuda_.EventCreate(&end, kEventDefault), "event"));
  double best = 1e30;
  for (int i = 0; i < 7; ++i) {
    DS_RETURN_IF_ERROR(Check(cuda_.EventRecord(begin, stream_), "event"));
    DS_RETURN_IF_ERROR(Check(cuda_.GraphLaunch(exec, stream_), "graph"));
    DS_RETURN_IF_ERROR(Check(cuda_.EventRecord(end, stream_), "event"));
    DS_RETURN_IF_ERROR(Wait());
    float milliseconds = 0;
    DS_RETURN_IF_ERROR(
        Check(cuda_.EventElapsedTime(&milliseconds, begin, end), "event"));
    if (i >= 2) best = std::min(best, milliseconds * 1000.0);
  }
  cuda_.EventDestroy(begin);
  cuda_.EventDestroy(end);
  cuda_.GraphExecDestroy(exec);
  cuda_.GraphDestroy(graph);
  return best;
}

}  // namespace deepslice
