// dsrun bench: tokens a second, reading a prompt and generating.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "schema/base/json.h"
#include "schema/base/status_macros.h"
#include "tools/command_line.h"
#include "tools/dsrun_work.h"

namespace deepslice {
namespace {

struct Rates {
  double prefill = 0, decode = 0;  // tokens a second
};

// The smallest rate is the one to rely on, the median the one to compare.
struct Summary {
  double min = 0, median = 0;
};

Summary Summarize(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return {values.front(), (values[(n - 1) / 2] + values[n / 2]) / 2};
}

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
  absl::StatusOr<Rates> RunOnce(Session& session);
  absl::Status PrintResult(const Session& session, const Summary& prefill,
                           const Summary& decode);

  const DsrunOptions options_;
};

absl::StatusOr<Rates> BenchWork::RunOnce(Session& session) {
  const int64_t vocab = session.executor().vocab_size();
  std::vector<Request> requests(options_.bench_batch);
  absl::Time first = absl::InfinitePast(), last;
  int64_t waiting = options_.bench_batch;
  int64_t tokens_after_first = 0;
  for (int64_t r = 0; r < options_.bench_batch; ++r) {
    for (int64_t i = 0; i < options_.bench_prompt; ++i) {
      // Any ids do, but not the same row of the embedding again and again.
      requests[r].prompt.push_back(
          static_cast<int32_t>((r * 7919 + i * 31337 + 1) % vocab));
    }
    requests[r].max_new_tokens = options_.bench_new;
    requests[r].on_token = [&, seen = false](int32_t) mutable {
      last = absl::Now();
      if (!seen) {
        seen = true;
        if (--waiting == 0) first = last;
      }
      // What comes while other prompts are still read is in neither rate.
      if (last > first && waiting == 0) ++tokens_after_first;
      return true;
    };
  }
  const absl::Time start = absl::Now();
  DS_RETURN_IF_ERROR(session.engine().Generate(std::move(requests)).status());
  Rates rates;
  rates.prefill =
      static_cast<double>(options_.bench_batch * options_.bench_prompt) /
      absl::ToDoubleSeconds(first - start);
  rates.decode = static_cast<double>(tokens_after_first) /
                 absl::ToDoubleSeconds(last - first);
  return rates;
}

absl::Status BenchWork::Run(Session& session) {
  const int64_t total = options_.bench_prompt + options_.bench_new;
  if (total > session.max_seq_len()) {
    return absl::FailedPreconditionError(absl::StrCat(
        session.folder(), ": a prompt of ", options_.bench_prompt,
        " tokens and ", options_.bench_new, " new ones exceed the ",
        "sequence ceiling of ", session.max_seq_len(), "; lower -p or -n"));
  }
  std::vector<double> prefill, decode;
  for (int run = 0; run <= options_.bench_runs; ++run) {
    DS_ASSIGN_OR_RETURN(const Rates rates, RunOnce(session));
    if (run == 0) continue;  // pages and caches are cold
    prefill.push_back(rates.prefill);
    decode.push_back(rates.decode);
  }
  return PrintResult(session, Summarize(prefill), Summarize(decode));
}

absl::Status BenchWork::PrintResult(const Session& session,
                                    const Summary& prefill,
                                    const Summary& decode) {
  if (!options_.bench_json) {
    return Print(
        absl::StrFormat("prefill %d x %d: %.1f tokens/s (min %.1f)\n"
                        "decode  %d x %d: %.1f tokens/s (min %.1f)\n",
                        options_.bench_batch, options_.bench_prompt,
                        prefill.median, prefill.min, options_.bench_batch,
                        options_.bench_new, decode.median, decode.min));
  }
  const auto rates = [](const Summary& s) {
    json::Value v = json::Value::Object();
    v.Set("min", s.min);
    v.Set("median", s.median);
    return v;
  };
  json::Value out = json::Value::Object();
  out.Set("schema_version", 1);
  out.Set("plan_set_id", session.plan().fb().plan_set_id()->c_str());
  out.Set("world_size", session.plan().world_size());
  out.Set("batch", options_.bench_batch);
  out.Set("prompt_tokens", options_.bench_prompt);
  out.Set("new_tokens", options_.bench_new);
  out.Set("repetitions", options_.bench_runs);
  out.Set("prefill_tokens_per_second", rates(prefill));
  out.Set("decode_tokens_per_second", rates(decode));
  return Print(json::Write(out, 1) + "\n");
}

}  // namespace

std::unique_ptr<Work> NewBenchWork(const DsrunOptions& options) {
  return std::make_unique<BenchWork>(options);
}

}  // namespace deepslice
