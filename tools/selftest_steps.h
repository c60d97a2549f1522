// A plan's steps as a device runs them, each beside the reference: what a
// kernel makes of the values that it was really given.
#ifndef DEEPSLICE_TOOLS_SELFTEST_STEPS_H_
#define DEEPSLICE_TOOLS_SELFTEST_STEPS_H_

#include "absl/status/status.h"
#include "runtime/executor.h"
#include "runtime/plan.h"
#include "tools/selftest_report.h"

namespace deepslice {

// No sequence of TestSteps has more tokens, as far as the plan's steps of 1, 2,
// 4 and 8 sequences go.
inline constexpr int kStepTestTokens = 8;

// Runs a prefill of several sequences and then steps of 1, 2, 4, ... tokens, so
// that every program of the target runs, and compares the first two results of
// each kind of step in each program with `meaning`, the plan's ops in the CPU's
// form: computed in double from the results of the steps before, as the device
// made them. Steps whose result has no such value (scratch, parts) are not
// compared. A row for each kind. World size 1; the executor is left without an
// observer. `threads` compute references.
void TestSteps(const Plan& plan, const fb::Program& meaning, Executor* executor,
               int threads, SelftestReport* report);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_SELFTEST_STEPS_H_
