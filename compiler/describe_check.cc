// Opens a source, describes the model and builds its graph, and says what came
// of it: the test program of the bad-config suite.
//   describe_check [--assume-tied] [--trust-lm-head] PATH
#include <cstdio>
#include <cstring>
#include <string>

#include "compiler/checkpoint/checkpoint.h"
#include "compiler/import.h"
#include "compiler/model.h"
#include "schema/base/exit_code.h"
#include "schema/base/status_macros.h"

namespace {

using deepslice::Checkpoint;
using deepslice::ModelDescription;

absl::Status Check(const std::string& path,
                   const deepslice::DescribeOptions& options) {
  DS_ASSIGN_OR_RETURN(const std::unique_ptr<Checkpoint> checkpoint,
                      deepslice::OpenCheckpoint(path));
  for (const std::string& note : checkpoint->notes()) {
    std::fprintf(stderr, "note: %s\n", note.c_str());
  }
  DS_ASSIGN_OR_RETURN(const ModelDescription model,
                      deepslice::DescribeModel(*checkpoint, options));
  for (const std::string& note : model.notes) {
    std::fprintf(stderr, "note: %s\n", note.c_str());
  }
  DS_ASSIGN_OR_RETURN(const deepslice::Graph graph,
                      deepslice::ImportGraph(model));
  std::printf("%s: %zu tensors, %zu weights, %zu nodes\n", model.family.c_str(),
              model.coverage.tensors.size(), graph.weights().size(),
              graph.nodes().size());
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  deepslice::DescribeOptions options;
  std::string path;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--assume-tied") == 0) {
      options.assume_tied = true;
    } else if (std::strcmp(argv[i], "--trust-lm-head") == 0) {
      options.trust_lm_head = true;
    } else {
      path = argv[i];
    }
  }
  if (path.empty()) {
    std::fprintf(stderr,
                 "usage: describe_check [--assume-tied] [--trust-lm-head] "
                 "PATH\n");
    return deepslice::kExitUsage;
  }
  const absl::Status status = Check(path, options);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return deepslice::ExitCodeOf(status);
}
