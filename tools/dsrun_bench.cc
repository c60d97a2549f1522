// dsrun bench: tokens a second, reading a prompt and generating, beside what
// the memory would allow.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "schema/base/status_macros.h"
#include "tools/bench_result.h"
#include "tools/command_line.h"
#include "tools/dsrun_work.h"

namespace deepslice {
namespace {

// Steps of decoding that do not count: graphs and clocks come up.
constexpr int64_t kWarmSteps = 8;
// Steps that are timed one by one.
constexpr int64_t kTimedSteps = 16;

// One repetition.
struct Once {
  double prefill_ms = 0;
  double decode_ms = 0;  // a step
  int64_t steps = 0;     // that decode_ms is the mean of
};

class BenchWork final : public Work {
 public:
  explicit BenchWork(const DsrunOptions& o) : options_(o) {}

  absl::StatusOr<RunLimits> Limits(const Plan& plan) override {
    const int64_t slots = CompiledCeiling(plan, "S");
    if (options_.bench_batch > slots) {
      return absl::FailedPreconditionError(
          absl::StrCat("--batch is ", options_.bench_batch,
                       "; the plan was compiled with ", "--max-batch ", slots));
    }
    return RunLimits{.max_batch = options_.bench_batch};
  }
  absl::Status Run(Session& session) override;

 private:
  std::vector<Request> Requests(int64_t vocab, int64_t new_tokens) const;
  absl::StatusOr<Once> RunOnce(Session& session);
  absl::Status TimeKinds(Session& session, BenchResult* result);

