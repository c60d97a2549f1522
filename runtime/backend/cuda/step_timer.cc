#include "runtime/backend/cuda/step_timer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

constexpr int64_t kReadBytes = int64_t{2} << 30;
constexpr int kReadRounds = 8;

std::string Name(const flatbuffers::String* s) {
  return absl::CHexEscape(absl::string_view(s->data(), s->size()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<StepTimer>> StepTimer::Make(
    const GpuContext& gpu, size_t most_steps) {
  std::unique_ptr<StepTimer> out(new StepTimer(gpu));
  DS_ASSIGN_OR_RETURN(out->origin_, GpuEvent::Make(gpu, /*timing=*/true));
  for (size_t i = 0; i <= most_steps; ++i) {
    DS_ASSIGN_OR_RETURN(GpuEvent event, GpuEvent::Make(gpu, /*timing=*/true));
    out->marks_.push_back(std::move(event));
  }
  return out;
}

absl::Status StepTimer::Begin(CUstream stream) {
  if (!begun_) {
    DS_RETURN_IF_ERROR(
        gpu_.Check(gpu_.cuda().EventRecord(origin_.get(), stream), "timing"));
  }
  begun_ = true;
  next_ = 0;
  return Mark(stream);
}

absl::Status StepTimer::Mark(CUstream stream) {
  return gpu_.Check(gpu_.cuda().EventRecord(marks_[next_++].get(), stream),
                    "timing");
}

absl::Status StepTimer::End(const GpuStepList& list) {
  const auto between = [&](const GpuEvent& a, const GpuEvent& b,
                           double* microseconds) {
    float ms = 0;
    const absl::Status status = gpu_.Check(
        gpu_.cuda().EventElapsedTime(&ms, a.get(), b.get()), "timing");
    *microseconds = 1e3 * static_cast<double>(ms);
    return status;
  };
  double begin = 0;
  DS_RETURN_IF_ERROR(between(origin_, marks_[0], &begin));
  for (size_t i = 0; i + 1 < next_; ++i) {
    const GpuStep& step = list.steps[i];
    Executor::StepTiming t;
    t.program = Name(list.program->program->name());
    t.name = Name(step.from->name());
    t.kind = GpuStepKind(step);
    t.layer = step.from->layer();
    t.begin_us = begin;
    DS_RETURN_IF_ERROR(between(marks_[i], marks_[i + 1], &t.us));
    begin += t.us;
    timings_.push_back(std::move(t));
  }
  return absl::OkStatus();
}

absl::StatusOr<double> MeasureBandwidth(const GpuContext& gpu,
                                        const KernelTable& kernels,
                                        CUstream stream) {
  CUfunction read = kernels.service("read_bandwidth");
  if (read == nullptr) {
    return absl::UnimplementedError(
        "the target has no kernel \"read_bandwidth\"; recompile the plan");
  }
  const CudaApi& cuda = gpu.cuda();
  DS_ASSIGN_OR_RETURN(const int64_t free, gpu.FreeBytes());
  const int64_t bytes = std::min(kReadBytes, free / 2) / 4096 * 4096;
  DS_ASSIGN_OR_RETURN(const DeviceMemory memory,
                      DeviceMemory::Make(gpu, bytes + 256, "bandwidth"));
  DS_ASSIGN_OR_RETURN(const GpuEvent begin, GpuEvent::Make(gpu, true));
  DS_ASSIGN_OR_RETURN(const GpuEvent end, GpuEvent::Make(gpu, true));
  const auto check = [&](CudaResult r) {
    return gpu.Check(r, gpu.info().Text(), ": read_bandwidth");
  };
  DS_RETURN_IF_ERROR(
      check(cuda.MemsetD8Async(memory.data(), 0x5a, bytes + 256, stream)));
  CUdeviceptr data = memory.data(), sink = memory.data() + bytes;
  int64_t count = bytes / 16;
  void* params[] = {&data, &count, &sink};
  CudaLaunchConfig config = {};
  config.grid_x = static_cast<unsigned>(4 * gpu.info().multiprocessors);
  config.grid_y = config.grid_z = config.block_y = config.block_z = 1;
  config.block_x = 512;
  config.stream = stream;
  float best = 0;
  for (int i = 0; i < kReadRounds; ++i) {
    DS_RETURN_IF_ERROR(check(cuda.EventRecord(begin.get(), stream)));
    DS_RETURN_IF_ERROR(
        check(cuda.LaunchKernelEx(&config, read, params, nullptr)));
    DS_RETURN_IF_ERROR(check(cuda.EventRecord(end.get(), stream)));
    DS_RETURN_IF_ERROR(check(cuda.EventSynchronize(end.get())));
    float ms = 0;
    DS_RETURN_IF_ERROR(
        check(cuda.EventElapsedTime(&ms, begin.get(), end.get())));
    if (ms > 0 && (best == 0 || ms < best)) best = ms;
  }
  if (best == 0) return absl::InternalError("read_bandwidth took no time");
  return static_cast<double>(bytes) / (1e-3 * best);
}

}  // namespace deepslice
