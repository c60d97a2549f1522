#include "compiler/checkpoint/dequantize.h"

#include <algorithm>
#include <cstring>

#include "compiler/checkpoint/dequantize_blocks.h"
#include "schema/base/check.h"

namespace deepslice {
namespace {

// Each function below reads one block, laid out as its first line says, and
// writes its elements in order.

// half d; 16 bytes: element i in the low, i + 16 in the high nibble of byte i.
void BlockQ4_0(const uint8_t* b, float* out) {
  const float d = LoadHalf(b);
  const uint8_t* q = b + 2;
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>((q[i] & 15) - 8);
    out[i + 16] = d * static_cast<float>((q[i] >> 4) - 8);
  }
}

// half d, half m; nibbles as Q4_0.
void BlockQ4_1(const uint8_t* b, float* out) {
  const float d = LoadHalf(b), m = LoadHalf(b + 2);
  const uint8_t* q = b + 4;
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>(q[i] & 15) + m;
    out[i + 16] = d * static_cast<float>(q[i] >> 4) + m;
  }
}

// The fifth bits: bit i of 32 belongs to element i.
void UnpackFive(const uint8_t* high, const uint8_t* low, int* q) {
  uint32_t bits;
  std::memcpy(&bits, high, 4);
  for (int i = 0; i < 16; ++i) {
    q[i] = (low[i] & 15) | static_cast<int>(bits >> i & 1) << 4;
    q[i + 16] = low[i] >> 4 | static_cast<int>(bits >> (i + 16) & 1) << 4;
  }
}

// half d; 4 bytes of fifth bits; nibbles as Q4_0.
void BlockQ5_0(const uint8_t* b, float* out) {
  const float d = LoadHalf(b);
  int q[kSmall];
  UnpackFive(b + 2, b + 6, q);
  for (int i = 0; i < kSmall; ++i) out[i] = d * static_cast<float>(q[i] - 16);
}

// half d, half m; 4 bytes of fifth bits; nibbles as Q4_0.
void BlockQ5_1(const uint8_t* b, float* out) {
  const float d = LoadHalf(b), m = LoadHalf(b + 2);
  int q[kSmall];
  UnpackFive(b + 4, b + 8, q);
  for (int i = 0; i < kSmall; ++i) out[i] = d * static_cast<float>(q[i]) + m;
}

// half d; 32 signed bytes.
void BlockQ8_0(const uint8_t* b, float* out) {
  const float d = LoadHalf(b);
  for (int i = 0; i < kSmall; ++i) {
    out[i] = static_cast<float>(static_cast<int8_t>(b[2 + i])) * d;
  }
}

// The K types name a scale for each run of 16 or 32 elements; within a run the
// bits of all elements lie at one shift of consecutive bytes.

// 16 bytes: 4-bit scale and minimum of each 16 elements; 64 bytes of 2-bit
// values, four planes of 32 in each 32 bytes; half d, half dmin.
void BlockQ2_K(const uint8_t* b, float* out) {
  const float d = LoadHalf(b + 80), dmin = LoadHalf(b + 82);
  for (int j = 0; j < 16; ++j, out += 16) {
    const float dl = d * static_cast<float>(b[j] & 15);
    const float ml = dmin * static_cast<float>(b[j] >> 4);
    const uint8_t* q = b + 16 + j / 8 * 32 + j % 2 * 16;
    const int shift = j / 2 % 4 * 2;
    for (int i = 0; i < 16; ++i) {
      out[i] = dl * static_cast<float>(q[i] >> shift & 3) - ml;
    }
  }
}

// 32 bytes of third bits (bit n of byte i belongs to element 32 n + i; a clear
// bit subtracts 4); 64 bytes of 2-bit values as Q2_K; 12 bytes of sixteen 6-bit
// scales; half d.
void BlockQ3_K(const uint8_t* b, float* out) {
  const uint8_t* s = b + 96;
  const float d = LoadHalf(b + 108);
  for (int j = 0; j < 16; ++j, out += 16) {
    const int low = s[j % 8] >> (j / 8 * 4) & 15;
    const int high = s[8 + j % 4] >> (j / 4 * 2) & 3;
    const float dl = d * static_cast<float>((low | high << 4) - 32);
    const uint8_t* third = b + j % 2 * 16;
    const uint8_t* q = b + 32 + j / 8 * 32 + j % 2 * 16;
    const int shift = j / 2 % 4 * 2;
    for (int i = 0; i < 16; ++i) {
      const int value = (q[i] >> shift & 3) + (third[i] >> (j / 2) & 1) * 4 - 4;
      out[i] = dl * static_cast<float>(value);
    }
  }
}

