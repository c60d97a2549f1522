// Runs a plan's step program over the reference kernels: what an executor's
// results are compared with.
#ifndef DEEPSLICE_TESTS_SUPPORT_PLAN_REFERENCE_H_
#define DEEPSLICE_TESTS_SUPPORT_PLAN_REFERENCE_H_

#include <map>
#include <string>
#include <vector>

#include "kernels/reference.h"
#include "runtime/executor.h"
#include "runtime/plan.h"

namespace deepslice {

// Plans of world size 1. Keeps the caches from step to step.
class PlanReference {
 public:
  explicit PlanReference(const Plan& plan);  // must outlive it

  // Each step's result, by the plan's order; the last output is the logits.
  std::vector<RefTensor> Execute(const StepBatch& batch);

 private:
  const Plan& plan_;
  std::vector<RefTensor> weights_;
  std::vector<RefState> states_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_TESTS_SUPPORT_PLAN_REFERENCE_H_
