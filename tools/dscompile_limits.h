// `dscompile limits`: what untrusted input may at most ask for.
#ifndef DEEPSLICE_TOOLS_DSCOMPILE_LIMITS_H_
#define DEEPSLICE_TOOLS_DSCOMPILE_LIMITS_H_

#include <string>
#include <vector>

namespace deepslice {

// `arguments`: what follows the word. Prints the table of limits.h, or with
// --json an object {"limits": [{"name", "value", "unit", "of"}, ...]}. Returns
// the exit code.
int RunLimits(const std::vector<std::string>& arguments);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_DSCOMPILE_LIMITS_H_
