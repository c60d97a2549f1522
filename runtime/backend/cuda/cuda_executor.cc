#include "runtime/backend/cuda/cuda_executor.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "runtime/backend/cpu/batch_check.h"
#include "runtime/backend/cuda/cuda_run.h"
#include "runtime/backend/cuda/step_inputs.h"
#include "runtime/backend/cuda/step_timer.h"
#include "runtime/sampler.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// Steps under way at most: one runs, the next waits behind it.
constexpr int kFlights = 2;
// Looks at an event before a waiting thread lets others run, and before it
// sleeps between looks.
constexpr int kSpins = 2000, kYields = 20'000;
constexpr timespec kNap = {0, 50'000};

// Values of input "types".
int64_t TypesOf(const Plan& plan) {
  const fb::EncoderSettings* e = plan.fb().encoder();
  return e == nullptr ? 0 : e->types();
}

// Elements as floats; false for a type that no values have.
bool ToFloats(DType type, const char* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) {
    uint16_t half;
    int32_t whole;
    switch (type) {
      case DType::kF32:
        std::memcpy(to + i, from + 4 * i, 4);
        break;
      case DType::kF16:
      case DType::kBF16:
        std::memcpy(&half, from + 2 * i, 2);
        to[i] = type == DType::kF16 ? F16ToFloat(half) : BF16ToFloat(half);
        break;
      case DType::kI32:
        std::memcpy(&whole, from + 4 * i, 4);
        to[i] = static_cast<float>(whole);
        break;
      default:
        return false;
    }
  }
  return true;
}

class CudaExecutorImpl final : public CudaExecutor {
 public:
  CudaExecutorImpl(std::unique_ptr<CudaRun> run, const CudaOptions& options)
      : options_(options),
        run_(std::move(run)),
        gpu_(*run_->gpu),
        cuda_(run_->gpu->cuda()),
        check_(run_->sizes.run, run_->plan->fb().vocab_size(),
               TypesOf(*run_->plan), run_->plan->fb().states()->size() > 0) {
    keeps_sampled_ = true;
    for (const ProgramSizes& p : run_->sizes.programs) {
      keeps_sampled_ &= p.samples;
    }
    const GpuSizes& s = run_->sizes;
    table_.assign(s.run.num_blocks, -1);
    sampled_.reserve(s.programs[0].dims[s.programs[0].rows_dim]);
    host_samplers_.reserve(sampled_.capacity());
    if (!keeps_sampled_) scratch_.reserve(vocab_size());
    for (const ProgramSizes& p : s.programs) dims_.push_back(p.dims);
    counts_ = dims_;
  }

  ~CudaExecutorImpl() override {
    if (!gpu_.MakeCurrent().ok()) return;
    // Nothing may be under way when what it works on goes. After a failure
    // whatever frees the memory waits, or the ranks' watchdog ends the process.
    for (const Flight& f : flights_) {
      if (f.used && failed_.ok()) failed_ = WaitFor(f.done.get());
    }
  }

  absl::Status Init() {
    for (Flight& f : flights_) {
      DS_ASSIGN_OR_RETURN(f.uploaded, GpuEvent::Make(gpu_));
      DS_ASSIGN_OR_RETURN(f.ran, GpuEvent::Make(gpu_));
      DS_ASSIGN_OR_RETURN(f.done, GpuEvent::Make(gpu_));
    }
    return absl::OkStatus();
  }

