#include "runtime/api/session.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/backend/cuda/target_choice.h"
#include "runtime/comm/nccl/nccl_comm.h"
#include "runtime/comm/nccl/nccl_environment.h"
#include "runtime/comm/nccl/one_shot.h"
#include "runtime/comm/shm.h"
#include "schema/base/file.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

struct LimitName {
  const char* flag;
  int64_t RunLimits::*field;
};
constexpr LimitName kLimits[] = {
    {"--max-batch", &RunLimits::max_batch},
    {"--max-step-tokens", &RunLimits::max_step_tokens},
    {"--max-seq-len", &RunLimits::max_seq_len},
};

// More threads read no faster than the bus takes it.
constexpr int kMostReaders = 12;

}  // namespace

int64_t CompiledCeiling(const Plan& plan, absl::string_view dim,
                        absl::string_view target) {
  int64_t ceiling = 0;
  for (const fb::Target* t : *plan.fb().targets()) {
    const absl::string_view name(t->name()->data(), t->name()->size());
    if (!target.empty() && target != name) continue;
    for (const fb::Program* p : *t->programs()) {
      const bool runs = p->kind() == fb::ProgramKind::Step ||
                        p->kind() == fb::ProgramKind::Encode;
      if (!runs || p->bucket() > 0) continue;
      for (const fb::NamedDim* d : *p->dims()) {
        if (dim == absl::string_view(d->name()->data(), d->name()->size())) {
          ceiling = std::max(ceiling, d->maximum());
        }
      }
    }
  }
  return ceiling;
}

int AvailableCores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

absl::StatusOr<std::unique_ptr<Session>> Session::Connect(
    const SessionOptions& options, const Manifest& manifest) {
  auto session = std::unique_ptr<Session>(new Session(options));
  if (options.place.world > 1) {
    ShmOptions shm = {.rank = options.place.rank, .world = options.place.world};
    shm.sockets = options.sockets;
    if (options.sockets.empty()) {
      shm.address = DefaultShmAddress(options.launch_id);
    }
    shm.plan_set_id = manifest.plan_set_id;
    shm.init_timeout = options.device.init_timeout;
    shm.on_slow = options.on_slow;
    DS_ASSIGN_OR_RETURN(session->comm_, ConnectShm(shm));
  }
  return session;
}

std::unique_ptr<Session> Session::Over(const SessionOptions& options,
                                       std::unique_ptr<Comm> comm) {
  auto session = std::unique_ptr<Session>(new Session(options));
  session->comm_ = std::move(comm);
  return session;
}

absl::Status Session::Load(const ChooseLimits& choose) {
  const absl::Status status = LoadAlone(choose);
  if (!status.ok() && comm_ != nullptr) comm_->Abort(status);
  return status;
}

absl::Status Session::LoadAlone(const ChooseLimits& choose) {
  const int threads =
      options_.threads > 0
          ? options_.threads
          : std::max(1, AvailableCores() / options_.place.local_world);
  // The weights are checked on their way to the device.
  DS_ASSIGN_OR_RETURN(
      Plan plan, Plan::Load(options_.plan, rank(), {.check_weights = false}));
  plan_ = std::make_unique<Plan>(std::move(plan));
  DS_ASSIGN_OR_RETURN(const bool on_gpu, AgreeOnDevice());
  if (!on_gpu) {
    DS_RETURN_IF_ERROR(plan_->CheckWeights(threads, options_.on_loaded));
  }
  DS_ASSIGN_OR_RETURN(const RunLimits limits, AgreeOnLimits(choose));
  if (on_gpu) {
    DS_RETURN_IF_ERROR(PrepareOnGpu(limits, threads));
  } else {
    pool_ = std::make_unique<ThreadPool>(threads);
    DS_ASSIGN_OR_RETURN(
        executor_, Executor::Prepare(*plan_, limits, comm_.get(), pool_.get()));
  }
  if (rank() == 0) engine_ = Engine::Create(executor_.get(), comm_.get());
  return absl::OkStatus();
}

int Session::Gpu() const {
  const DeviceChoice& choice = options_.device;
  if (choice.ordinal >= 0) return choice.ordinal;
  return choice.share_gpu ? 0 : options_.place.local_rank;
}

absl::StatusOr<bool> Session::AgreeOnDevice() {
  using Kind = DeviceChoice::Kind;
  const Kind kind = options_.device.kind;
  bool has_cpu = false, has_gpu = false;
  for (const fb::Target* t : *plan_->fb().targets()) {
    const bool cpu = t->name()->string_view() == "cpu";
    (cpu ? has_cpu : has_gpu) = true;
  }
  int32_t on_gpu = kind == Kind::kCuda || (kind == Kind::kAuto && has_gpu);
  absl::Status no_gpu;
  if (on_gpu != 0) no_gpu = FindGpu();
  if (!no_gpu.ok() && kind == Kind::kAuto) {
    if (has_cpu) {
      on_gpu = 0;
      // Where there is a driver, a GPU was to be expected.
      if (rank() == 0 && IsDriverInstalled() && options_.on_note) {
        options_.on_note(
            absl::StrCat("running on the CPU: ", no_gpu.message()));
      }
    }
    no_gpu = Annotate(no_gpu, options_.plan, " has no target cpu, and here is ",
                      "no GPU for it");
  }
  if (on_gpu != 0 && rank() == 0) DS_RETURN_IF_ERROR(no_gpu);
  if (comm_ != nullptr) {
    int32_t first = on_gpu;
    DS_RETURN_IF_ERROR(comm_->Broadcast(&first, sizeof(first)));
    if (kind != Kind::kAuto && first != on_gpu) {
      return absl::FailedPreconditionError(
          absl::StrCat("rank ", rank(), " was started with --device ",
                       on_gpu != 0 ? "cuda" : "cpu", ", rank 0 runs on ",
                       first != 0 ? "a GPU" : "the CPU",
                       "; give every rank the same flags"));
    }
    on_gpu = first;
    if (on_gpu != 0) DS_RETURN_IF_ERROR(no_gpu);
  }
  if (on_gpu == 0) {
    target_ = "cpu";
    return false;
  }
  if (target_.empty()) DS_RETURN_IF_ERROR(FindGpu());
  return true;
}

