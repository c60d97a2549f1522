// A plan with what it says of where it comes from: what dsplan's verbs that
// make something of a plan start from.
#ifndef DEEPSLICE_TOOLS_KNOWN_PLAN_H_
#define DEEPSLICE_TOOLS_KNOWN_PLAN_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/checkpoint/safetensors.h"
#include "compiler/plan_origin.h"
#include "compiler/plan_writer.h"
#include "ir/graph.h"
#include "runtime/manifest.h"
#include "runtime/plan.h"
#include "schema/base/file.h"
#include "tools/plan_supply.h"

namespace deepslice {

struct KnownPlan {
  std::string folder;
  Manifest manifest;
  json::Value manifest_json, report;
  std::vector<Plan> ranks;
  PlanOrigin origin;
  Graph unsliced;             // of the origin
  std::vector<Graph> graphs;  // of the ranks, cut as the plan is
  std::unique_ptr<PlanSupply> supply;
  // kExactTensorsFile; empty: there is none.
  MappedFile exact_file;
  SafetensorsHeader exact;

  // Files of the source that the plan keeps, in the manifest's order.
  absl::StatusOr<std::vector<KeptFile>> SourceFiles() const;
  // Everything that a plan says beside its graphs, but for what depends on how
  // it is cut: kernels, passes, source and options.
  PlanContents Contents() const;
};

// Loads all ranks and checks them: every block of the weights against the
// plan's hashes, every other file against the manifest, and the ranks against
// the graph that they were cut from. Errors begin with the folder or file;
// FailedPrecondition for a plan that says too little or whose ranks were
// edited. `verb` is what was asked for ("reshard").
absl::StatusOr<std::unique_ptr<KnownPlan>> LoadKnownPlan(
    const std::string& folder, const std::string& verb, int threads);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_KNOWN_PLAN_H_
