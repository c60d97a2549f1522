// GGUF's block types whose elements are codes of a few values: ternary digits,
// and 4-bit numbers of a table.
#include "compiler/checkpoint/dequantize_blocks.h"

namespace deepslice {
namespace {

// The values of IQ4_NL and IQ4_XS, denser near 0.
constexpr int8_t kNonLinear[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                   1,    13,   25,  38,  53,  69,  89,  113};
// Twice the values of E2M1, the 4-bit float of OCP's microscaling formats.
constexpr int8_t kE2M1[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                              0, -1, -2, -3, -4, -6, -8, -12};

// Elements 0 to n - 1 in the low nibbles of n bytes, n to 2n - 1 in the high.
void ReadNibbles(const uint8_t* q, int n, const int8_t* table, float d,
                 float* out) {
  for (int i = 0; i < n; ++i) {
    out[i] = d * static_cast<float>(table[q[i] & 15]);
    out[n + i] = d * static_cast<float>(table[q[i] >> 4]);
  }
}

// `digits` ternary digits of each of n bytes, most significant first: element
// k * n + i is digit k of byte i, less 1. A byte holds the fraction
// digits / 3^5 in 256ths, so that the next digit is the carry out of 3 * byte.
float* ReadTernary(const uint8_t* q, int n, int digits, float d, float* out) {
  for (int i = 0; i < n; ++i) {
    uint8_t rest = q[i];
    for (int k = 0; k < digits; ++k) {
      const int product = rest * 3;
      out[k * n + i] = d * static_cast<float>((product >> 8) - 1);
      rest = static_cast<uint8_t>(product);
    }
  }
  return out + n * digits;
}

// An unsigned E4M3 scale, halved for kE2M1. 0x7f (no number) counts as 0.
float HalfScaleE4M3(uint8_t x) {
  if (x == 0x7f) return 0;
  const int exponent = x >> 3 & 15, mantissa = x & 7;
  if (exponent == 0) return static_cast<float>(mantissa) * 0x1p-10f;
  return static_cast<float>(8 + mantissa) *
         FloatFromBits(static_cast<uint32_t>(exponent - 11 + 127) << 23);
}

}  // namespace

// 32 and 16 bytes of five digits each, 4 bytes of four; half d.
void BlockTQ1_0(const uint8_t* b, float* out) {
  const float d = LoadHalf(b + 52);
  out = ReadTernary(b, 32, 5, d, out);
  out = ReadTernary(b + 32, 16, 5, d, out);
  ReadTernary(b + 48, 4, 4, d, out);
}

// 64 bytes of 2-bit values, four planes of 32 in each 32 bytes; half d.
void BlockTQ2_0(const uint8_t* b, float* out) {
  const float d = LoadHalf(b + 64);
  for (int j = 0; j < 8; ++j) {
    const uint8_t* q = b + j / 4 * 32;
    for (int i = 0; i < 32; ++i) {
      out[j * 32 + i] = d * static_cast<float>((q[i] >> (j % 4 * 2) & 3) - 1);
    }
  }
}

// half d; 16 bytes of codes, nibbles as Q4_0.
void BlockIQ4_NL(const uint8_t* b, float* out) {
  ReadNibbles(b + 2, 16, kNonLinear, LoadHalf(b), out);
}

// half d; 16 bits with the upper two bits of eight scales, 4 bytes with their
// lower four; 16 bytes of codes of each 32 elements.
void BlockIQ4_XS(const uint8_t* b, float* out) {
  const float d = LoadHalf(b);
  const uint16_t high = Load16(b + 2);
  for (int j = 0; j < 8; ++j) {
    const int low = b[4 + j / 2] >> (j % 2 * 4) & 15;
    const int scale = (low | (high >> (2 * j) & 3) << 4) - 32;
    ReadNibbles(b + 8 + j * 16, 16, kNonLinear, d * static_cast<float>(scale),
                out + j * 32);
  }
}

// A power of two (E8M0: 2^(e - 127)), halved for kE2M1; 16 bytes of codes.
void BlockMXFP4(const uint8_t* b, float* out) {
  // The two least are subnormal.
  const uint32_t bits =
      b[0] < 2 ? 0x00200000u << b[0] : static_cast<uint32_t>(b[0] - 1) << 23;
  ReadNibbles(b + 1, 16, kE2M1, FloatFromBits(bits), out);
}

// Scales of four runs of 16 elements; 8 bytes of codes for each.
void BlockNVFP4(const uint8_t* b, float* out) {
  for (int j = 0; j < 4; ++j) {
    ReadNibbles(b + 4 + j * 8, 8, kE2M1, HalfScaleE4M3(b[j]), out + j * 16);
  }
}

}  // namespace deepslice