absl::Status Session::FindGpu() {
  DS_ASSIGN_OR_RETURN(apis_.cuda, LoadCuda());
  DS_ASSIGN_OR_RETURN(const int gpus, CountDevices(*apis_.cuda));
  if (options_.place.local_world > 1 && options_.device.ordinal < 0 &&
      gpus > 0 && Gpu() >= gpus) {
    return absl::FailedPreconditionError(absl::StrCat(
        "rank ", rank(), " wants a GPU of its own, number ", Gpu(),
        "; this process sees ", gpus, " for ", options_.place.local_world,
        " ranks; use a host with more, or --share-gpu for a test"));
  }
  DS_ASSIGN_OR_RETURN(const DeviceInfo device,
                      DescribeDevice(*apis_.cuda, Gpu()));
  DS_ASSIGN_OR_RETURN(const fb::Target* target, ChooseTarget(*plan_, device));
  target_ = target->name()->str();
  return absl::OkStatus();
}

absl::Status Session::PrepareOnGpu(const RunLimits& limits, int threads) {
  CudaOptions options;
  options.device = Gpu();
  options.comm = comm_.get();
  options.threads = std::min(threads, kMostReaders);
  options.loaded = options_.on_loaded;
  options.cache_folder = UserCacheFolder();
  const char* sync = std::getenv("DEEPSLICE_SYNC_STEPS");
  options.sync_steps = sync != nullptr && *sync != '\0' && *sync != '0';
  if (comm_ != nullptr) {
    SetNcclEnvironment(rank(), options_.device.share_gpu);
  }
  options.connect = [this](const GpuContext& gpu, const KernelTable& kernels)
      -> absl::StatusOr<std::unique_ptr<DeviceComm>> {
    DS_ASSIGN_OR_RETURN(const NcclApi* nccl, LoadNccl());
    NcclOptions nccl_options;
    nccl_options.init_timeout = options_.device.init_timeout;
    nccl_options.on_stuck = options_.device.on_stuck;
    DS_ASSIGN_OR_RETURN(std::unique_ptr<DeviceComm> comm,
                        ConnectNccl(*nccl, comm_.get(), nccl_options));
    OneShotKernels one_shot;
    one_shot.f32 = kernels.service("all_reduce_one_shot f32");
    one_shot.f16 = kernels.service("all_reduce_one_shot f16");
    one_shot.bf16 = kernels.service("all_reduce_one_shot bf16");
    return AddOneShot(std::move(comm), gpu.cuda(), one_shot, comm_.get(),
                      {.programmatic = KernelsMayOverlap(target_)});
  };
  DS_ASSIGN_OR_RETURN(std::unique_ptr<CudaExecutor> executor,
                      PrepareCuda(apis_, *plan_, limits, options));
  cuda_ = executor.get();
  executor_ = std::move(executor);
  return absl::OkStatus();
}

absl::StatusOr<RunLimits> Session::AgreeOnLimits(const ChooseLimits& choose) {
  RunLimits limits = options_.limits;
  if (rank() == 0) {
    DS_ASSIGN_OR_RETURN(RunLimits wanted, choose(*plan_));
    wanted.max_batch =
        std::min(wanted.max_batch, CompiledCeiling(*plan_, "S", target_));
    wanted.max_step_tokens =
        std::min(wanted.max_step_tokens, CompiledCeiling(*plan_, "T", target_));
    for (const LimitName& l : kLimits) {
      if (limits.*l.field == 0) limits.*l.field = wanted.*l.field;
    }
  }
  if (comm_ == nullptr) return limits;
  DS_RETURN_IF_ERROR(comm_->Broadcast(&limits, sizeof(limits)));
  for (const LimitName& l : kLimits) {
    const int64_t typed = options_.limits.*l.field;
    if (typed != 0 && typed != limits.*l.field) {
      return absl::FailedPreconditionError(
          absl::StrCat("rank ", rank(), " was started with ", l.flag, " ",
                       typed, ", rank 0 runs with ", limits.*l.field,
                       "; give every rank the same flags"));
    }
  }
  return limits;
}

absl::StatusOr<const Tokenizer*> Session::tokenizer() {
  if (tokenizer_ == nullptr) {
    const auto* bytes = plan_->fb().tokenizer();
    if (bytes == nullptr || bytes->size() == 0) {
      return absl::FailedPreconditionError(absl::StrCat(
          folder(),
          ": the plan holds no tokenizer, its checkpoint had none; "
          "use --prompt-ids with --print-ids"));
    }
    DS_ASSIGN_OR_RETURN(
        tokenizer_,
        Tokenizer::Load(absl::string_view(
            reinterpret_cast<const char*>(bytes->data()), bytes->size())));
  }
  return tokenizer_.get();
}

}  // namespace deepslice