  absl::Status Execute(const StepBatch& batch) override;
  absl::StatusOr<const float*> Logits() override;
  absl::StatusOr<std::vector<NamedOutput>> Outputs() override;
  bool encodes() const override { return run_->sizes.run.encodes; }
  bool reads_types() const override { return run_->sizes.run.reads_types; }
  int64_t patch_elements() const override { return run_->sizes.run.pixel_cols; }
  int64_t max_image_tokens() const override {
    const ProgramSizes& p = run_->sizes.programs[0];
    return p.image_tokens_dim < 0 ? 0 : p.dims[p.image_tokens_dim];
  }
  int64_t max_images() const override {
    const ProgramSizes& p = run_->sizes.programs[0];
    return p.images_dim < 0 ? 0 : p.dims[p.images_dim];
  }
  int64_t max_source_tokens() const override {
    const ProgramSizes& p = run_->sizes.programs[0];
    return p.sources_dim < 0 ? 0 : p.dims[p.sources_dim];
  }
  int32_t decoder_start() const override {
    const fb::EncoderSettings* e = run_->plan->fb().encoder();
    return e == nullptr ? -1 : e->start_id();
  }
  absl::StatusOr<absl::Span<const int32_t>> Sampled() override;
  bool keeps_sampled() const override { return keeps_sampled_; }
  const fb::Program* last_program() const override {
    return step_ > 0 ? run_->sizes.programs[program_].program : nullptr;
  }
  void SetObserver(Observer observer) override {
    observer_ = std::move(observer);
  }
  bool horizons_are_prompts() const override {
    return run_->sizes.run.horizons_are_prompts;
  }
  const RunLimits& limits() const override { return run_->sizes.run.limits; }
  int64_t blocks_per_seq() const override {
    return run_->sizes.run.blocks_per_seq;
  }
  int64_t num_blocks() const override { return run_->sizes.run.num_blocks; }
  int64_t block_tokens() const override { return run_->sizes.run.block_tokens; }
  int64_t vocab_size() const override { return run_->plan->fb().vocab_size(); }
  std::vector<MemoryLine> memory() const override;

  double weights_seconds() const override { return run_->weights_seconds; }
  absl::Status TimeSteps(bool on) override;
  absl::StatusOr<std::vector<StepTiming>> TakeTimings() override {
    return timer_ == nullptr ? std::vector<StepTiming>() : timer_->Take();
  }
  absl::StatusOr<double> MeasureReadBandwidth() override;
  absl::Status Tune(const TuneOptions& options) override {
    DS_RETURN_IF_ERROR(failed_);
    DS_RETURN_IF_ERROR(gpu_.MakeCurrent());
    DS_RETURN_IF_ERROR(TuneRun(run_.get(), options));
    return KeepChoices(*run_);
  }
  const DeviceInfo& device() const override { return gpu_.info(); }
  absl::string_view target() const override {
    const flatbuffers::String* name = run_->target->name();
    return absl::string_view(name->data(), name->size());
  }

 private:
  // One of the two steps that may be under way.
  struct Flight {
    GpuEvent uploaded, ran, done;
    bool used = false;
    int64_t sampled_rows = 0;
  };

  absl::Status Run(const StepBatch& batch);
  absl::Status Keep(const absl::Status& status);
  absl::Status Upload(const StepBatch& batch, int parity);
  absl::Status UploadTable(const StepBatch& batch, int parity);
  absl::Status RunProgram(int parity);
  absl::Status StartSteps(const GpuStepList& list);
  absl::Status ObserveSteps(const GpuStepList& list);
  absl::Status Observe(const GpuStepList& list, int index);
  absl::Status Capture(CudaRun::Program& program, int parity);
  absl::Status WaitFor(CUevent event);
  absl::Status Drain();
  absl::StatusOr<absl::Span<const int32_t>> SampleOnHost();

  absl::Status Check(CudaResult result, const char* what) const {
    if (result == kCudaSuccess) return absl::OkStatus();
    return gpu_.Check(result, gpu_.info().Text(), ": ", what);
  }
  GpuStepContext Context() const {
    return {&gpu_, run_->gemms.get(), run_->comm.get(), run_->stream.get()};
  }

  const CudaOptions options_;
  const std::unique_ptr<CudaRun> run_;
  const GpuContext& gpu_;
  const CudaApi& cuda_;
  BatchCheck check_;
  bool keeps_sampled_ = false;
  Flight flights_[kFlights];
  int64_t step_ = 0;  // parity: which flight it takes
  int program_ = 0;   // of the last step
  int64_t previous_rows_ = 0;
  // Flights whose ids were not asked for yet, the oldest first.
  int pending_[kFlights] = {0, 0};
  int num_pending_ = 0;
  std::vector<int32_t> table_;                // as on the device
  std::vector<std::vector<int64_t>> dims_;    // of launches, by program
  std::vector<std::vector<int64_t>> counts_;  // of the step, for observers
  std::vector<int32_t> sampled_, scratch_;
  std::vector<SamplerRecord> host_samplers_;
  absl::Status failed_;  // of the first step that failed
  Observer observer_;
  std::vector<char> observed_bytes_;
  std::vector<float> observed_;
  std::unique_ptr<StepTimer> timer_;  // nullptr: off
};

