// Random graphs over all ops, for tests.
#ifndef DEEPSLICE_IR_RANDOM_GRAPH_H_
#define DEEPSLICE_IR_RANDOM_GRAPH_H_

#include <cstdint>

#include "ir/graph.h"

namespace deepslice {

// A graph that verifies, the same for equal seeds: `num_nodes` nodes, each of
// any op with equal chance, odd sizes (0 among them), names, numbers and
// weight recipes.
Graph RandomGraph(uint32_t seed, int num_nodes);

}  // namespace deepslice

#endif  // DEEPSLICE_IR_RANDOM_GRAPH_H_
