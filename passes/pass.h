// A transformation of a graph, with its place in the product: a name and a Run.
#ifndef DEEPSLICE_PASSES_PASS_H_
#define DEEPSLICE_PASSES_PASS_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ir/graph.h"

namespace deepslice {

class Pass {
 public:
  virtual ~Pass() = default;
  // "tensor-slice": the name in flags, dumps and golden folders.
  virtual absl::string_view name() const = 0;
  // May leave the graph half changed when it fails.
  virtual absl::Status Run(Graph& graph) = 0;
};

// Arguments of a pass in text: "tensor-slice(tp=2,rank=1)".
using PassArguments = std::vector<std::pair<std::string, std::string>>;

// registry.cc holds one sorted line per pass.
struct PassInfo {
  absl::string_view name;
  absl::string_view summary;
  absl::StatusOr<std::unique_ptr<Pass>> (*make)(const PassArguments&);
};
const std::vector<PassInfo>& AllPasses();

// "fuse-qkv,tensor-slice(tp=2,rank=1)" to passes. InvalidArgument with the
// nearest name for an unknown one, and for an unknown or missing argument.
absl::StatusOr<std::vector<std::unique_ptr<Pass>>> ParsePasses(
    absl::string_view text);

}  // namespace deepslice

#endif  // DEEPSLICE_PASSES_PASS_H_
