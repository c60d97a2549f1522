// Texts of graphs: what parses prints as a text that parses to the same graph.
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "tests/fuzz/fuzz_target.h"

namespace deepslice {
namespace {

FUZZ_TARGET(ir_text) {
  const auto graph = ParseGraph(input, "fuzz.ir");
  if (!graph.ok()) return CheckRefusal(graph.status());
  const std::string text = PrintGraph(*graph);
  const auto again = ParseGraph(text, "printed.ir");
  FUZZ_CHECK(again.ok());
  FUZZ_CHECK(PrintGraph(*again) == text);
  FUZZ_CHECK(VerifyGraph(*graph).ok() == VerifyGraph(*again).ok());
}

}  // namespace
}  // namespace deepslice
