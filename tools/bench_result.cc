#include "tools/bench_result.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schema/base/json.h"

namespace deepslice {
namespace {

json::Value AsJson(const Summary& s) {
  json::Value v = json::Value::Object();
  v.Set("min", s.min);
  v.Set("median", s.median);
  return v;
}

double MicrosOfAStep(const BenchResult& r, const KindTime& k) {
  return r.kind_steps > 0 ? k.us / static_cast<double>(r.kind_steps) : 0;
}

}  // namespace

Summary Summarize(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return {values.front(), (values[(n - 1) / 2] + values[n / 2]) / 2};
}

double BenchResult::bytes_per_second() const {
  return decode_ms.median > 0
             ? static_cast<double>(bytes.weights + bytes.cache) /
                   (decode_ms.median * 1e-3)
             : 0;
}

double BenchResult::share() const {
  return read_bandwidth > 0 ? bytes_per_second() / read_bandwidth : 0;
}

std::string BenchText(const BenchResult& r) {
  std::string out = absl::StrFormat(
      "prefill %d x %d: %.1f tokens/s (min %.1f), %.3f ms\n"
      "decode  %d x %d: %.1f tokens/s (min %.1f), %.4f ms a step (best %.4f)\n",
      r.batch, r.prompt_tokens, r.prefill_rate.median, r.prefill_rate.min,
      r.prefill_ms.median, r.batch, r.new_tokens, r.decode_rate.median,
      r.decode_rate.min, r.decode_ms.median, r.decode_ms.min);
  absl::StrAppendFormat(
      &out,
      "a step of decode reads %.2f MB of weights and %.2f MB of cache: "
      "%.1f GB/s",
      r.bytes.weights * 1e-6, r.bytes.cache * 1e-6,
      r.bytes_per_second() * 1e-9);
  if (r.read_bandwidth > 0) {
    absl::StrAppendFormat(&out, ", %.1f %% of the %.1f GB/s measured now",
                          100 * r.share(), r.read_bandwidth * 1e-9);
  }
  absl::StrAppend(&out, "\n");
  for (const KindTime& k : r.kinds) {
    absl::StrAppendFormat(&out, "  %-24s %8.1f us a step, %d launches\n",
                          k.kind, MicrosOfAStep(r, k),
                          k.steps / std::max<int64_t>(1, r.kind_steps));
  }
  return out;
}

std::string BenchJson(const BenchResult& r) {
  json::Value out = json::Value::Object();
  out.Set("schema_version", 1);
  out.Set("plan_set_id", r.plan_set_id);
  out.Set("world_size", r.world_size);
  out.Set("batch", r.batch);
  out.Set("prompt_tokens", r.prompt_tokens);
  out.Set("new_tokens", r.new_tokens);
  out.Set("repetitions", r.repetitions);
  out.Set("prefill_tokens_per_second", AsJson(r.prefill_rate));
  out.Set("decode_tokens_per_second", AsJson(r.decode_rate));
  out.Set("prefill_ms", AsJson(r.prefill_ms));
  out.Set("decode_ms_per_step", AsJson(r.decode_ms));
  out.Set("decode_steps", r.decode_steps);
  json::Value bytes = json::Value::Object();
  bytes.Set("weights", r.bytes.weights);
  bytes.Set("cache", r.bytes.cache);
  out.Set("bytes_per_step", std::move(bytes));
  out.Set("bytes_per_second", r.bytes_per_second());
  if (r.read_bandwidth > 0) {
    out.Set("read_bandwidth", r.read_bandwidth);
    out.Set("share_of_read_bandwidth", r.share());
  }
  json::Value kinds = json::Value::Array();
  for (const KindTime& k : r.kinds) {
    json::Value v = json::Value::Object();
    v.Set("kind", k.kind);
    v.Set("us_per_step", MicrosOfAStep(r, k));
    v.Set("launches_per_step",
          static_cast<double>(k.steps) / static_cast<double>(r.kind_steps));
    kinds.Add(std::move(v));
  }
  if (!r.kinds.empty()) out.Set("kinds", std::move(kinds));
  return json::Write(out, 1) + "\n";
}

std::string BenchMarkdown(const BenchResult& r) {
  std::string out =
      "| work | tokens/s | ms | MB read | GB/s | share of read bandwidth |\n"
      "|---|---|---|---|---|---|\n";
  absl::StrAppendFormat(&out, "| prefill %d x %d | %.1f | %.3f | | | |\n",
                        r.batch, r.prompt_tokens, r.prefill_rate.median,
                        r.prefill_ms.median);
  absl::StrAppendFormat(
      &out, "| decode %d at %d | %.1f | %.4f | %.1f | %.1f | %s |\n", r.batch,
      r.prompt_tokens, r.decode_rate.median, r.decode_ms.median,
      (r.bytes.weights + r.bytes.cache) * 1e-6, r.bytes_per_second() * 1e-9,
      r.read_bandwidth > 0
          ? absl::StrFormat("%.1f %% of %.1f GB/s", 100 * r.share(),
                            r.read_bandwidth * 1e-9)
          : std::string());
  if (r.kinds.empty()) return out;
  absl::StrAppend(&out,
                  "\n| kind of step | us a step | launches |\n|---|---|---|\n");
  for (const KindTime& k : r.kinds) {
    absl::StrAppendFormat(&out, "| %s | %.1f | %d |\n", k.kind,
                          MicrosOfAStep(r, k),
                          k.steps / std::max<int64_t>(1, r.kind_steps));
  }
  return out;
}

}  // namespace deepslice
