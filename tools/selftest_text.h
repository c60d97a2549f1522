// The parts of `dsrun selftest` about text: the plan's tokenizer and chat
// template against what it says they give.
#ifndef DEEPSLICE_TOOLS_SELFTEST_TEXT_H_
#define DEEPSLICE_TOOLS_SELFTEST_TEXT_H_

#include "runtime/plan.h"
#include "tools/selftest_report.h"

namespace deepslice {

// Rows "tokenizer" and "chat template"; skipped where the plan has none.
void TestText(const fb::Plan& plan, SelftestReport* report);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_SELFTEST_TEXT_H_
