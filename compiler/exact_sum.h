// A sum of numbers that does not depend on their order or on how they were
// grouped.
#ifndef DEEPSLICE_COMPILER_EXACT_SUM_H_
#define DEEPSLICE_COMPILER_EXACT_SUM_H_

#include <cstdint>
#include <vector>

namespace deepslice {

// Holds the exact sum of doubles, each finite and at least 0, as a fixed-point
// number wide enough for any of them. At most 2^31 additions (a merged sum
// counts as those it holds).
class ExactSum {
 public:
  void Add(double v);
  void Merge(const ExactSum& o);
  // The sum as a double, within one unit of its last place; the same for the
  // same sum.
  double Value() const;

 private:
  // Digits of 32 bits, the lowest of weight 2^-1074, not carried. Empty: 0.
  std::vector<uint64_t> digits_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_EXACT_SUM_H_
