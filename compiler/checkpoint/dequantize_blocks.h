// Loads that every block function needs, and the block functions that are not
// in dequantize.cc. Internal to dequantize*.cc.
#ifndef DEEPSLICE_COMPILER_CHECKPOINT_DEQUANTIZE_BLOCKS_H_
#define DEEPSLICE_COMPILER_CHECKPOINT_DEQUANTIZE_BLOCKS_H_

#include <cstdint>
#include <cstring>

namespace deepslice {

inline constexpr int kSmall = 32;   // elements of a Q*_0 or Q*_1 block
inline constexpr int kSuper = 256;  // elements of a Q*_K block

inline uint16_t Load16(const uint8_t* p) {
  uint16_t v;
  std::memcpy(&v, p, 2);
  return v;
}

inline float FloatFromBits(uint32_t bits) {
  float f;
  std::memcpy(&f, &bits, 4);
  return f;
}

// F16ToFloat without branches, so that loops over it vectorise: the exponent
// is moved by a product with 2^112, which also normalises subnormals.
inline float HalfToFloat(uint16_t h) {
  // Signed: baseline x86 has no unsigned comparison of vectors.
  const int32_t magnitude = (h & 0x7fff) << 13;
  const float scaled = FloatFromBits(magnitude) * 0x1p112f;
  int32_t bits;
  std::memcpy(&bits, &scaled, 4);
  // All ones for infinity and NaN. Not ?:, which GCC turns into a branch.
  const int32_t special = -static_cast<int32_t>(magnitude >= 0x0f800000);
  bits = (bits & ~special) | ((magnitude | 0x7f800000) & special);
  return FloatFromBits(static_cast<uint32_t>(bits) |
                       static_cast<uint32_t>(h & 0x8000) << 16);
}

inline float LoadHalf(const uint8_t* p) { return HalfToFloat(Load16(p)); }

// Each reads one block and writes its elements in order.
void BlockTQ1_0(const uint8_t* b, float* out);
void BlockTQ2_0(const uint8_t* b, float* out);
void BlockIQ4_NL(const uint8_t* b, float* out);
void BlockIQ4_XS(const uint8_t* b, float* out);
void BlockMXFP4(const uint8_t* b, float* out);
void BlockNVFP4(const uint8_t* b, float* out);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_CHECKPOINT_DEQUANTIZE_BLOCKS_H_
