#include "runtime/backend/cuda/cuda_run.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "runtime/backend/cuda/target_choice.h"
#include "runtime/backend/cuda/weight_upload.h"
#include "schema/base/checked_math.h"
#include "schema/base/file.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

constexpr int64_t kCacheFileBytes = 16 << 20;
// Well below what any comm takes at once.
constexpr int64_t kBroadcastBytes = 16 << 10;

absl::Status CheckResidency(const fb::Plan& plan) {
  for (const fb::Weight* w : *plan.weights()) {
    if (w->residency() == fb::Residency::Device) continue;
    return absl::UnimplementedError(
        "weights that stay on the host or on disk; this build keeps all on the "
        "device");
  }
  return absl::OkStatus();
}

absl::Status Zero(const GpuContext& gpu, const DeviceMemory& memory,
                  CUstream stream) {
  if (memory.bytes() == 0) return absl::OkStatus();
  return gpu.Check(
      gpu.cuda().MemsetD8Async(memory.data(), 0, memory.bytes(), stream),
      gpu.info().Text(), ": zeroing memory");
}

// Rank 0's text to all.
absl::Status BroadcastText(Comm* comm, std::string* text) {
  int64_t bytes = static_cast<int64_t>(text->size());
  DS_RETURN_IF_ERROR(comm->Broadcast(&bytes, sizeof(bytes)));
  if (bytes < 0 || bytes > kCacheFileBytes) {
    return absl::AbortedError("ranks disagree: a text of choices too long");
  }
  text->resize(bytes);
  for (int64_t at = 0; at < bytes; at += kBroadcastBytes) {
    DS_RETURN_IF_ERROR(comm->Broadcast(text->data() + at,
                                       std::min(kBroadcastBytes, bytes - at)));
  }
  return absl::OkStatus();
}

class Preparation {
 public:
  Preparation(const GpuApis& apis, const Plan& plan, const RunLimits& limits,
              const CudaOptions& options)
      : apis_(apis),
        plan_(plan),
        limits_(limits),
        options_(options),
        run_(std::make_unique<CudaRun>()) {}

  absl::StatusOr<std::unique_ptr<CudaRun>> Run() {
    DS_RETURN_IF_ERROR(CheckLaunchPlace(plan_, options_.comm));
    DS_RETURN_IF_ERROR(CheckResidency(plan_.fb()));
    DS_RETURN_IF_ERROR(Choose());
    DS_RETURN_IF_ERROR(Allocate());
    // Weights travel while kernels are loaded and ranks meet.
    WeightUpload upload(*run_->gpu, plan_, run_->weights.data(),
                        options_.threads, options_.loaded);
    DS_RETURN_IF_ERROR(LoadKernels());
    DS_RETURN_IF_ERROR(Connect());
    DS_RETURN_IF_ERROR(Resolve());
    DS_RETURN_IF_ERROR(upload.Finish());
    run_->weights_seconds = upload.seconds();
    DS_RETURN_IF_ERROR(FillSyntheticOnDevice(*run_->gpu, plan_, run_->kernels,
                                             run_->weights.data(),
                                             run_->stream.get()));
    DS_RETURN_IF_ERROR(Sync());
    DS_RETURN_IF_ERROR(ChooseAlgorithms());
    // What tuning left in the arena is nobody's, but the cache and the sync
    // words are zero.
    DS_RETURN_IF_ERROR(Sync());
    return std::move(run_);
  }

 private:
  // What costs nothing: all that can be missing is said first.
  absl::Status Choose() {
    CudaRun& run = *run_;
    run.plan = &plan_;
    DS_ASSIGN_OR_RETURN(const DeviceInfo info,
                        DescribeDevice(*apis_.cuda, options_.device));
    DS_ASSIGN_OR_RETURN(run.target, ChooseTarget(plan_, info));
    DS_ASSIGN_OR_RETURN(run.sizes,
                        ResolveGpuSizes(plan_, *run.target, limits_));
    cublaslt_ = apis_.cublaslt;
    if (run.sizes.workspace_bytes > 0 && cublaslt_ == nullptr) {
      DS_ASSIGN_OR_RETURN(cublaslt_, LoadCublasLt());
    }
    DS_ASSIGN_OR_RETURN(run.gpu,
                        GpuContext::Open(*apis_.cuda, options_.device));
    DS_ASSIGN_OR_RETURN(const int64_t free, run.gpu->FreeBytes());
    run.context_bytes = run.gpu->info().memory_bytes - free;
    return CheckFitsDevice(plan_, *run.target, limits_, run.sizes, free,
                           run.gpu->info().Text());
  }

