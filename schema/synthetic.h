// Made-up weights as a pure function of seed, tensor and place, so that compiler
// and runtime fill memory with the same numbers however a weight is cut.
#ifndef DEEPSLICE_SCHEMA_SYNTHETIC_H_
#define DEEPSLICE_SCHEMA_SYNTHETIC_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "schema/base/digest.h"

namespace deepslice {

// The finaliser of splitmix64: every bit of the input moves every output bit.
constexpr uint64_t SyntheticMix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// What stands for a seed and a tensor's published name in SyntheticUnit.
inline uint64_t SyntheticTensorKey(uint64_t seed, absl::string_view tensor) {
  return SyntheticMix(seed) ^ Xxh3(tensor);
}

// In [-0.25, 0.25) in steps of 2^-21, so that 1 + value is exact, too. `row` and
// `col` are places in the source tensor seen as [out, in]. The GPU's is in
// kernels/cuda/fill_random.cuh.
constexpr float SyntheticUnit(uint64_t key, int64_t row, int64_t col) {
  const uint64_t hash = SyntheticMix(
      SyntheticMix(key ^ static_cast<uint64_t>(row)) ^
      static_cast<uint64_t>(col));
  return static_cast<float>(hash >> 44) * 0x1p-21f - 0.25f;
}

}  // namespace deepslice

#endif  // DEEPSLICE_SCHEMA_SYNTHETIC_H_
