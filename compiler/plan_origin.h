// What a plan says of where it comes from, beside what it runs: enough to cut
// it anew for another number of ranks, and to write its weights back under
// their published names. It is the plan's `source` (schema/plan.fbs), equal in
// all ranks: one JSON object.
#ifndef DEEPSLICE_COMPILER_PLAN_ORIGIN_H_
#define DEEPSLICE_COMPILER_PLAN_ORIGIN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "compiler/checkpoint/checkpoint.h"
#include "compiler/model.h"
#include "compiler/pipeline.h"
#include "compiler/schedule.h"
#include "ir/graph.h"
#include "schema/base/dtype.h"
#include "schema/base/json.h"

namespace deepslice {

// Files of the source that a plan keeps as they are lie beside its own under
// this prefix: "source.tokenizer.json".
inline constexpr absl::string_view kSourceFilePrefix = "source.";
// Tensors whose numbers the weights don't give back: what became attributes of
// the model (factors), and norms whose offset rounds them. Absent: none.
inline constexpr absl::string_view kExactTensorsFile =
    "source.exact.safetensors";

// Rows of a tensor that no weight holds.
struct OriginRows {
  Range rows;
  std::vector<float> values;
};

// A tensor of the checkpoint that the plan was made from.
struct OriginTensor {
  std::string name;  // published
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  // as published
  // Recipes count its rows and columns of the transposed tensor.
  bool turned = false;
  std::vector<OriginRows> rest;  // where weights hold all but a few rows

  int64_t rows() const { return shape.empty() ? 1 : shape[0]; }
  int64_t num_elements() const;
};

struct PlanOrigin {
  json::Value root;  // the whole object

  // Views of it, read and checked.
  std::string ir;  // the graph that all ranks share, before slicing
  int tp = 1;
  std::vector<std::string> targets;  // as given
  int64_t device_memory = 0;         // as given; 0: not
  StepCeilings ceilings;
  std::vector<std::string> passes;    // that changed that graph
  bool ranks_edited = false;          // --start-from gave graphs of ranks
  std::vector<OriginTensor> tensors;  // that weights or attributes were read of
  // Whether the head is the embedding, where flags said so against the config.
  absl::optional<bool> tied_head;
};

// What Compile knows of it; `options` are the effective ones.
struct OriginFacts {
  const CompiledGraphs* graphs;
  const Checkpoint* checkpoint;
  const ModelDescription* model;
  StepCeilings ceilings;
  json::Value options, policy;
  std::vector<std::string> decisions;
  bool head_by_flag = false;  // --assume-tied or --trust-lm-head
};

struct WrittenOrigin {
  std::string source;  // the text that a plan holds
  std::string exact;   // kExactTensorsFile; empty: none
};
absl::StatusOr<WrittenOrigin> WriteOrigin(const OriginFacts& facts);

// The inverse, of untrusted text. FailedPrecondition for an older plan's, that
// says too little; DataLoss with the member that is wrong.
absl::StatusOr<PlanOrigin> ReadOrigin(absl::string_view text);

// The text of the same plan at another number of ranks.
std::string OriginAtTp(const PlanOrigin& origin, int tp);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_PLAN_ORIGIN_H_
