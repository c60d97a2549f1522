// The loop around the executor: one continuous batch for generation, one pass
// for scoring, and the followers' end of it.
#include "runtime/engine.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "runtime/scheduler.h"
#include "runtime/step_channel.h"
#include "schema/base/check.h"
#include "schema/base/checked_math.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

absl::Status CheckIds(absl::Span<const int32_t> ids, int64_t vocab,
                      absl::string_view what) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= vocab) {
      return absl::InvalidArgumentError(absl::StrCat(
          what, " ", i, " is ", ids[i], "; ids are 0 to ", vocab - 1));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSampling(const SamplingParams& p) {
  if (p.greedy) return absl::OkStatus();
  if (!(p.temperature > 0) || !std::isfinite(p.temperature)) {
    return absl::InvalidArgumentError(
        absl::StrCat("temperature is ", p.temperature,
                     "; it must be above 0 (greedy needs none)"));
  }
  if (p.top_k < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("top-k is ", p.top_k, "; it must be 0 (off) or above"));
  }
  if (!(p.top_p > 0) || p.top_p > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "top-p is ", p.top_p, "; it must be above 0 and at most 1 (off)"));
  }
  return absl::OkStatus();
}

class EngineImpl final : public Engine {
 public:
  EngineImpl(Executor* executor, Comm* comm)
      : executor_(executor),
        comm_(comm != nullptr && comm->size() > 1 ? comm : nullptr),
        limits_(ScheduleLimits::Of(*executor)),
        channel_(*executor, comm_) {}

  ~EngineImpl() override {
    // A broken comm has told the followers already.
    if (comm_ != nullptr && failed_.ok()) channel_.SendStop().IgnoreError();
  }

  absl::StatusOr<std::vector<Completion>> Generate(
      std::vector<Request> requests) override;
  absl::Status Score(
      const std::vector<std::vector<int32_t>>& sequences,
      const std::function<void(int, int64_t, const float*)>& sink) override;

 private:
  absl::Status CheckRequest(const Request& r) const;
  // Whether `tokens` of a sequence can be in the cache.
  absl::Status CheckFits(int64_t tokens) const;
  absl::Status RunStep(const StepBatch& batch);

  Executor* const executor_;
  Comm* const comm_;  // nullptr when there are no followers
  const ScheduleLimits limits_;
  StepChannel channel_;
  absl::Status failed_;  // of the first step that failed on this rank
};

absl::Status EngineImpl::CheckFits(int64_t tokens) const {
  const int64_t blocks = CeilDiv(tokens, limits_.block_tokens);
  if (blocks > limits_.num_blocks) {
    return absl::InvalidArgumentError(absl::StrCat(
        tokens, " tokens take ", blocks, " cache blocks of ",
        limits_.block_tokens, " tokens; the cache has ", limits_.num_blocks));
  }
  return absl::OkStatus();
}

absl::Status EngineImpl::CheckRequest(const Request& r) const {
  if (r.prompt.empty()) {
    return absl::InvalidArgumentError(
        "the prompt has no tokens; at least one is needed");
  }
  if (r.max_new_tokens <= 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_new_tokens is ", r.max_new_tokens, "; it must be above 0"));
  }
  const auto prompt = static_cast<int64_t>(r.prompt.size());
  const int64_t ceiling = executor_->limits().max_seq_len;
  if (prompt > ceiling || r.max_new_tokens > ceiling - prompt) {
    return absl::InvalidArgumentError(
        absl::StrCat("a prompt of ", prompt, " tokens and ", r.max_new_tokens,
                     " new ones exceed the sequence ceiling of ", ceiling));
  }
  DS_RETURN_IF_ERROR(CheckFits(prompt + r.max_new_tokens - 1));
  const int64_t vocab = executor_->vocab_size();
  DS_RETURN_IF_ERROR(CheckIds(r.prompt, vocab, "prompt id"));
  DS_RETURN_IF_ERROR(CheckIds(r.stop_ids, vocab, "stop id"));
  return CheckSampling(r.sampling);
}

absl::Status EngineImpl::RunStep(const StepBatch& batch) {
  DS_RETURN_IF_ERROR(failed_);
  if (comm_ != nullptr) failed_ = channel_.SendStep(batch);
  if (failed_.ok()) failed_ = executor_->Execute(batch);
  // Followers may be waiting inside a collective of this step.
  if (!failed_.ok() && comm_ != nullptr) comm_->Abort(failed_);
  return failed_;
}

// The steps of one Generate call: at most two are under way, the second built
// before the first one's ids are known, where the executor keeps them.
class Generation {
 public:
  using RunStep = std::function<absl::Status(const StepBatch&)>;
  Generation(const ScheduleLimits& limits, Executor* executor,
             const std::vector<Request>* requests)
      : executor_(*executor),
        requests_(*requests),
        // Every decoding sequence is in every step: ~r names a row of the step
        // just before.
        ahead_(executor->keeps_sampled() &&
               limits.max_step_tokens >= limits.max_batch),
        scheduler_(limits, Scheduler::Mode::kGenerate),
        completions_(requests_.size()),
        drawn_(requests_.size(), 0),
        done_(requests_.size(), false) {
    for (size_t i = 0; i < requests_.size(); ++i) {
      const Request& r = requests_[i];
      completions_[i].ids.reserve(r.max_new_tokens);
      scheduler_.Add(r.prompt,
                     static_cast<int64_t>(r.prompt.size()) + r.max_new_tokens);
    }
    samplers_.reserve(limits.max_step_tokens);
    for (Flight& f : flights_) f.rows.reserve(limits.max_step_tokens);
  }

