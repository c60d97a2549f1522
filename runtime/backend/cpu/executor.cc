// The CPU back end: prepares memory and the flat list of a step program, then
// walks it at each step.
#include "runtime/executor.h"

#include <sys/mman.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "runtime/backend/cpu/batch_check.h"
#include "runtime/backend/cpu/mapping.h"
#include "runtime/backend/cpu/run_sizes.h"
#include "runtime/backend/cpu/step_list.h"
#include "runtime/sampler.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// Values of input "types".
int64_t TypesOf(const Plan& plan) {
  const fb::EncoderSettings* e = plan.fb().encoder();
  return e == nullptr ? 0 : e->types();
}

int32_t DecoderStartOf(const Plan& plan) {
  const fb::EncoderSettings* e = plan.fb().encoder();
  return e == nullptr ? -1 : e->start_id();
}

class CpuExecutor final : public Executor {
 public:
  CpuExecutor(const Plan& plan, const fb::Program& program, RunSizes sizes,
              Comm* comm)
      : program_(program),
        sizes_(std::move(sizes)),
        vocab_(plan.fb().vocab_size()),
        decoder_start_(DecoderStartOf(plan)),
        comm_(comm),
        check_(sizes_, vocab_, TypesOf(plan), plan.fb().states()->size() > 0),
        dims_(sizes_.dims) {}

  absl::Status Allocate(const Plan& plan, const fb::Program& program,
                        ThreadPool* pool);

  absl::Status Execute(const StepBatch& batch) override;
  absl::StatusOr<const float*> Logits() override {
    if (list_.logits == nullptr) {
      return absl::FailedPreconditionError(
          "the plan is an encoder; it has no next token");
    }
    return list_.logits;
  }
  absl::StatusOr<std::vector<NamedOutput>> Outputs() override;
  bool encodes() const override { return sizes_.encodes; }
  int64_t max_source_tokens() const override {
    return DimOrZero(sizes_.sources_dim);
  }
  int64_t max_image_tokens() const override {
    return DimOrZero(sizes_.image_tokens_dim);
  }
  int32_t decoder_start() const override { return decoder_start_; }
  int64_t patch_elements() const override { return sizes_.pixel_cols; }
  int64_t max_images() const override { return DimOrZero(sizes_.images_dim); }
  bool reads_types() const override { return sizes_.reads_types; }
  absl::StatusOr<absl::Span<const int32_t>> Sampled() override;
  void SetObserver(Observer observer) override {
    observer_ = std::move(observer);
  }
  const fb::Program* last_program() const override {
    return step_ > 0 ? &program_ : nullptr;
  }
  bool horizons_are_prompts() const override {
    return sizes_.horizons_are_prompts;
  }
  const RunLimits& limits() const override { return sizes_.limits; }
  int64_t blocks_per_seq() const override { return sizes_.blocks_per_seq; }
  int64_t num_blocks() const override { return sizes_.num_blocks; }
  int64_t block_tokens() const override { return sizes_.block_tokens; }
  int64_t vocab_size() const override { return vocab_; }
  std::vector<MemoryLine> memory() const override {
    return {{"arena", sizes_.arena_bytes, arena_.bytes()},
            {"cache", sizes_.cache_bytes, cache_.bytes()},
            {"workspace", list_.scratch_bytes, scratch_.bytes(), false}};
  }

 private:
  int64_t DimOrZero(int dim) const { return dim < 0 ? 0 : sizes_.dims[dim]; }
  void Fill(const std::array<const void*, kNumInputs>& inputs,
            ResolvedStep* step) const;
  absl::Status Run(const ResolvedStep& step);

  const fb::Program& program_;
  const RunSizes sizes_;
  const int64_t vocab_;
  const int32_t decoder_start_;
  Comm* const comm_;
  BatchCheck check_;
  Mapping arena_, cache_, scratch_;
  StepList list_;
  std::vector<int64_t> dims_;  // of the current step
  int64_t step_ = 0;
  Observer observer_;
  std::vector<SamplerRecord> samplers_;  // of the last step
  std::vector<int32_t> sampled_, sample_scratch_;
};

