// What dsrun bench found out, as text, JSON or a Markdown table.
#ifndef DEEPSLICE_TOOLS_BENCH_RESULT_H_
#define DEEPSLICE_TOOLS_BENCH_RESULT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tools/dsrun_report.h"
#include "tools/step_bytes.h"

namespace deepslice {

// The smallest is the one to rely on, the median the one to compare. Of times,
// `min` is the best.
struct Summary {
  double min = 0, median = 0;
};
Summary Summarize(std::vector<double> values);

struct BenchResult {
  std::string plan_set_id;
  int world_size = 1;
  int64_t batch = 1, prompt_tokens = 0, new_tokens = 0;
  int repetitions = 0;
  Summary prefill_rate, decode_rate;  // tokens a second, of all sequences
  Summary prefill_ms;                 // until every sequence has a token
  Summary decode_ms;                  // a step
  int64_t decode_steps = 0;           // that a repetition measures
  StepBytes bytes;                    // of a step, of rank 0
  double read_bandwidth = 0;          // bytes a second; 0: not known
  std::vector<KindTime> kinds;        // of kind_steps steps; may be empty
  int64_t kind_steps = 0;

  // Bytes of a step over its median time, a second.
  double bytes_per_second() const;
  // Of read_bandwidth; 0 when that is not known.
  double share() const;
};

std::string BenchText(const BenchResult& r);
std::string BenchJson(const BenchResult& r);
std::string BenchMarkdown(const BenchResult& r);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_BENCH_RESULT_H_