absl::Status CudaExecutorImpl::WaitFor(CUevent event) {
  for (int spins = 0;; ++spins) {
    const CudaResult result = cuda_.EventQuery(event);
    if (result == kCudaSuccess) return absl::OkStatus();
    if (result != kCudaNotReady) {
      return gpu_.Check(
          result, gpu_.info().Text(), ": program ",
          absl::CHexEscape(
              run_->sizes.programs[program_].program->name()->c_str()),
          " of step ", step_ - 1,
          options_.sync_steps
              ? ""
              : "; run again with DEEPSLICE_SYNC_STEPS=1 to learn at which "
                "kernel");
    }
    // A lost rank's part of a collective never comes.
    if (run_->comm != nullptr) DS_RETURN_IF_ERROR(run_->comm->Check());
    if (spins > kYields) {
      nanosleep(&kNap, nullptr);
    } else if (spins > kSpins) {
      sched_yield();
    }
  }
}

absl::Status CudaExecutorImpl::Drain() {
  GpuEvent& event = flights_[step_ % kFlights].ran;  // not in use now
  DS_RETURN_IF_ERROR(Check(cuda_.EventRecord(event.get(), run_->stream.get()),
                           "recording an event"));
  return WaitFor(event.get());
}

absl::Status CudaExecutorImpl::UploadTable(const StepBatch& batch, int parity) {
  const size_t bytes = 4 * batch.blocks.size();
  if (std::memcmp(table_.data(), batch.blocks.data(), bytes) == 0) {
    return absl::OkStatus();
  }
  std::memcpy(table_.data(), batch.blocks.data(), bytes);
  std::memcpy(run_->host_table(parity), batch.blocks.data(), bytes);
  // In the steps' own order: the one before may still read the old table.
  return Check(cuda_.MemcpyHtoDAsync(
                   run_->staging.data() + run_->sizes.table_at,
                   run_->host_table(parity), bytes, run_->stream.get()),
               "copying the block table");
}

absl::Status CudaExecutorImpl::Upload(const StepBatch& batch, int parity) {
  const ProgramSizes& program = run_->sizes.programs[program_];
  DS_ASSIGN_OR_RETURN(const StepInfo info,
                      WriteStepInputs(program, blocks_per_seq(), batch,
                                      run_->host_block(parity)));
  std::vector<int64_t>& counts = counts_[program_];
  counts[program.tokens_dim] = info.tokens;
  counts[program.rows_dim] = info.rows;
  if (program.tiles_dim >= 0) counts[program.tiles_dim] = info.tiles;
  if (program.image_tokens_dim >= 0) {
    counts[program.image_tokens_dim] = info.image_tokens;
  }
  if (program.images_dim >= 0) counts[program.images_dim] = info.images;
  if (program.sources_dim >= 0) {
    counts[program.sources_dim] = info.source_tokens;
  }
  // Launches of a bucket are captured, so they are of its full size.
  if (program.program->bucket() == 0) dims_[program_] = counts;

  Flight& flight = flights_[parity];
  const CUstream stream = run_->upload.get();
  DS_RETURN_IF_ERROR(
      Check(cuda_.MemcpyHtoDAsync(
                run_->staging.data() + run_->sizes.inputs_at[parity],
                run_->host_block(parity), program.inputs.bytes, stream),
            "copying a step's inputs"));
  DS_RETURN_IF_ERROR(Check(cuda_.EventRecord(flight.uploaded.get(), stream),
                           "recording an event"));
  DS_RETURN_IF_ERROR(
      Check(cuda_.StreamWaitEvent(run_->stream.get(), flight.uploaded.get(), 0),
            "waiting for an event"));
  return UploadTable(batch, parity);
}

absl::Status CudaExecutorImpl::StartSteps(const GpuStepList& list) {
  const GpuStepContext context = Context();
  for (size_t i = 0; i < list.steps.size(); ++i) {
    DS_RETURN_IF_ERROR(
        StartGpuStep(context, list, static_cast<int>(i), dims_[program_]));
  }
  return absl::OkStatus();
}

