#include "schema/encoding.h"

namespace deepslice {
namespace {

struct Row {
  const char* name;
  int bits;
};
constexpr Row kRows[kNumEncodings] = {{"f32", 32},     {"f16", 16},
                                      {"bf16", 16},    {"i8_row", 8},
                                      {"i8_group", 8}, {"i4_group", 4}};

}  // namespace

absl::string_view EncodingName(Encoding e) {
  return kRows[static_cast<int>(e)].name;
}

std::optional<Encoding> ParseEncoding(absl::string_view name) {
  for (int i = 0; i < kNumEncodings; ++i) {
    if (name == kRows[i].name) return static_cast<Encoding>(i);
  }
  return std::nullopt;
}

int EncodingBits(Encoding e) { return kRows[static_cast<int>(e)].bits; }

}  // namespace deepslice