// Scale and minimum `j` of the eight that Q4_K and Q5_K pack as 6 bits each in
// 12 bytes.
void UnpackScale(const uint8_t* s, int j, int* scale, int* minimum) {
  if (j < 4) {
    *scale = s[j] & 63;
    *minimum = s[j + 4] & 63;
  } else {
    *scale = (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
    *minimum = s[j + 4] >> 4 | (s[j] >> 6) << 4;
  }
}

// half d, half dmin; 12 bytes of scales and minima of each 32 elements; 128
// bytes: two planes of 32 nibbles in each 32 bytes.
void BlockQ4_K(const uint8_t* b, float* out) {
  const float d = LoadHalf(b), dmin = LoadHalf(b + 2);
  for (int j = 0; j < 8; ++j) {
    int scale, minimum;
    UnpackScale(b + 4, j, &scale, &minimum);
    const float dl = d * static_cast<float>(scale);
    const float ml = dmin * static_cast<float>(minimum);
    const uint8_t* q = b + 16 + j / 2 * 32;
    for (int i = 0; i < 32; ++i) {
      out[j * 32 + i] = dl * static_cast<float>(q[i] >> (j % 2 * 4) & 15) - ml;
    }
  }
}

// As Q4_K, with 32 bytes of fifth bits (bit j of byte i) before the nibbles.
void BlockQ5_K(const uint8_t* b, float* out) {
  const float d = LoadHalf(b), dmin = LoadHalf(b + 2);
  const uint8_t* high = b + 16;
  for (int j = 0; j < 8; ++j) {
    int scale, minimum;
    UnpackScale(b + 4, j, &scale, &minimum);
    const float dl = d * static_cast<float>(scale);
    const float ml = dmin * static_cast<float>(minimum);
    const uint8_t* q = b + 48 + j / 2 * 32;
    for (int i = 0; i < 32; ++i) {
      const int value = (q[i] >> (j % 2 * 4) & 15) | (high[i] >> j & 1) << 4;
      out[j * 32 + i] = dl * static_cast<float>(value) - ml;
    }
  }
}

// 128 bytes of low nibbles, two planes of 64 in each 64 bytes; 64 bytes of high
// bit pairs as Q2_K; 16 signed scales of each 16 elements; half d.
void BlockQ6_K(const uint8_t* b, float* out) {
  const float d = LoadHalf(b + 208);
  for (int j = 0; j < 16; ++j, out += 16) {
    const float dl = d * static_cast<float>(static_cast<int8_t>(b[192 + j]));
    const uint8_t* low = b + j / 8 * 64 + j % 4 * 16;
    const uint8_t* high = b + 128 + j / 8 * 32 + j % 2 * 16;
    const int low_shift = j / 4 % 2 * 4, high_shift = j / 2 % 4 * 2;
    for (int i = 0; i < 16; ++i) {
      const int value = (low[i] >> low_shift & 15) | (high[i] >> high_shift & 3)
                                                         << 4;
      out[i] = dl * static_cast<float>(value - 32);
    }
  }
}

// float d; 256 signed bytes; 16 sums of them, which are for dot products.
void BlockQ8_K(const uint8_t* b, float* out) {
  float d;
  std::memcpy(&d, b, 4);
  for (int i = 0; i < kSuper; ++i) {
    out[i] = d * static_cast<float>(static_cast<int8_t>(b[4 + i]));
  }
}

using BlockFunction = void (*)(const uint8_t*, float*);
struct StorageRow {
  absl::string_view name;
  int elements, bytes;
  BlockFunction read;
};
constexpr StorageRow kStorage[] = {
    // in the order of the enum
    {"plain", 1, 0, nullptr},
    {"Q4_0", kSmall, 18, BlockQ4_0},
    {"Q4_1", kSmall, 20, BlockQ4_1},
    {"Q5_0", kSmall, 22, BlockQ5_0},
    {"Q5_1", kSmall, 24, BlockQ5_1},
    {"Q8_0", kSmall, 34, BlockQ8_0},
    {"Q2_K", kSuper, 84, BlockQ2_K},
    {"Q3_K", kSuper, 110, BlockQ3_K},
    {"Q4_K", kSuper, 144, BlockQ4_K},
    {"Q5_K", kSuper, 176, BlockQ5_K},
    {"Q6_K", kSuper, 210, BlockQ6_K},
    {"Q8_K", kSuper, 292, BlockQ8_K},
    {"TQ1_0", kSuper, 54, BlockTQ1_0},
    {"TQ2_0", kSuper, 66, BlockTQ2_0},
    {"IQ4_NL", kSmall, 18, BlockIQ4_NL},
    {"IQ4_XS", kSuper, 136, BlockIQ4_XS},
    {"MXFP4", kSmall, 17, BlockMXFP4},
    {"NVFP4", 64, 36, BlockNVFP4},
};
const StorageRow& RowOf(Storage s) { return kStorage[static_cast<int>(s)]; }

// A loop of its own per type: the call is inlined and the block loop unrolled.
template <BlockFunction kRead>
void ReadBlocks(const StorageRow& row, const uint8_t* data, int64_t blocks,
                float* out) {
  for (int64_t i = 0; i < blocks; ++i) {
    kRead(data + i * row.bytes, out + i * row.elements);
  }
}

void ReadWholeBlocks(Storage s, const uint8_t* data, int64_t blocks,
                     float* out) {
  const StorageRow& row = RowOf(s);
  switch (s) {  // the two of most files
    case Storage::kQ4_1:
      return ReadBlocks<BlockQ4_1>(row, data, blocks, out);
    case Storage::kQ8_0:
      return ReadBlocks<BlockQ8_0>(row, data, blocks, out);
    default:
      break;
  }
  for (int64_t i = 0; i < blocks; ++i) {
    row.read(data + i * row.bytes, out + i * row.elements);
  }
}

}  // namespace