  absl::StatusOr<std::vector<Completion>> Run(const RunStep& run_step);

 private:
  struct Flight {
    std::vector<Scheduler::Row> rows;
    int64_t step = 0;
  };

  // Starts the next step, if any token is left to run.
  absl::Status Launch(const RunStep& run_step);
  // Takes the ids of the oldest step under way.
  absl::Status Land();
  // Asks for the ids of all steps under way, which nobody wants: a later run
  // would take them for its own.
  void Abandon();
  void Take(const Scheduler::Row& row, int32_t id);

  Executor& executor_;
  const std::vector<Request>& requests_;
  const bool ahead_;
  Scheduler scheduler_;
  std::vector<Completion> completions_;
  std::vector<int64_t> drawn_;  // ids asked for, those under way included
  std::vector<bool> done_;
  std::vector<SamplerRecord> samplers_;
  Flight flights_[2];
  int64_t launched_ = 0, landed_ = 0;
};

absl::Status Generation::Launch(const RunStep& run_step) {
  StepBatch batch;
  if (!scheduler_.Next(&batch)) return absl::OkStatus();
  Flight& flight = flights_[launched_ % 2];
  flight.rows.assign(scheduler_.rows().begin(), scheduler_.rows().end());
  flight.step = launched_++;
  samplers_.clear();
  for (const Scheduler::Row& row : flight.rows) {
    samplers_.push_back(
        RecordOf(requests_[row.sequence].sampling, row.position + 1));
  }
  batch.samplers = samplers_;
  DS_RETURN_IF_ERROR(run_step(batch));
  for (size_t r = 0; r < flight.rows.size(); ++r) {
    const int sequence = flight.rows[r].sequence;
    if (++drawn_[sequence] < requests_[sequence].max_new_tokens && ahead_) {
      scheduler_.Append(sequence, ~static_cast<int32_t>(r));
    }
  }
  return absl::OkStatus();
}

void Generation::Take(const Scheduler::Row& row, int32_t id) {
  const Request& r = requests_[row.sequence];
  Completion& done = completions_[row.sequence];
  const bool stop = std::find(r.stop_ids.begin(), r.stop_ids.end(), id) !=
                    r.stop_ids.end();
  if (!stop) done.ids.push_back(id);
  const bool go_on = !r.on_token || r.on_token(id);
  if (stop) {
    done.finish = FinishReason::kStop;
  } else if (!go_on) {
    done.finish = FinishReason::kCancelled;
  } else if (static_cast<int64_t>(done.ids.size()) == r.max_new_tokens) {
    done.finish = FinishReason::kLength;
  } else {
    if (!ahead_) scheduler_.Append(row.sequence, id);
    return;
  }
  done_[row.sequence] = true;
  scheduler_.Finish(row.sequence);
}

absl::Status Generation::Land() {
  const Flight& flight = flights_[landed_++ % 2];
  if (flight.rows.empty()) return absl::OkStatus();
  DS_ASSIGN_OR_RETURN(const absl::Span<const int32_t> ids,
                      executor_.Sampled());
  for (size_t r = 0; r < flight.rows.size(); ++r) {
    const Scheduler::Row& row = flight.rows[r];
    // It stopped while this step was under way.
    if (done_[row.sequence]) continue;
    if (ids[r] == kNoSampledId) {
      return absl::InternalError(absl::StrCat(
          "request ", row.sequence, ": step ", flight.step, ", position ",
          row.position,
          ": the logits hold NaN or infinity; the model overflows in this "
          "dtype, try another"));
    }
    Take(row, ids[r]);
  }
  return absl::OkStatus();
}

void Generation::Abandon() {
  while (landed_ < launched_) {
    if (flights_[landed_++ % 2].rows.empty()) continue;
    executor_.Sampled().IgnoreError();
  }
}

absl::StatusOr<std::vector<Completion>> Generation::Run(
    const RunStep& run_step) {
  const absl::Cleanup abandon = [this] { Abandon(); };
  while (true) {
    if (launched_ == landed_) DS_RETURN_IF_ERROR(Launch(run_step));
    if (launched_ == landed_) return std::move(completions_);
    if (ahead_) DS_RETURN_IF_ERROR(Launch(run_step));
    DS_RETURN_IF_ERROR(Land());
  }
}

absl::StatusOr<std::vector<Completion>> EngineImpl::Generate(
    std::vector<Request> requests) {
  for (size_t i = 0; i < requests.size(); ++i) {
    if (const absl::Status status = CheckRequest(requests[i]); !status.ok()) {
      // One request needs no number.
      return requests.size() == 1 ? status : Annotate(status, "request ", i);
    }
  }
  return Generation(limits_, executor_, &requests)
      .Run([this](const StepBatch& batch) { return RunStep(batch); });
}

absl::Status EngineImpl::Score(
    const std::vector<std::vector<int32_t>>& sequences,
    const std::function<void(int, int64_t, const float*)>& sink) {
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
    DS_RETURN_IF_ERROR(Annotate(CheckFits(length), "sequence ", i));
    DS_RETURN_IF_ERROR(CheckIds(sequences[i], executor_->vocab_size(),
                                absl::StrCat("sequence ", i, ": id")));
  }
  for (const auto& s : sequences) {
    scheduler.Add(s, static_cast<int64_t>(s.size()));
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
