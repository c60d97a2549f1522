// Which instruction sets the kernels are compiled for; included before Highway.
#ifndef DEEPSLICE_KERNELS_SIMD_TARGETS_H_
#define DEEPSLICE_KERNELS_SIMD_TARGETS_H_

// Kernels keep vectors in arrays, which the sizeless types of SVE and RVV do
// not allow. SSSE3 without SSE4 is not worth the time to compile.
#define HWY_DISABLED_TARGETS \
  (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV | HWY_SSSE3)

#endif  // DEEPSLICE_KERNELS_SIMD_TARGETS_H_
