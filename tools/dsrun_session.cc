#include "tools/dsrun_session.h"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/comm/shm.h"
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

}  // namespace

int64_t CompiledCeiling(const Plan& plan, absl::string_view dim) {
  const fb::Program* program = plan.FindProgram("cpu", fb::ProgramKind::Step);
  if (program == nullptr) return 0;
  for (const fb::NamedDim* d : *program->dims()) {
    if (dim == d->name()->c_str()) return d->maximum();
  }
  return 0;
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
    DS_ASSIGN_OR_RETURN(session->comm_, ConnectShm(shm));
  }
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
  DS_ASSIGN_OR_RETURN(Plan plan,
                      Plan::Load(options_.plan, rank(), {.threads = threads}));
  plan_ = std::make_unique<Plan>(std::move(plan));
  DS_ASSIGN_OR_RETURN(const RunLimits limits, AgreeOnLimits(choose));
  pool_ = std::make_unique<ThreadPool>(threads);
  DS_ASSIGN_OR_RETURN(
      executor_, Executor::Prepare(*plan_, limits, comm_.get(), pool_.get()));
  if (rank() == 0) engine_ = Engine::Create(executor_.get(), comm_.get());
  return absl::OkStatus();
}

absl::StatusOr<RunLimits> Session::AgreeOnLimits(const ChooseLimits& choose) {
  RunLimits limits = options_.limits;
  if (rank() == 0) {
    DS_ASSIGN_OR_RETURN(RunLimits wanted, choose(*plan_));
    const int64_t slots = CompiledCeiling(*plan_, "S");
    if (wanted.max_batch > slots) wanted.max_batch = slots;
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
