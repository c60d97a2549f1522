// What dsrun tells about a run: the memory it took and the time of its steps.
#ifndef DEEPSLICE_TOOLS_DSRUN_REPORT_H_
#define DEEPSLICE_TOOLS_DSRUN_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "runtime/executor.h"

namespace deepslice {

// A table of what was planned and what was taken, with the ratio of the two
// over what the plan foresees.
std::string MemoryReport(absl::Span<const Executor::MemoryLine> lines, int rank,
                         int world);

// "16.06 GB of weights came in 0.4120 s, 39.0 GB/s\n"; "" at no time.
std::string LoadReport(int64_t bytes, double seconds);

// Events of chrome://tracing, one a step; `rank` becomes the process.
std::string ChromeTrace(absl::Span<const Executor::StepTiming> timings,
                        int rank);
// Rank 0's file is `path`, rank 1's has ".rank1" before its extension.
std::string ProfilePath(const std::string& path, int rank);

// Time by kind of step, the longest first.
struct KindTime {
  std::string kind;
  int64_t steps = 0;
  double us = 0;
};
std::vector<KindTime> TimeByKind(
    absl::Span<const Executor::StepTiming> timings);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_DSRUN_REPORT_H_
