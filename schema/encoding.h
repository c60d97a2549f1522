// How the numbers of a weight or a state are stored; tags go into plans.
#ifndef DEEPSLICE_SCHEMA_ENCODING_H_
#define DEEPSLICE_SCHEMA_ENCODING_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace deepslice {

// kI8Row: int8 values q and one float scale per output row; w = q * scale.
// kI8Group, kI4Group: one scale (and zero point) per group of columns.
enum class Encoding : uint8_t {
  kF32 = 0,
  kF16 = 1,
  kBF16 = 2,
  kI8Row = 3,
  kI8Group = 4,
  kI4Group = 5,
};
inline constexpr int kNumEncodings = 6;

// "f32", "f16", "bf16", "i8_row", "i8_group", "i4_group".
absl::string_view EncodingName(Encoding e);
std::optional<Encoding> ParseEncoding(absl::string_view name);
// Bits of one stored value, without scales.
int EncodingBits(Encoding e);
inline bool IsQuantized(Encoding e) { return e >= Encoding::kI8Row; }

}  // namespace deepslice

#endif  // DEEPSLICE_SCHEMA_ENCODING_H_
