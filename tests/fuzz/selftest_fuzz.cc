// rank_NNNN.plan: what `dsrun selftest` does with one that loads, on the CPU.
#include <string>

#include "runtime/executor.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/plan_seeds.h"
#include "tools/selftest_kernels.h"
#include "tools/selftest_report.h"
#include "tools/selftest_steps.h"
#include "tools/selftest_text.h"

namespace deepslice {
namespace {

// Larger tests are right and slow.
bool IsSmall(const KernelUse& use) {
  for (const KernelUse::Operand& o : use.operands) {
    if (o.rows > 4096 || o.cols > 4096) return false;
  }
  return use.out_cols <= 4096 && use.block_tokens <= 64;
}

FUZZ_TARGET(selftest) {
  static ThreadPool* const pool = new ThreadPool(1);
  const auto plan =
      Plan::FromBytes(input, SeedWeights(), "p", {.check_weights = false});
  if (!plan.ok()) return CheckRefusal(plan.status());
  SelftestReport report;
  TestText(plan->fb(), &report);
  const auto executor = Executor::Prepare(
      *plan, {.max_batch = 2, .max_step_tokens = 4, .max_seq_len = 8}, nullptr,
      pool);
  if (!executor.ok()) return CheckRefusal(executor.status());
  if ((*executor)->num_blocks() > 4096 || (*executor)->vocab_size() > 4096) {
    return;
  }
  const fb::Program* own = plan->FindProgram("cpu", fb::ProgramKind::Step);
  const bool encodes = own == nullptr;
  if (encodes) own = plan->FindProgram("cpu", fb::ProgramKind::Encode);
  FUZZ_CHECK(own != nullptr);
  for (const KernelUse& use : KernelUses(plan->fb(), *own)) {
    if (!IsSmall(use)) return;
    report.Add(use.Text(), "", TestKernel(use, pool));
  }
  if (encodes) return;
  TestSteps(*plan, *own, executor->get(), 1, &report);
  // What a GPU's steps are compared with.
  if (const fb::Program* reference = plan->fb().reference()) {
    TestSteps(*plan, *reference, executor->get(), 1, &report);
  }
  FUZZ_CHECK(!report.rows().empty());
  FUZZ_CHECK(report.Text(false).size() < (1 << 20));
}

}  // namespace
}  // namespace deepslice
