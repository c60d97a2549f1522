// `dsplan inspect --dot`: a step program as a graph for graphviz.
#ifndef DEEPSLICE_TOOLS_PLAN_DOT_H_
#define DEEPSLICE_TOOLS_PLAN_DOT_H_

#include <string>

#include "tools/plan_view.h"

namespace deepslice {

// A digraph: a node for each step, a cluster for each layer, layers that are
// alike as one ("layers 0 to 31"), an edge for each value read, with its type.
// Names are quoted, whatever they hold.
std::string ProgramDot(const ProgramSteps& program);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_PLAN_DOT_H_