absl::string_view StorageName(Storage s) { return RowOf(s).name; }
int64_t BlockElements(Storage s) { return RowOf(s).elements; }
int64_t BlockBytes(Storage s) { return RowOf(s).bytes; }

void DequantizeBlocks(Storage storage, const uint8_t* data, int64_t first,
                      int64_t count, float* out) {
  const StorageRow& row = RowOf(storage);
  DS_CHECK(row.read != nullptr);
  const int64_t end = first + count;
  while (first < end) {
    const uint8_t* block = data + first / row.elements * row.bytes;
    const int64_t skip = first % row.elements;
    if (skip == 0 && end - first >= row.elements) {
      const int64_t blocks = (end - first) / row.elements;
      ReadWholeBlocks(storage, block, blocks, out);
      first += blocks * row.elements;
      out += blocks * row.elements;
      continue;
    }
    float whole[kSuper];
    row.read(block, whole);
    const int64_t n = std::min(row.elements - skip, end - first);
    std::copy_n(whole + skip, n, out);
    first += n;
    out += n;
  }
}

void WidenToFloat(DType type, const uint8_t* data, int64_t count, float* out) {
  switch (type) {
    case DType::kF32:
      if (count > 0) std::memcpy(out, data, static_cast<size_t>(count) * 4);
      return;
    case DType::kBF16:
      for (int64_t i = 0; i < count; ++i) {
        out[i] =
            FloatFromBits(static_cast<uint32_t>(Load16(data + 2 * i)) << 16);
      }
      return;
    case DType::kF16:
      for (int64_t i = 0; i < count; ++i) out[i] = LoadHalf(data + 2 * i);
      return;
    case DType::kF64:
      for (int64_t i = 0; i < count; ++i) {
        double d;
        std::memcpy(&d, data + 8 * i, 8);
        out[i] = static_cast<float>(d);
      }
      return;
    default:
      DS_CHECK(IsFloat(type));
  }
}

}  // namespace deepslice
