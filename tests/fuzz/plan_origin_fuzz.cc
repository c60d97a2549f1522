// What a plan says of where it comes from, and its graph cut for other ranks.
#include "compiler/plan_origin.h"

#include "compiler/pipeline.h"
#include "ir/parser.h"
#include "ir/verifier.h"
#include "schema/base/limits.h"
#include "tests/fuzz/fuzz_target.h"

namespace deepslice {
namespace {

FUZZ_TARGET(plan_origin) {
  const auto origin = ReadOrigin(input);
  if (!origin.ok()) return CheckRefusal(origin.status());
  FUZZ_CHECK(origin->tp >= 1 && origin->tp <= limits::kWorldSize);
  FUZZ_CHECK(!origin->targets.empty() && origin->ceilings.max_batch > 0);
  for (const OriginTensor& t : origin->tensors) {
    FUZZ_CHECK(IsFloat(t.dtype) && t.num_elements() >= 0);
    for (const OriginRows& r : t.rest) {
      FUZZ_CHECK(r.rows.begin >= 0 && r.rows.end <= t.rows());
      FUZZ_CHECK(static_cast<int64_t>(r.values.size()) * t.rows() ==
                 r.rows.size() * t.num_elements());
    }
  }
  // Written again it says the same, but for the ranks.
  const auto again = ReadOrigin(OriginAtTp(*origin, 3));
  FUZZ_CHECK(again.ok() && again->tp == 3 && again->ir == origin->ir);
  FUZZ_CHECK(again->tensors.size() == origin->tensors.size());
  auto graph = ParseGraph(origin->ir, "ir");
  if (!graph.ok() || !VerifyGraph(*graph).ok()) return;
  const auto ranks =
      RunRankPasses(*std::move(graph), 1 + origin->tp % 3, origin->passes);
  if (!ranks.ok()) return CheckRefusal(ranks.status());
  for (const Graph& rank : ranks->ranks) FUZZ_CHECK(VerifyGraph(rank).ok());
}

}  // namespace
}  // namespace deepslice
