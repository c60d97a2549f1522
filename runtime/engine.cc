// What both kinds of work share: checks before anything runs, steps that the
// followers run as well, and the followers' end of it.
#include "runtime/engine.h"

#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/generation.h"
#include "runtime/scheduler.h"
#include "runtime/step_channel.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

RequestLimits RequestLimitsOf(const Executor& executor) {
  return {.vocab = executor.vocab_size(),
          .max_seq_len = executor.limits().max_seq_len,
          .max_batch = executor.limits().max_batch,
          .block_tokens = executor.block_tokens(),
          .num_blocks = executor.num_blocks(),
          .max_source_tokens = executor.max_source_tokens()};
}

absl::Status CheckGenerates(const Executor& executor) {
  if (!executor.encodes()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "the plan is an encoder, which generates nothing; use dsrun embed, "
      "classify or fill-mask, or --feed");
}

class EngineImpl final : public Engine {
 public:
  EngineImpl(Executor* executor, Comm* comm)
      : executor_(executor),
        comm_(comm != nullptr && comm->size() > 1 ? comm : nullptr),
        limits_(ScheduleLimits::Of(*executor)),
        request_limits_(RequestLimitsOf(*executor)),
        channel_(*executor, comm_) {}

  ~EngineImpl() override {
    // A broken comm has told the followers already.
    if (comm_ != nullptr && failed_.ok()) channel_.SendStop().IgnoreError();
  }

  absl::StatusOr<std::vector<Completion>> Generate(
      std::vector<Request> requests) override;
  absl::Status Score(
      const std::vector<std::vector<int32_t>>& sequences,
      const std::function<void(int, int64_t, const float*)>& sink,
      const std::vector<std::vector<int32_t>>& sources) override;
  absl::StatusOr<const float*> Step(const StepBatch& batch) override {
    DS_RETURN_IF_ERROR(CheckGenerates(*executor_));
    if (executor_->max_source_tokens() > 0) {
      return absl::UnimplementedError(
          "single steps of a plan with an encoder beside its decoder; generate "
          "with it");
    }
    DS_RETURN_IF_ERROR(RunStep(batch));
    if (batch.rows.empty()) return nullptr;
    return executor_->Logits();
  }
  absl::StatusOr<std::vector<NamedOutput>> Encode(
      const StepBatch& batch) override {
    DS_RETURN_IF_ERROR(RunStep(batch));
    return executor_->Outputs();
  }

 private:
  absl::Status RunStep(const StepBatch& batch);

  Executor* const executor_;
  Comm* const comm_;  // nullptr when there are no followers
  const ScheduleLimits limits_;
  const RequestLimits request_limits_;
  StepChannel channel_;
  absl::Status failed_;  // of the first step that failed on this rank
};

absl::Status EngineImpl::RunStep(const StepBatch& batch) {
  DS_RETURN_IF_ERROR(failed_);
  if (comm_ != nullptr) failed_ = channel_.SendStep(batch);
  if (failed_.ok()) failed_ = executor_->Execute(batch);
  // Followers may be waiting inside a collective of this step.
  if (!failed_.ok() && comm_ != nullptr) comm_->Abort(failed_);
  return failed_;
}

absl::StatusOr<std::vector<Completion>> EngineImpl::Generate(
    std::vector<Request> requests) {
  DS_RETURN_IF_ERROR(CheckGenerates(*executor_));
  for (size_t i = 0; i < requests.size(); ++i) {
    Request& r = requests[i];
    if (r.source.empty() && executor_->decoder_start() >= 0) {
      r.source = std::move(r.prompt);
      r.prompt = {executor_->decoder_start()};
    }
    const absl::Status status = CheckRequest(requests[i], request_limits_);
    if (!status.ok()) {
      // One request needs no number.
      return requests.size() == 1 ? status : Annotate(status, "request ", i);
    }
  }
  return Generation(limits_, executor_, &requests)
      .Run([this](const StepBatch& batch) { return RunStep(batch); });
}

absl::Status EngineImpl::Score(
    const std::vector<std::vector<int32_t>>& sequences,
    const std::function<void(int, int64_t, const float*)>& sink,
    const std::vector<std::vector<int32_t>>& sources) {
  DS_RETURN_IF_ERROR(CheckGenerates(*executor_));
  const bool reads_sources = executor_->max_source_tokens() > 0;
  if (reads_sources != !sources.empty() ||
      (reads_sources && sources.size() != sequences.size())) {
    return absl::InvalidArgumentError(absl::StrCat(
        sequences.size(), " sequences with ", sources.size(),
        " texts for an encoder; the plan ",
        reads_sources ? "wants one for each" : "has no encoder"));
  }
  Scheduler scheduler(limits_, Scheduler::Mode::kScore);
  const int64_t ceiling = executor_->limits().max_seq_len;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const auto length = static_cast<int64_t>(sequences[i].size());
    if (length == 0 || length > ceiling) {
      return absl::InvalidArgumentError(
          absl::StrCat("sequence ", i, " has ", length,
                       " tokens; at least one and at most the sequence "
                       "ceiling of ",
                       ceiling, " are needed"));
    }
    DS_RETURN_IF_ERROR(
        Annotate(CheckFitsCache(length, request_limits_), "sequence ", i));
    DS_RETURN_IF_ERROR(CheckIds(sequences[i], executor_->vocab_size(),
                                absl::StrCat("sequence ", i, ": id")));
  }
  for (size_t i = 0; i < sequences.size(); ++i) {
    if (!reads_sources) continue;
    const auto length = static_cast<int64_t>(sources[i].size());
    if (length < 1 || length > executor_->max_source_tokens()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "sequence ", i, ": the encoder's text has ", length,
          " tokens; 1 to ", executor_->max_source_tokens(), " are allowed"));
    }
    DS_RETURN_IF_ERROR(CheckIds(sources[i], executor_->vocab_size(),
                                absl::StrCat("sequence ", i, ": input id")));
  }
  for (size_t i = 0; i < sequences.size(); ++i) {
    scheduler.Add(sequences[i], static_cast<int64_t>(sequences[i].size()), 1,
                  reads_sources ? sources[i] : std::vector<int32_t>());
  }
  StepBatch batch;
  while (scheduler.Next(&batch)) {
    DS_RETURN_IF_ERROR(RunStep(batch));
    DS_ASSIGN_OR_RETURN(const float* logits, executor_->Logits());
    for (const Scheduler::Row& row : scheduler.rows()) {
      sink(row.sequence, row.position, logits);
      logits += executor_->vocab_size();
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::unique_ptr<Engine> Engine::Create(Executor* executor, Comm* comm) {
  return std::make_unique<EngineImpl>(executor, comm);
}

absl::Status RunFollower(Executor* executor, Comm* comm) {
  StepChannel channel(*executor, comm);
  StepBatch batch;
  while (true) {
    absl::StatusOr<bool> more = channel.Receive(&batch);
    absl::Status status = more.status();
    if (status.ok()) {
      if (!*more) return absl::OkStatus();
      status = executor->Execute(batch);
    }
    if (!status.ok()) {
      comm->Abort(status);
      return status;
    }
  }
}

}  // namespace deepslice
