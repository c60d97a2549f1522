// `dscompile families`: the model families that have a policy.
#ifndef DEEPSLICE_TOOLS_DSCOMPILE_FAMILIES_H_
#define DEEPSLICE_TOOLS_DSCOMPILE_FAMILIES_H_

#include <string>
#include <vector>

namespace deepslice {

// `arguments`: what follows the word. Prints a line a family, its model_type
// and architectures as config.json has them, or with --json an object
// {"families": [{"name", "model_types": [...], "architectures": [...]}, ...]}.
// Returns the exit code.
int RunFamilies(const std::vector<std::string>& arguments);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_DSCOMPILE_FAMILIES_H_