  const DsrunOptions options_;
};

std::vector<Request> BenchWork::Requests(int64_t vocab,
                                         int64_t new_tokens) const {
  std::vector<Request> requests(options_.bench_batch);
  for (int64_t r = 0; r < options_.bench_batch; ++r) {
    for (int64_t i = 0; i < options_.bench_prompt; ++i) {
      // Any ids do, but not the same row of the embedding again and again.
      requests[r].prompt.push_back(
          static_cast<int32_t>((r * 7919 + i * 31337 + 1) % vocab));
    }
    requests[r].max_new_tokens = new_tokens;
  }
  return requests;
}

absl::StatusOr<Once> BenchWork::RunOnce(Session& session) {
  std::vector<Request> requests =
      Requests(session.executor().vocab_size(), options_.bench_new);
  int64_t waiting = options_.bench_batch;  // sequences without a token
  absl::Time all_began;
  bool one_ended = false;
  // When each step in which all sequences got a token gave the last of them.
  std::vector<absl::Time> steps;
  steps.reserve(options_.bench_new);
  int64_t in_step = 0;
  for (Request& request : requests) {
    request.on_token = [&, tokens = int64_t{0}](int32_t) mutable {
      const absl::Time now = absl::Now();
      if (++tokens == 1 && --waiting == 0) {
        all_began = now;
        in_step = 0;
        steps.push_back(now);
        return true;
      }
      // What comes while other prompts are still read counts for neither.
      if (waiting == 0 && !one_ended && ++in_step == options_.bench_batch) {
        in_step = 0;
        steps.push_back(now);
      }
      one_ended |= tokens == options_.bench_new;
      return true;
    };
  }
  const absl::Time start = absl::Now();
  DS_ASSIGN_OR_RETURN(const std::vector<Completion> done,
                      session.engine().Generate(std::move(requests)));
  for (const Completion& c : done) DS_RETURN_IF_ERROR(c.error);
  Once once;
  once.prefill_ms = absl::ToDoubleMilliseconds(all_began - start);
  const auto gaps = static_cast<int64_t>(steps.size()) - 1;
  if (gaps < 1) {
    return absl::FailedPreconditionError(absl::StrCat(
        options_.bench_new, " new tokens of each of ", options_.bench_batch,
        " sequences leave no step in which all of them are at work; raise -n"));
  }
  const int64_t skip = std::min(kWarmSteps, gaps / 4);
  once.steps = gaps - skip;
  once.decode_ms = absl::ToDoubleMilliseconds(steps.back() - steps[skip]) /
                   static_cast<double>(once.steps);
  return once;
}

// A generation again, with the time taken around each of its steps.
absl::Status BenchWork::TimeKinds(Session& session, BenchResult* result) {
  Executor& executor = *session.mutable_executor();
  const absl::Status on = executor.TimeSteps(true);
  if (absl::IsUnimplemented(on)) return absl::OkStatus();
  DS_RETURN_IF_ERROR(on);
  const int64_t steps = std::min(kTimedSteps, options_.bench_new - 1);
  std::vector<Request> requests =
      Requests(executor.vocab_size(), options_.bench_new);
  // Those of the prompts are not wanted.
  int64_t waiting = options_.bench_batch;
  std::vector<Executor::StepTiming> timings;
  absl::Status taken;
  int64_t seen = 0;
  for (Request& request : requests) {
    request.on_token = [&, first = true,
                        lead = &request == &requests[0]](int32_t) mutable {
      if (first && --waiting == 0) taken = executor.TakeTimings().status();
      if (lead && !first && waiting == 0) ++seen;
      first = false;
      if (lead && seen == steps && taken.ok()) {
        auto got = executor.TakeTimings();
        taken = got.status();
        if (got.ok()) timings = *std::move(got);
        ++seen;
      }
      return seen <= steps && taken.ok();
    };
  }
  DS_RETURN_IF_ERROR(session.engine().Generate(std::move(requests)).status());
  DS_RETURN_IF_ERROR(taken);
  DS_RETURN_IF_ERROR(executor.TimeSteps(false));
  result->kinds = TimeByKind(timings);
  // Not `steps`: the last step of all has none under way behind it.
  result->kind_steps = std::count_if(
      timings.begin(), timings.end(),
      [&](const Executor::StepTiming& t) { return t.name == timings[0].name; });
  return absl::OkStatus();
}

absl::Status BenchWork::Run(Session& session) {
  const int64_t total = options_.bench_prompt + options_.bench_new;
  if (total > session.max_seq_len()) {
    return absl::FailedPreconditionError(absl::StrCat(
        session.folder(), ": a prompt of ", options_.bench_prompt,
        " tokens and ", options_.bench_new, " new ones exceed the ",
        "sequence ceiling of ", session.max_seq_len(), "; lower -p or -n"));
  }
  std::vector<double> prefill_ms, decode_ms, prefill_rate, decode_rate;
  BenchResult result;
  const auto batch = static_cast<double>(options_.bench_batch);
  const auto prompt = static_cast<double>(options_.bench_prompt);
  for (int run = 0; run <= options_.bench_runs; ++run) {
    DS_ASSIGN_OR_RETURN(const Once once, RunOnce(session));
    if (run == 0) continue;  // pages and caches are cold
    prefill_ms.push_back(once.prefill_ms);
    decode_ms.push_back(once.decode_ms);
    prefill_rate.push_back(batch * prompt / (once.prefill_ms * 1e-3));
    decode_rate.push_back(batch / (once.decode_ms * 1e-3));
    result.decode_steps = once.steps;
  }
  result.plan_set_id = session.plan().fb().plan_set_id()->str();
  result.world_size = session.plan().world_size();
  result.batch = options_.bench_batch;
  result.prompt_tokens = options_.bench_prompt;
  result.new_tokens = options_.bench_new;
  result.repetitions = options_.bench_runs;
  result.prefill_ms = Summarize(prefill_ms);
  result.decode_ms = Summarize(decode_ms);
  result.prefill_rate = Summarize(prefill_rate);
  result.decode_rate = Summarize(decode_rate);
  result.bytes =
      DecodeStepBytes(session.plan(), options_.bench_batch,
                      options_.bench_prompt + options_.bench_new / 2);
  const auto bandwidth = session.mutable_executor()->MeasureReadBandwidth();
  if (bandwidth.ok()) {
    result.read_bandwidth = *bandwidth;
  } else if (!absl::IsUnimplemented(bandwidth.status())) {
    return bandwidth.status();
  }
  // A profile's timings are for its file. A rank that is timed runs no graphs,
  // and all ranks must do alike: of several, --profile times each.
  if (!options_.profile.has_value() && session.comm() == nullptr) {
    DS_RETURN_IF_ERROR(TimeKinds(session, &result));
  }
  switch (options_.bench_format) {
    case DsrunOptions::Format::kJson:
      return Print(BenchJson(result));
    case DsrunOptions::Format::kMarkdown:
      return Print(BenchMarkdown(result));
    case DsrunOptions::Format::kText:
      break;
  }
  return Print(BenchText(result));
}

}  // namespace

std::unique_ptr<Work> NewBenchWork(const DsrunOptions& options) {
  return std::make_unique<BenchWork>(options);
}

}  // namespace deepslice
