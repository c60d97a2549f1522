// How far the numbers of two plans' weights are apart.
#ifndef DEEPSLICE_TOOLS_WEIGHT_DIFF_H_
#define DEEPSLICE_TOOLS_WEIGHT_DIFF_H_

#include "runtime/plan.h"

namespace deepslice {

struct WeightDistance {
  bool same_bytes = false;  // encoding, values and scales
  bool measured = false;    // shapes agree and both are stored
  double relative_l2 = 0;   // of the difference, over a's norm
  double max_abs = 0;
  int64_t different = 0;  // elements whose meaning differs
};

// Weight `i` of `a` beside weight `j` of `b`. Weights that are made up are the
// same when they are made alike; others are not measured.
WeightDistance CompareWeights(const Plan& a, int i, const Plan& b, int j);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_WEIGHT_DIFF_H_