// Refuses what can't fit even alone on this machine, before the kernel's
// out-of-memory killer does.
absl::Status CheckFits(const RunSizes& sizes, int64_t scratch_bytes) {
  struct sysinfo info;
  if (sysinfo(&info) != 0) return absl::OkStatus();
  const double have = static_cast<double>(info.totalram) * info.mem_unit;
  const double need = static_cast<double>(sizes.arena_bytes) +
                      static_cast<double>(sizes.cache_bytes) +
                      static_cast<double>(scratch_bytes);
  if (need <= have) return absl::OkStatus();
  const auto mib = [](double bytes) {
    return absl::StrCat(static_cast<int64_t>(bytes / (1 << 20)), " MiB");
  };
  return absl::ResourceExhaustedError(absl::StrCat(
      "the run needs ", mib(need), ": cache ", mib(sizes.cache_bytes),
      ", arena ", mib(sizes.arena_bytes), ", scratch ", mib(scratch_bytes),
      "; this machine has ", mib(have),
      "; lower --max-batch, --max-seq-len or --max-step-tokens"));
}

absl::Status CpuExecutor::Allocate(const Plan& plan, const fb::Program& program,
                                   ThreadPool* pool) {
  samplers_.reserve(sizes_.max_rows);
  sampled_.reserve(sizes_.max_rows);
  if (!sizes_.encodes) sample_scratch_.reserve(vocab_);
  DS_RETURN_IF_ERROR(CheckFits(sizes_, 0));
  DS_RETURN_IF_ERROR(plan.FillSynthetic(pool->num_threads()));
  DS_ASSIGN_OR_RETURN(arena_, Mapping::Make(sizes_.arena_bytes, "arena"));
  DS_ASSIGN_OR_RETURN(cache_, Mapping::Make(sizes_.cache_bytes, "cache"));
  DS_ASSIGN_OR_RETURN(list_, ResolveSteps(plan, program, sizes_, arena_.data(),
                                          cache_.data(), pool->num_threads()));
  DS_RETURN_IF_ERROR(CheckFits(sizes_, list_.scratch_bytes));
  DS_ASSIGN_OR_RETURN(scratch_, Mapping::Make(list_.scratch_bytes, "scratch"));
  for (ResolvedStep& step : list_.steps) {
    step.call.scratch = scratch_.data();
    step.call.pool = pool;
  }
  return absl::OkStatus();
}

void CpuExecutor::Fill(const std::array<const void*, kNumInputs>& inputs,
                       ResolvedStep* step) const {
  CpuCall& call = step->call;
  for (int i = 0; i < step->num_operands; ++i) {
    if (step->rows_dim[i] >= 0) call.in[i].rows = dims_[step->rows_dim[i]];
    if (step->input[i] >= 0) call.in[i].data = inputs[step->input[i]];
  }
  if (step->out_rows_dim >= 0) call.out_rows = dims_[step->out_rows_dim];
}

absl::Status CpuExecutor::Run(const ResolvedStep& step) {
  const CpuCall& call = step.call;
  const int64_t count = call.out_rows * call.out_cols;
  if (count == 0) return absl::OkStatus();  // in all ranks alike
  if (step.kind == ResolvedStep::kKernel) {
    step.kernel(call);
    return absl::OkStatus();
  }
  const float* in = call.in[0].f32();
  if (step.kind == ResolvedStep::kAllGather) {
    return comm_->AllGatherColumns(in, call.out, call.out_rows, call.out_cols);
  }
  if (in != call.out) std::memcpy(call.out, in, count * sizeof(float));
  if (step.kind == ResolvedStep::kCopy) return absl::OkStatus();
  return comm_->AllReduceSum(call.out, count);
}

