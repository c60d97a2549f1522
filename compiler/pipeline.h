// The story of a compilation: which passes run, in which order and why, with
// verification after each and dumps on request.
#ifndef DEEPSLICE_COMPILER_PIPELINE_H_
#define DEEPSLICE_COMPILER_PIPELINE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/graph.h"
#include "passes/pass.h"
#include "passes/quantize_weights.h"

namespace deepslice {

struct PipelineOptions {
  int tp = 1;
  StorageChoice storage;

  std::string dump_dir;     // empty: no dumps
  std::string dump_filter;  // substring of the file name; empty: all
  std::string stop_after;   // a phase or pass: the pipeline ends after it
  // Files made by earlier dumps (possibly edited): each takes the place of the
  // graph after the pass that its first line names, of one rank or of all.
  std::vector<std::string> start_from;
  bool time_passes = false;  // a line per pass through `log`
  std::function<void(const std::string&)> log;
};

struct CompiledGraphs {
  Graph imported;  // as given
  Graph unsliced;  // after the last pass that all ranks share
  std::vector<Graph> ranks;
  // Passes that changed a graph, each once, in order.
  std::vector<std::string> passes;
  std::vector<std::string> shared_passes;  // those that changed `unsliced`
  bool ranks_edited = false;  // start_from took the place of a rank's graph
  bool stopped = false;  // stop_after was reached: `ranks` may be unfinished
};

// Runs all passes on `imported`: the shared ones once, then those of each rank.
// After every pass the verifier runs; a failure reads "after pass NAME (I of N,
// rank R): ...". With dump_dir, one file per pass that changed the graph:
// DIR/NN.PHASE.PASS.ir, those of a rank under DIR/rankR/, numbered by place in
// the pipeline, and DIR/00.import.ir.
absl::StatusOr<CompiledGraphs> RunPipeline(Graph imported,
                                           const PipelineOptions& options);

// The passes of each rank alone, on the graph that they share: as RunPipeline
// goes on from `unsliced`, which `shared_passes` have made.
absl::StatusOr<CompiledGraphs> RunRankPasses(
    Graph unsliced, int tp, const std::vector<std::string>& shared_passes);

// What stop_after takes: the phases (import, fuse, quantize, slice) and the
// passes, in the order in which they run.
std::vector<std::string> StopAfterNames();

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_PIPELINE_H_
