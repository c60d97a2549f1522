// The verbs of dsplan that make something of a plan: reshard, export.
#ifndef DEEPSLICE_TOOLS_DSPLAN_MAKE_H_
#define DEEPSLICE_TOOLS_DSPLAN_MAKE_H_

#include "tools/cli_parse.h"
#include "tools/cli_values.h"
#include "tools/plan_export.h"
#include "tools/plan_reshard.h"

namespace deepslice {

struct MakeVerbs {
  CLI::App *reshard = nullptr, *exporter = nullptr;
  ReshardOptions reshard_options;
  ExportOptions export_options;
  Verbosity verbosity;
};

// Adds the verbs to dsplan's command line; `verbs` must outlive it.
void AddMakeVerbs(CLI::App& app, MakeVerbs* verbs);

// Runs the one that was parsed; the exit code. An interruption leaves nothing
// behind.
int RunMakeVerb(MakeVerbs& verbs);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_DSPLAN_MAKE_H_