  absl::Status Allocate() {
    CudaRun& run = *run_;
    const GpuContext& gpu = *run.gpu;
    const GpuSizes& s = run.sizes;
    DS_ASSIGN_OR_RETURN(run.stream, GpuStream::Make(gpu));
    DS_ASSIGN_OR_RETURN(run.upload, GpuStream::Make(gpu));
    DS_ASSIGN_OR_RETURN(run.download, GpuStream::Make(gpu));
    const auto make = [&](DeviceMemory* to, int64_t bytes, const char* what) {
      auto memory = DeviceMemory::Make(gpu, bytes, what);
      if (memory.ok()) *to = *std::move(memory);
      return memory.status();
    };
    DS_RETURN_IF_ERROR(make(&run.weights, s.weights_bytes, "weights"));
    DS_RETURN_IF_ERROR(make(&run.cache, s.cache_bytes, "cache"));
    DS_RETURN_IF_ERROR(make(&run.arena, s.arena_bytes, "arena"));
    DS_RETURN_IF_ERROR(make(&run.staging, s.staging_bytes, "staging"));
    DS_RETURN_IF_ERROR(
        make(&run.workspace, s.workspace_bytes, "cuBLASLt's workspace"));
    DS_RETURN_IF_ERROR(Zero(gpu, run.cache, run.stream.get()));
    DS_RETURN_IF_ERROR(Zero(gpu, run.arena, run.stream.get()));
    DS_RETURN_IF_ERROR(Zero(gpu, run.staging, run.stream.get()));

    const int64_t ids_bytes = s.sampled_at[1] - s.sampled_at[0];
    run.host_block_bytes =
        RoundUp(s.input_block_bytes + 4 * s.run.num_blocks, kSlotAlignment);
    run.host_ids_at = 2 * run.host_block_bytes;
    DS_ASSIGN_OR_RETURN(
        run.host,
        PinnedMemory::Make(gpu, run.host_ids_at + 2 * ids_bytes, "inputs"));
    DS_ASSIGN_OR_RETURN(
        run.logits,
        Mapping::Make(s.output_floats * static_cast<int64_t>(sizeof(float)),
                      "logits"));
    return absl::OkStatus();
  }

  absl::Status LoadKernels() {
    CudaRun& run = *run_;
    std::vector<const fb::Program*> programs;
    for (const ProgramSizes& p : run.sizes.programs) {
      programs.push_back(p.program);
    }
    DS_ASSIGN_OR_RETURN(const int64_t before, run.gpu->FreeBytes());
    DS_ASSIGN_OR_RETURN(
        run.kernels, KernelTable::Load(*run.gpu, plan_, *run.target, programs));
    if (run.sizes.workspace_bytes > 0) {
      DS_ASSIGN_OR_RETURN(run.gemms,
                          Gemms::Create(*cublaslt_, run.workspace.data(),
                                        run.workspace.bytes()));
    }
    DS_ASSIGN_OR_RETURN(const int64_t after, run.gpu->FreeBytes());
    run.modules_bytes = before - after;
    return absl::OkStatus();
  }

  absl::Status Connect() {
    if (plan_.world_size() == 1) return absl::OkStatus();
    DS_ASSIGN_OR_RETURN(run_->comm,
                        options_.connect(*run_->gpu, run_->kernels));
    return absl::OkStatus();
  }

  absl::Status Resolve() {
    CudaRun& run = *run_;
    const GpuSizes& s = run.sizes;
    for (const ProgramSizes& p : s.programs) {
      CudaRun::Program program;
      for (int parity : {0, 1}) {
        GpuAddresses at;
        at.weights = run.weights.data();
        at.arena = run.arena.data();
        at.cache = run.cache.data();
        at.inputs = run.staging.data() + s.inputs_at[parity];
        at.table = run.staging.data() + s.table_at;
        at.sync = run.staging.data() + s.sync_at;
        at.sampled = run.staging.data() + s.sampled_at[parity];
        at.sampled_before = run.staging.data() + s.sampled_at[1 - parity];
        DS_ASSIGN_OR_RETURN(program.steps[parity],
                            ResolveGpuSteps(plan_, *run.target, p, s,
                                            run.kernels, at, run.gemms.get()));
      }
      run.programs.push_back(std::move(program));
    }
    return absl::OkStatus();
  }