absl::Status CpuExecutor::Execute(const StepBatch& batch) {
  DS_RETURN_IF_ERROR(check_.Check(batch));
  const std::array<const void*, kNumInputs> inputs = {
      batch.ids.data(),          batch.positions.data(),
      batch.slots.data(),        batch.blocks.data(),
      batch.rows.data(),         batch.horizons.data(),
      batch.types.data(),        batch.source_ids.data(),
      batch.source_positions.data(), batch.source_slots.data(),
      batch.sources.data(),      batch.image_positions.data(),
      batch.image_slots.data(),  batch.image_rows.data(),
      batch.pixels.data()};
  const auto set = [this](int dim, size_t size) {
    if (dim >= 0) dims_[dim] = static_cast<int64_t>(size);
  };
  set(sizes_.tokens_dim, batch.ids.size());
  set(sizes_.rows_dim, batch.rows.size());
  set(sizes_.sources_dim, batch.source_ids.size());
  set(sizes_.image_tokens_dim, batch.image_positions.size());
  set(sizes_.images_dim, batch.image_rows.size());
  samplers_.assign(batch.samplers.begin(), batch.samplers.end());
  if (comm_ != nullptr) comm_->SetStep(step_);
  ++step_;
  for (size_t i = 0; i < list_.steps.size(); ++i) {
    ResolvedStep& step = list_.steps[i];
    Fill(inputs, &step);
    DS_RETURN_IF_ERROR(Run(step));
    if (observer_) {
      observer_(static_cast<int>(i), step.call.out, step.call.out_rows,
                step.call.out_cols);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<NamedOutput>> CpuExecutor::Outputs() {
  if (!sizes_.encodes) return Executor::Outputs();
  std::vector<NamedOutput> outputs = list_.outputs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    outputs[i].rows = dims_[list_.output_dims[i]];
  }
  return outputs;
}

absl::StatusOr<absl::Span<const int32_t>> CpuExecutor::Sampled() {
  sampled_.clear();
  const float* logits = list_.logits;
  for (const SamplerRecord& s : samplers_) {
    const absl::StatusOr<int32_t> id =
        SampleToken(logits, vocab_, ParamsOf(s),
                    static_cast<int64_t>(s.position), &sample_scratch_);
    sampled_.push_back(id.ok() ? *id : kNoSampledId);
    logits += vocab_;
  }
  return absl::MakeConstSpan(sampled_);
}

absl::StatusOr<const fb::Program*> FindStepProgram(const Plan& plan) {
  for (const auto kind : {fb::ProgramKind::Step, fb::ProgramKind::Encode}) {
    const fb::Program* program = plan.FindProgram("cpu", kind);
    if (program != nullptr) return program;
  }
  std::string targets;
  for (const fb::Target* t : *plan.fb().targets()) {
    absl::StrAppend(&targets, targets.empty() ? "" : ", ",
                    absl::CHexEscape(t->name()->c_str()));
  }
  return absl::FailedPreconditionError(
      absl::StrCat("the plan has no program for the CPU; its targets are ",
                   targets, "; recompile it with --target cpu"));
}

}  // namespace

absl::Status CheckLaunchPlace(const Plan& plan, const Comm* comm) {
  const int world = comm == nullptr ? 1 : comm->size();
  const int rank = comm == nullptr ? 0 : comm->rank();
  if (world == plan.world_size() && rank == plan.rank()) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("the plan is of rank ", plan.rank(), " of ",
                   plan.world_size(), ", the launch of rank ", rank, " of ",
                   world, "; start as many ranks as the plan has"));
}

absl::StatusOr<std::unique_ptr<Executor>> Executor::Prepare(
    const Plan& plan, const RunLimits& limits, Comm* comm, ThreadPool* pool) {
  DS_RETURN_IF_ERROR(CheckLaunchPlace(plan, comm));
  DS_ASSIGN_OR_RETURN(const fb::Program* program, FindStepProgram(plan));
  if (plan.fb().vocab_size() < 1) {
    return absl::FailedPreconditionError(
        "the plan's vocab_size is 0; a step program needs one");
  }
  DS_ASSIGN_OR_RETURN(RunSizes sizes, ResolveSizes(plan, *program, limits));
  auto executor =
      std::make_unique<CpuExecutor>(plan, *program, std::move(sizes), comm);
  DS_RETURN_IF_ERROR(executor->Allocate(plan, *program, pool));
  if (!plan.weights().empty()) {
    // The first step reads every weight once: let the system read ahead.
    const auto at = reinterpret_cast<uintptr_t>(plan.weights().data());
    const uintptr_t page = at & ~uintptr_t{4095};
    madvise(reinterpret_cast<void*>(page), plan.weights().size() + (at - page),
            MADV_WILLNEED);
  }
  return executor;
}

}  // namespace deepslice
