// Runs the graphs of all ranks in lockstep over the reference kernels: what
// tests hold passes against.
#ifndef DEEPSLICE_PASSES_EVALUATE_H_
#define DEEPSLICE_PASSES_EVALUATE_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/graph.h"
#include "kernels/reference.h"

namespace deepslice {

// The numbers of a weight in the shape of its type, called at each use.
using WeightProvider = std::function<absl::StatusOr<RefTensor>(const Weight&)>;

// Parameters by name, the same for all ranks.
using NamedTensors = std::map<std::string, RefTensor>;

// By rank, then by the state's name: keys and values kept between calls, so
// that a prefill and the steps behind it are several calls with one of these.
// Empty at first.
using EvaluationStates = std::vector<std::map<std::string, RefState>>;

struct EvaluateOptions {
  // Sees every result of every rank as soon as it is there.
  std::function<void(int rank, const Value& value, const RefTensor& tensor)>
      observer;
};

// Executes the nodes of all ranks; each rank runs up to its next collective,
// where all meet: all_reduce adds in rank order, all_gather puts columns side
// by side. The ranks given are the group of every collective. The graphs must
// verify. Returns what rank 0 returns.
//
// Symbols of dims are bound by the inputs; every value is checked against its
// type under that binding. InvalidArgument for an input that is missing,
// unknown or of the wrong shape, and when ranks disagree on the kind, group,
// shape or number of their collectives, naming both; the status of a kernel or
// of `weights` with rank and value.
absl::StatusOr<std::vector<RefTensor>> Evaluate(
    absl::Span<const Graph* const> ranks, const WeightProvider& weights,
    const NamedTensors& inputs, EvaluationStates* states,
    const EvaluateOptions& options = {});

}  // namespace deepslice

#endif  // DEEPSLICE_PASSES_EVALUATE_H_
