// What an exported folder calls a plan's tensors: as the source did, or, where
// that was Megatron-LM, as a model of transformers that computes the same.
#ifndef DEEPSLICE_TOOLS_EXPORT_NAMES_H_
#define DEEPSLICE_TOOLS_EXPORT_NAMES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/plan_origin.h"
#include "schema/base/json.h"
#include "tools/export_tensor.h"
#include "tools/known_plan.h"

namespace deepslice {

struct ExportNames {
  json::Value config;
  std::vector<OriginTensor> tensors;
  PartsOf parts;  // of each tensor, by its name
};

// The source's own; for Megatron-LM those of GPT-2, GPT-NeoX or Llama, where
// the graph that such a config makes is the plan's, operation by operation. A
// note tells which, or that there is none.
absl::StatusOr<ExportNames> ChooseNames(const KnownPlan& known,
                                        std::vector<std::string>* notes);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_EXPORT_NAMES_H_
