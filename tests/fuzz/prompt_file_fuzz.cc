// Files of prompts and the requests in them: the file's name, then its text.
#include "tests/fuzz/fuzz_target.h"
#include "tools/prompt_file.h"

namespace deepslice {
namespace {

FUZZ_TARGET(prompt_file) {
  const auto parts = SplitParts(input, 2);
  const auto jobs = ParsePrompts(parts[1], parts[0]);
  if (!jobs.ok()) return CheckRefusal(jobs.status());
  for (const PromptJob& job : *jobs) {
    FUZZ_CHECK(job.line > 0 && job.text.size() <= parts[1].size());
  }
}

}  // namespace
}  // namespace deepslice