absl::Status CudaExecutorImpl::Observe(const GpuStepList& list, int index) {
  const GpuStep& step = list.steps[index];
  if (step.result == nullptr || !observer_) return absl::OkStatus();
  const auto type = static_cast<DType>(step.result->dtype());
  const auto& extents = *step.result->extents();
  const auto size_of = [&](const fb::Extent& e) {
    return e.dim() < 0 ? e.size() : counts_[program_][e.dim()];
  };
  const int64_t rows = size_of(*extents.Get(0));
  int64_t cols = 1;
  for (uint32_t i = 1; i < extents.size(); ++i)
    cols *= size_of(*extents.Get(i));
  const int64_t count = rows * cols;
  observed_bytes_.resize(count * DTypeSize(type));
  observed_.resize(count);
  if (count > 0) {
    DS_RETURN_IF_ERROR(
        Check(cuda_.MemcpyDtoHAsync(observed_bytes_.data(), step.result_at,
                                    observed_bytes_.size(), run_->stream.get()),
              "copying a step's result"));
    DS_RETURN_IF_ERROR(Drain());
  }
  if (!ToFloats(type, observed_bytes_.data(), count, observed_.data())) {
    return absl::OkStatus();  // scratch
  }
  observer_(index, observed_.data(), rows, cols);
  return absl::OkStatus();
}

absl::Status CudaExecutorImpl::ObserveSteps(const GpuStepList& list) {
  const GpuStepContext context = Context();
  if (timer_ != nullptr) DS_RETURN_IF_ERROR(timer_->Begin(context.stream));
  for (size_t i = 0; i < list.steps.size(); ++i) {
    const int index = static_cast<int>(i);
    DS_RETURN_IF_ERROR(StartGpuStep(context, list, index, dims_[program_]));
    if (timer_ != nullptr) DS_RETURN_IF_ERROR(timer_->Mark(context.stream));
    if (options_.sync_steps) {
      DS_RETURN_IF_ERROR(Annotate(Drain(), GpuStepText(list, index)));
    }
    DS_RETURN_IF_ERROR(
        Annotate(Observe(list, index), GpuStepText(list, index)));
  }
  if (timer_ == nullptr) return absl::OkStatus();
  DS_RETURN_IF_ERROR(Drain());
  return timer_->End(list);
}

absl::Status CudaExecutorImpl::Capture(CudaRun::Program& program, int parity) {
  const CUstream stream = run_->stream.get();
  DS_RETURN_IF_ERROR(
      Check(cuda_.StreamBeginCapture(stream, kCaptureThreadLocal),
            "beginning a capture"));
  const absl::Status started = StartSteps(program.steps[parity]);
  CUgraph graph = nullptr;
  const CudaResult ended = cuda_.StreamEndCapture(stream, &graph);
  const absl::Cleanup destroy = [&] {
    if (graph != nullptr) cuda_.GraphDestroy(graph);
  };
  DS_RETURN_IF_ERROR(started);
  DS_RETURN_IF_ERROR(Check(ended, "ending a capture"));
  CUgraphExec exec = nullptr;
  const CudaResult made = cuda_.GraphInstantiate(&exec, graph, 0);
  DS_RETURN_IF_ERROR(Check(made, "making a graph"));
  program.graph[parity] = GpuGraph(&cuda_, exec);
  return Check(cuda_.GraphUpload(exec, stream), "uploading a graph");
}

absl::Status CudaExecutorImpl::RunProgram(int parity) {
  CudaRun::Program& program = run_->programs[program_];
  GpuStepList& list = program.steps[parity];
  if (observer_ || timer_ != nullptr || options_.sync_steps) {
    return ObserveSteps(list);
  }
  // The first run loads what libraries load late, which a capture must not.
  const bool graphs = options_.use_graphs && program.runs++ > 0 &&
                      run_->sizes.programs[program_].program->bucket() > 0;
  if (!graphs) return StartSteps(list);
  if (program.graph[parity].get() == nullptr) {
    DS_RETURN_IF_ERROR(Capture(program, parity));
  }
  return Check(
      cuda_.GraphLaunch(program.graph[parity].get(), run_->stream.get()),
      "launching a graph");
}

