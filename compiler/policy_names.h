// Under which of a policy's names a checkpoint has its tensors.
#ifndef DEEPSLICE_COMPILER_POLICY_NAMES_H_
#define DEEPSLICE_COMPILER_POLICY_NAMES_H_

#include "compiler/checkpoint/checkpoint.h"
#include "compiler/policy.h"

namespace deepslice {

// `policy` with the one prefix, and for each pattern the one name, that the
// checkpoint has. Of a pattern that it has under none, the names that are
// nearest to what is there remain.
Policy WithNamesChosen(Policy policy, const Checkpoint& checkpoint);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_POLICY_NAMES_H_