  // From the cache, else by timing, on rank 0; the others take its choices.
  absl::Status ChooseAlgorithms() {
    CudaRun& run = *run_;
    if (run.gemms == nullptr) return absl::OkStatus();
    run.gemm_cache_path =
        GemmCachePath(options_.cache_folder,
                      absl::string_view(plan_.fb().plan_set_id()->data(),
                                        plan_.fb().plan_set_id()->size()),
                      run.gpu->info().name, run.gemms->library_version());
    const bool first = options_.comm == nullptr || options_.comm->rank() == 0;
    std::string text;
    if (first) {
      if (!run.gemm_cache_path.empty()) {
        // What can't be read only costs the time to choose again.
        const auto kept = ReadFile(run.gemm_cache_path, kCacheFileBytes);
        if (kept.ok()) AdoptGemmChoices(*kept, run.gemms.get());
      }
      const std::string before = FormatGemmChoices(*run.gemms);
      if (options_.tune_seconds > 0) {
        DS_RETURN_IF_ERROR(TuneRun(&run, {.seconds = options_.tune_seconds}));
      }
      text = FormatGemmChoices(*run.gemms);
      // Where they can't be kept, the next start takes the time again.
      if (text != before) KeepChoices(run).IgnoreError();
    }
    if (options_.comm == nullptr) return absl::OkStatus();
    DS_RETURN_IF_ERROR(BroadcastText(options_.comm, &text));
    if (!first) AdoptGemmChoices(text, run.gemms.get());
    return absl::OkStatus();
  }

  absl::Status Sync() {
    return run_->gpu->Check(
        run_->gpu->cuda().StreamSynchronize(run_->stream.get()),
        run_->gpu->info().Text(), ": preparing memory");
  }

  const GpuApis& apis_;
  const Plan& plan_;
  const RunLimits& limits_;
  const CudaOptions& options_;
  const CublasLtApi* cublaslt_ = nullptr;
  std::unique_ptr<CudaRun> run_;
};

// Activations are made up, since a card multiplies zeros faster.
absl::Status FillArena(const CudaRun& run, DType type) {
  CUfunction fill =
      run.kernels.service(absl::StrCat("fill_random ", DTypeName(type)));
  if (fill == nullptr || run.arena.bytes() == 0) return absl::OkStatus();
  CUdeviceptr out = run.arena.data();
  uint64_t key = 1;
  int64_t cols = run.arena.bytes() / DTypeSize(type), rows = 1, zero = 0;
  float mean = 0, scale = 1;
  void* params[] = {&out,  &key,  &cols, &rows, &cols,
                    &zero, &zero, &mean, &scale};
  CudaLaunchConfig config = {};
  config.grid_x = static_cast<unsigned>(16 * run.gpu->info().multiprocessors);
  config.grid_y = config.grid_z = config.block_y = config.block_z = 1;
  config.block_x = 256;
  config.stream = run.stream.get();
  return run.gpu->Check(
      run.gpu->cuda().LaunchKernelEx(&config, fill, params, nullptr),
      "tuning: fill_random");
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaRun>> PrepareCudaRun(
    const GpuApis& apis, const Plan& plan, const RunLimits& limits,
    const CudaOptions& options) {
  return Preparation(apis, plan, limits, options).Run();
}

absl::Status TuneRun(CudaRun* run, const TuneOptions& options) {
  if (run->gemms == nullptr) return absl::OkStatus();
  std::vector<GemmSample> samples;
  const GpuStepList& list = run->programs[0].steps[0];
  for (const GpuStep& step : list.steps) {
    if (step.kind != GpuStep::Kind::kGemm) continue;
    const auto known = std::find_if(
        samples.begin(), samples.end(),
        [&](const GemmSample& s) { return s.problem == step.gemm; });
    if (known != samples.end()) {
      known->weights.push_back(step.weight);
      continue;
    }
    samples.push_back({.problem = step.gemm,
                       .most_rows = step.rows.Of(list.program->dims),
                       .a = step.in,
                       .out = step.out,
                       .residual = step.residual,
                       .weights = {step.weight}});
  }
  if (samples.empty()) return absl::OkStatus();
  DS_RETURN_IF_ERROR(FillArena(*run, run->gemms->shape(samples[0].problem).in));
  return TuneGemms(*run->gpu, samples, options, run->stream.get(),
                   run->gemms.get());
}

absl::Status KeepChoices(const CudaRun& run) {
  if (run.gemms == nullptr) return absl::OkStatus();
  if (run.gemm_cache_path.empty()) {
    return absl::FailedPreconditionError(
        "no folder to keep the choices in; set XDG_CACHE_HOME or HOME");
  }
  return WriteGemmCache(run.gemm_cache_path, FormatGemmChoices(*run.gemms));
}

}  // namespace deepslice
