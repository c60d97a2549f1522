#include "compiler/exact_sum.h"

#include <cmath>

namespace deepslice {
namespace {

constexpr int kLowest = -1074;  // exponent of the smallest double
// Bits of the largest double above that, and of 2^31 of them.
constexpr int kDigits = (1024 - kLowest) / 32 + 2;
constexpr int kMantissa = 53;

}  // namespace

void ExactSum::Add(double v) {
  if (!(v > 0)) return;
  digits_.resize(kDigits);
  int exponent = 0;
  const double fraction = std::frexp(v, &exponent);  // in [0.5, 1)
  int low = exponent - kMantissa;
  auto mantissa = static_cast<uint64_t>(std::ldexp(fraction, kMantissa));
  if (low < kLowest) {  // a denormal: the bits below are zeros
    mantissa >>= kLowest - low;
    low = kLowest;
  }
  const int place = low - kLowest;
  unsigned __int128 bits = mantissa;
  bits <<= place % 32;
  for (int i = place / 32; bits != 0; ++i, bits >>= 32) {
    digits_[i] += static_cast<uint32_t>(bits);
  }
}

void ExactSum::Merge(const ExactSum& o) {
  if (o.digits_.empty()) return;
  digits_.resize(kDigits);
  for (int i = 0; i < kDigits; ++i) digits_[i] += o.digits_[i];
}

double ExactSum::Value() const {
  std::vector<uint32_t> carried;
  uint64_t carry = 0;
  for (const uint64_t digit : digits_) {
    // Below 2^63 + 2^32: no digit has more than 2^31 additions of 32 bits.
    const uint64_t sum = digit + carry;
    carried.push_back(static_cast<uint32_t>(sum));
    carry = sum >> 32;
  }
  // The three highest digits that count hold more bits than a double.
  int top = static_cast<int>(carried.size()) - 1;
  while (top >= 0 && carried[top] == 0) --top;
  double value = 0;
  for (int i = top; i >= 0 && i > top - 3; --i) {
    value += std::ldexp(static_cast<double>(carried[i]), 32 * i + kLowest);
  }
  return value;
}

}  // namespace deepslice
