// Weights that are computed rather than read: the angles that rotary positions
// turn by, ALiBi's slopes, norms without weights.
#ifndef DEEPSLICE_PASSES_FORMULA_H_
#define DEEPSLICE_PASSES_FORMULA_H_

#include <vector>

#include "absl/status/statusor.h"
#include "ir/graph.h"

namespace deepslice {

// The values of a weight whose source is a formula:
//
//   rope_freqs(base, rotary_dim)
//       base^(-2i / rotary_dim), i < rotary_dim / 2
//   rope_freqs_factors(base, rotary_dim, factor_0, factor_1, ...)
//       the same, each over a factor of its own
//   rope_freqs_linear(base, rotary_dim, factor)
//       the plain ones over factor
//   rope_freqs_llama3(base, rotary_dim, factor, low_freq_factor,
//                     high_freq_factor, original_positions)
//       long wavelengths over factor, short ones kept, a ramp between
//   rope_freqs_yarn(base, rotary_dim, factor, beta_fast, beta_slow,
//                   original_positions, truncate)
//       a ramp over the index between kept and divided; truncate is 0 or 1
//   alibi_slopes(heads, scale, begin, end)
//       scale times the slopes (Press et al. 2022) of heads begin to end
//   ones(begin, end)
//       end - begin ones
//
// Steps are in float32 and in the order of the published implementation, powers
// and logarithms in plain double arithmetic of our own, so the bits depend on
// neither the C library nor the processor. InvalidArgument for an unknown
// formula, a missing, unknown or repeated argument, or one out of range.
absl::StatusOr<std::vector<float>> EvaluateFormula(const WeightSource& source);

// Natural logarithm of a finite x > 0, the same bits everywhere; within a few
// units in the last place.
double PlainLog(double x);

}  // namespace deepslice

#endif  // DEEPSLICE_PASSES_FORMULA_H_
