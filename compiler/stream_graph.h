// Runs a graph of one rank over the reference kernels without holding its
// matrices: they are read a few rows at a time, where they are multiplied.
#ifndef DEEPSLICE_COMPILER_STREAM_GRAPH_H_
#define DEEPSLICE_COMPILER_STREAM_GRAPH_H_

#include <functional>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "compiler/checkpoint/checkpoint.h"
#include "ir/graph.h"
#include "kernels/reference.h"

namespace deepslice {

// Multiply-adds of matrices for one row of their input.
int64_t MatrixElements(const Graph& graph);

class StreamedGraph {
 public:
  // Weights are rounded as stored (stored_rows.h). The graph has no collective.
  // Those of a linear and of an embedding are read in pieces. Both must outlive
  // it.
  // A thread more is started for each `work_of_thread` multiply-adds of a
  // matrix: a millisecond or two.
  StreamedGraph(const Graph& graph, const Checkpoint& checkpoint, int threads,
                int64_t work_of_thread = 4 << 20)
      : graph_(graph),
        checkpoint_(checkpoint),
        threads_(threads),
        work_of_thread_(work_of_thread) {}

  // What the graph returns first, from its parameters by name. States are kept
  // from call to call. The same bits whatever the threads: each sum is of one
  // thread, in order. `between` is called with each node's place and may end
  // the run with its status.
  absl::StatusOr<RefTensor> Run(
      std::map<std::string, RefTensor> inputs,
      const std::function<absl::Status(size_t node)>& between);

 private:
  absl::Status RunNode(const Node& node,
                       const std::map<const Value*, RefTensor>& values,
                       RefTensor* out);
  absl::Status Linear(const Weight& w, const RefTensor& x, RefTensor* out);
  absl::Status Embed(const Weight& table, const RefTensor& ids, int64_t begin,
                     RefTensor* out);
  absl::StatusOr<RefTensor> Whole(const Weight& w);

  const Graph& graph_;
  const Checkpoint& checkpoint_;
  const int threads_;
  const int64_t work_of_thread_;
  std::map<std::string, RefState> states_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_STREAM_GRAPH_H_