absl::Status CudaExecutorImpl::Run(const StepBatch& batch) {
  const int parity = static_cast<int>(step_ % kFlights);
  Flight& flight = flights_[parity];
  if (flight.used) DS_RETURN_IF_ERROR(WaitFor(flight.done.get()));
  program_ = ChooseProgram(run_->sizes, batch);
  ++step_;
  flight.used = true;
  previous_rows_ = static_cast<int64_t>(batch.rows.size());
  flight.sampled_rows = static_cast<int64_t>(batch.samplers.size());
  DS_RETURN_IF_ERROR(Upload(batch, parity));
  DS_RETURN_IF_ERROR(RunProgram(parity));

  CUstream last = run_->stream.get();
  if (!batch.samplers.empty() && keeps_sampled_) {
    DS_RETURN_IF_ERROR(
        Check(cuda_.EventRecord(flight.ran.get(), last), "recording an event"));
    last = run_->download.get();
    DS_RETURN_IF_ERROR(Check(cuda_.StreamWaitEvent(last, flight.ran.get(), 0),
                             "waiting for an event"));
    DS_RETURN_IF_ERROR(
        Check(cuda_.MemcpyDtoHAsync(
                  run_->host_ids(parity),
                  run_->staging.data() + run_->sizes.sampled_at[parity],
                  4 * flight.sampled_rows, last),
              "copying the drawn ids"));
  }
  if (!batch.samplers.empty()) pending_[num_pending_++] = parity;
  if (!keeps_sampled_) {
    host_samplers_.assign(batch.samplers.begin(), batch.samplers.end());
  }
  return Check(cuda_.EventRecord(flight.done.get(), last),
               "recording an event");
}

absl::Status CudaExecutorImpl::Execute(const StepBatch& batch) {
  DS_RETURN_IF_ERROR(failed_);
  DS_RETURN_IF_ERROR(gpu_.MakeCurrent());
  DS_RETURN_IF_ERROR(check_.Check(batch, keeps_sampled_ ? previous_rows_ : 0));
  if (static_cast<int64_t>(batch.samplers.size()) > limits().max_batch) {
    return absl::InvalidArgumentError(
        absl::StrCat("step: ", batch.samplers.size(), " samplers; at most ",
                     limits().max_batch,
                     ", one for each sequence, are "
                     "allowed"));
  }
  if (!batch.samplers.empty() && num_pending_ == (keeps_sampled_ ? 2 : 1)) {
    return absl::InternalError(
        "step: the ids of the steps before were not asked for");
  }
  return Keep(Run(batch));
}

// The first failure ends the run, and the other ranks hear of it.
absl::Status CudaExecutorImpl::Keep(const absl::Status& status) {
  failed_ = status;
  if (!failed_.ok() && run_->comm != nullptr) run_->comm->Abort(failed_);
  return failed_;
}

absl::StatusOr<std::vector<NamedOutput>> CudaExecutorImpl::Outputs() {
  if (!encodes()) return Executor::Outputs();
  if (step_ == 0) return absl::FailedPreconditionError("no step has run");
  DS_RETURN_IF_ERROR(failed_);
  DS_RETURN_IF_ERROR(gpu_.MakeCurrent());
  const int parity = static_cast<int>((step_ - 1) % kFlights);
  DS_RETURN_IF_ERROR(Keep(WaitFor(flights_[parity].done.get())));
  const ProgramSizes& sizes = run_->sizes.programs[program_];
  const fb::Program& program = *sizes.program;
  const GpuStepList& list = run_->programs[program_].steps[parity];
  float* to = reinterpret_cast<float*>(run_->logits.data());
  std::vector<NamedOutput> outputs;
  for (size_t i = 0; i < list.outputs.size(); ++i) {
    const fb::Buffer& b = *program.buffers()->Get(program.outputs()->Get(i));
    const int dim = b.extents()->Get(0)->dim();
    NamedOutput o;
    o.name = b.name()->str();
    o.of = dim == sizes.tokens_dim ? NamedOutput::Of::kToken
           : dim == sizes.rows_dim ? NamedOutput::Of::kRow
                                   : NamedOutput::Of::kImage;
    o.rows = counts_[program_][dim];
    o.cols = b.extents()->Get(1)->size();
    o.data = to;
    const auto type = static_cast<DType>(b.dtype());
    observed_bytes_.resize(o.rows * o.cols * DTypeSize(type));
    if (!observed_bytes_.empty()) {
      DS_RETURN_IF_ERROR(Keep(Check(
          cuda_.MemcpyDtoHAsync(observed_bytes_.data(), list.outputs[i],
                                observed_bytes_.size(), run_->stream.get()),
          "copying an output")));
      DS_RETURN_IF_ERROR(Keep(Drain()));
    }
    ToFloats(type, observed_bytes_.data(), o.rows * o.cols, to);
    to += o.rows * o.cols;
    outputs.push_back(std::move(o));
  }
  return outputs;
}

