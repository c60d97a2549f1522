#include "tests/gpu/timing.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/service.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

constexpr int64_t kRandomBytes = int64_t{1300} << 20;
// Twice the L2 of an H200.
constexpr int64_t kColdBytes = int64_t{128} << 20;

absl::StatusOr<KernelSpec> ServiceKernel(const GpuTarget& target,
                                         const std::string& label) {
  for (const KernelSpec& k : ServiceKernels(target)) {
    if (k.label == label) return k;
  }
  return absl::NotFoundError(absl::StrCat("no service kernel ", label));
}

}  // namespace

absl::StatusOr<TimingMemory> TimingMemory::Make(GpuDevice* device,
                                                CompiledKernels* kernels,
                                                const GpuTarget& target,
                                                int64_t bytes) {
  TimingMemory m;
  m.device_ = device;
  m.bytes_ = bytes;
  device->Reset();
  DS_ASSIGN_OR_RETURN(m.random_, device->Allocate(bytes));
  DS_ASSIGN_OR_RETURN(const KernelSpec spec,
                      ServiceKernel(target, "fill_random bf16"));
  DS_ASSIGN_OR_RETURN(const CUfunction fill, kernels->Function(spec, device));
  uint64_t out = m.random_, key = 12345;
  int64_t row = 1 << 20, rows = bytes / 2 / row, zero = 0;
  float mean = 0, scale = 1;
  void* params[] = {&out,  &key,  &row,  &rows, &row,
                    &zero, &zero, &mean, &scale};
  DS_RETURN_IF_ERROR(device->Launch(spec, fill, StepInfo{}, params));
  DS_RETURN_IF_ERROR(device->Wait());
  return m;
}

CUdeviceptr TimingMemory::Random(int64_t bytes) {
  const int64_t size = (bytes + 255) / 256 * 256;
  if (used_ + size > bytes_) used_ = 0;
  used_ += size;
  return random_ + used_ - size;
}

absl::StatusOr<CUdeviceptr> TimingMemory::Zeros(int64_t bytes) {
  DS_ASSIGN_OR_RETURN(const CUdeviceptr at, device_->Allocate(bytes));
  DS_RETURN_IF_ERROR(device_->Fill(at, 0, bytes));
  return at;
}

absl::StatusOr<CUdeviceptr> TimingMemory::Upload(const void* from,
                                                 int64_t bytes) {
  DS_ASSIGN_OR_RETURN(const CUdeviceptr at, device_->Allocate(bytes));
  DS_RETURN_IF_ERROR(device_->Upload(at, from, bytes));
  DS_RETURN_IF_ERROR(device_->Wait());
  return at;
}

namespace {

absl::Status PrintOne(const Timing& timing, TimingMemory* memory,
                      CompiledKernels* kernels, GpuDevice* device) {
  const int copies = static_cast<int>(std::clamp<int64_t>(
      kColdBytes / std::max<int64_t>(timing.cold_bytes, 1), 20, 128));
  memory->Reuse();
  DS_ASSIGN_OR_RETURN(CUdeviceptr info,
                      memory->Upload(&timing.info, sizeof timing.info));
  std::vector<std::vector<std::vector<uint64_t>>> params;
  for (int i = 0; i < copies; ++i) {
    DS_ASSIGN_OR_RETURN(params.emplace_back(), timing.params(memory, i));
  }
  std::vector<CUfunction> functions;
  for (const KernelSpec& spec : timing.specs) {
    DS_ASSIGN_OR_RETURN(functions.emplace_back(),
                        kernels->Function(spec, device));
  }
  const absl::StatusOr<double> time = device->Time([&]() -> absl::Status {
    for (auto& copy : params) {
      for (size_t s = 0; s < timing.specs.size(); ++s) {
        std::vector<void*> pointers = {&info};
        for (uint64_t& v : copy[s]) pointers.push_back(&v);
        DS_RETURN_IF_ERROR(device->Launch(timing.specs[s], functions[s],
                                          timing.info, pointers.data()));
      }
    }
    return absl::OkStatus();
  });
  DS_RETURN_IF_ERROR(time.status());
  const double us = *time / copies;
  std::printf("%-44s %9.2f us", timing.name.c_str(), us);
  if (timing.flops > 0) {
    std::printf(" %8.1f TFLOP/s\n", timing.flops / us * 1e-6);
  } else {
    std::printf(" %8.3f TB/s\n", timing.bytes / us * 1e-6);
  }
  std::fflush(stdout);
  return absl::OkStatus();
}

}  // namespace

absl::Status PrintTimings(const std::vector<Timing>& timings,
                          const GpuTarget& target, CompiledKernels* kernels,
                          GpuDevice* device) {
  for (const Timing& timing : timings) {
    // Fresh: earlier rows may have written on it.
    absl::StatusOr<TimingMemory> memory =
        TimingMemory::Make(device, kernels, target, kRandomBytes);
    DS_RETURN_IF_ERROR(memory.status());
    const absl::Status printed =
        PrintOne(timing, &*memory, kernels, device);
    if (!printed.ok()) {
      return absl::InternalError(
          absl::StrCat(timing.name, ": ", printed.message()));
    }
  }
  // What all are measured against.
  DS_ASSIGN_OR_RETURN(TimingMemory memory,
                      TimingMemory::Make(device, kernels, target, kRandomBytes));
  DS_ASSIGN_OR_RETURN(const KernelSpec read,
                      ServiceKernel(target, "read_bandwidth"));
  DS_ASSIGN_OR_RETURN(const CUfunction function,
                      kernels->Function(read, device));
  uint64_t data = memory.Random(kRandomBytes), sink = 0;
  DS_ASSIGN_OR_RETURN(sink, memory.Zeros(4));
  int64_t count = kRandomBytes / 16;
  void* params[] = {&data, &count, &sink};
  DS_ASSIGN_OR_RETURN(const double us, device->Time([&] {
                        return device->Launch(read, function, StepInfo{},
                                              params);
                      }));
  std::printf("%-44s %9.2f us %8.3f TB/s\n", "read_bandwidth", us,
              kRandomBytes / us * 1e-6);
  return absl::OkStatus();
}

double Distance(const std::vector<double>& got,
                const std::vector<double>& want) {
  double squares = 0, worst = 0;
  for (const double v : want) squares += v * v;
  const double size = std::sqrt(squares / want.size()) + 1e-30;
  for (size_t i = 0; i < want.size(); ++i) {
    const double off =
        std::fabs(got[i] - want[i]) / (std::fabs(want[i]) + size);
    worst = off <= worst ? worst : off == off ? off : INFINITY;
  }
  return worst;
}

}  // namespace deepslice
