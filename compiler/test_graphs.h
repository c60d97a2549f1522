// Sliced graphs of small models, for the tests of this folder; tests only.
#ifndef DEEPSLICE_COMPILER_TEST_GRAPHS_H_
#define DEEPSLICE_COMPILER_TEST_GRAPHS_H_

#include <string>
#include <utility>
#include <vector>

#include "compiler/dtype_option.h"
#include "compiler/import.h"
#include "compiler/model.h"
#include "compiler/pipeline.h"
#include "compiler/test_checkpoint.h"

namespace deepslice {

// One graph for each of tp ranks, as the writer gets them.
inline std::vector<Graph> SlicedGraphs(const Checkpoint& checkpoint, int tp,
                                       absl::string_view dtype) {
  auto model = DescribeModel(checkpoint);
  DS_CHECK(model.ok());
  PipelineOptions options;
  options.tp = tp;
  options.storage = *ChooseStorage(std::string(dtype), model->dtype);
  auto graphs = RunPipeline(*ImportGraph(*model), options);
  DS_CHECK(graphs.ok());
  return std::move(graphs->ranks);
}

inline std::vector<Graph> GoldenGraphs(absl::string_view name, int tp,
                                       absl::string_view dtype) {
  return SlicedGraphs(**OpenCheckpoint(GoldenCasePath(name)), tp, dtype);
}

// Of LlamaConfig: 6 heads of 10 over 2 keys, hidden 12, inner 20, vocabulary
// 131.
inline std::vector<Graph> TinyLlamaGraphs(int tp, absl::string_view dtype) {
  const TempFolder folder;
  return SlicedGraphs(
      **MakeTestCheckpoint(folder, LlamaConfig(), LlamaTensors()), tp, dtype);
}

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_TEST_GRAPHS_H_
