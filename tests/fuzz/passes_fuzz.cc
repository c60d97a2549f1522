// Passes over graphs that people wrote: the list of passes, then the graph.
#include "ir/parser.h"
#include "ir/verifier.h"
#include "passes/pass.h"
#include "tests/fuzz/fuzz_target.h"

namespace deepslice {
namespace {

FUZZ_TARGET(passes) {
  const auto parts = SplitParts(input, 2);
  const auto passes = ParsePasses(parts[0]);
  if (!passes.ok()) return CheckRefusal(passes.status());
  auto graph = ParseGraph(parts[1], "fuzz.ir");
  if (!graph.ok()) return CheckRefusal(graph.status());
  if (!VerifyGraph(*graph).ok()) return;
  for (const auto& pass : *passes) {
    const absl::Status status = pass->Run(*graph);
    if (!status.ok()) return CheckRefusal(status);
    FUZZ_CHECK(VerifyGraph(*graph).ok());
  }
}

}  // namespace
}  // namespace deepslice
