// The files beside the weights that `dsplan export` writes: configurations,
// tokenizer, chat templates.
#ifndef DEEPSLICE_TOOLS_EXPORT_FILES_H_
#define DEEPSLICE_TOOLS_EXPORT_FILES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/plan_writer.h"
#include "tools/known_plan.h"

namespace deepslice {

// As the source had them, as far as the plan knows; what it knows in its own
// form alone is told by notes. config.json is `config`; with `other_types`,
// which is to say that tensors are written in other types than the source's, it
// says the plan's.
absl::StatusOr<std::vector<KeptFile>> ExportFiles(
    const KnownPlan& known, json::Value config, bool other_types,
    std::vector<std::string>* notes);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_EXPORT_FILES_H_