absl::StatusOr<const float*> CudaExecutorImpl::Logits() {
  if (encodes()) {
    return absl::FailedPreconditionError(
        "the plan is an encoder; it has no next token");
  }
  DS_RETURN_IF_ERROR(failed_);
  DS_RETURN_IF_ERROR(gpu_.MakeCurrent());
  auto* logits = reinterpret_cast<float*>(run_->logits.data());
  if (step_ == 0 || previous_rows_ == 0) return logits;
  const int parity = static_cast<int>((step_ - 1) % kFlights);
  DS_RETURN_IF_ERROR(Keep(WaitFor(flights_[parity].done.get())));
  DS_RETURN_IF_ERROR(Keep(Check(
      cuda_.MemcpyDtoHAsync(
          logits, run_->programs[program_].steps[parity].outputs[0],
          previous_rows_ * vocab_size() * sizeof(float), run_->stream.get()),
      "copying logits")));
  DS_RETURN_IF_ERROR(Keep(Drain()));
  return logits;
}

absl::StatusOr<absl::Span<const int32_t>> CudaExecutorImpl::SampleOnHost() {
  sampled_.clear();
  DS_ASSIGN_OR_RETURN(const float* logits, Logits());
  for (const SamplerRecord& s : host_samplers_) {
    const absl::StatusOr<int32_t> id =
        SampleToken(logits, vocab_size(), ParamsOf(s),
                    static_cast<int64_t>(s.position), &scratch_);
    sampled_.push_back(id.ok() ? *id : kNoSampledId);
    logits += vocab_size();
  }
  return absl::MakeConstSpan(sampled_);
}

absl::StatusOr<absl::Span<const int32_t>> CudaExecutorImpl::Sampled() {
  DS_RETURN_IF_ERROR(failed_);
  DS_RETURN_IF_ERROR(gpu_.MakeCurrent());
  if (num_pending_ == 0) return absl::Span<const int32_t>();
  const int parity = pending_[0];
  pending_[0] = pending_[1];
  --num_pending_;
  if (!keeps_sampled_) return SampleOnHost();
  const Flight& flight = flights_[parity];
  DS_RETURN_IF_ERROR(Keep(WaitFor(flight.done.get())));
  sampled_.assign(run_->host_ids(parity),
                  run_->host_ids(parity) + flight.sampled_rows);
  return absl::MakeConstSpan(sampled_);
}

std::vector<Executor::MemoryLine> CudaExecutorImpl::memory() const {
  const GpuSizes& s = run_->sizes;
  std::vector<MemoryLine> lines = {
      {"weights", s.weights_bytes, run_->weights.bytes()},
      {"cache", s.cache_bytes, run_->cache.bytes()},
      {"arena", s.arena_bytes, run_->arena.bytes()},
      {"staging", s.staging_bytes, run_->staging.bytes()},
      {"workspace", s.workspace_bytes, run_->workspace.bytes(), false},
      {"modules", 0, run_->modules_bytes, false},
      {"context", 0, run_->context_bytes, false}};
  if (run_->comm != nullptr) {
    lines.push_back({"communicator", 0, run_->comm->device_bytes(), false});
  }
  return lines;
}

absl::Status CudaExecutorImpl::TimeSteps(bool on) {
  DS_RETURN_IF_ERROR(gpu_.MakeCurrent());
  timer_ = nullptr;
  if (!on) return absl::OkStatus();
  size_t most = 0;
  for (const CudaRun::Program& p : run_->programs) {
    most = std::max(most, p.steps[0].steps.size());
  }
  DS_ASSIGN_OR_RETURN(timer_, StepTimer::Make(gpu_, most));
  return absl::OkStatus();
}

absl::StatusOr<double> CudaExecutorImpl::MeasureReadBandwidth() {
  DS_RETURN_IF_ERROR(failed_);
  DS_RETURN_IF_ERROR(gpu_.MakeCurrent());
  DS_RETURN_IF_ERROR(Drain());
  return MeasureBandwidth(gpu_, run_->kernels, run_->stream.get());
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaExecutor>> PrepareCuda(
    const GpuApis& apis, const Plan& plan, const RunLimits& limits,
    const CudaOptions& options) {
  if (plan.fb().vocab_size() < 1) {
    return absl::FailedPreconditionError(
        "the plan's vocab_size is 0; a step program needs one");
  }
  DS_ASSIGN_OR_RETURN(std::unique_ptr<CudaRun> run,
                      PrepareCudaRun(apis, plan, limits, options));
  auto executor = std::make_unique<CudaExecutorImpl>(std::move(run), options);
  DS_RETURN_IF_ERROR(executor->Init());
  return executor;
}

}  // namespace deepslice
