#include "tools/weight_diff.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "schema/base/dtype.h"
#include "schema/encoding.h"

namespace deepslice {
namespace {

template <typename T>
T At(const void* data, int64_t i) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + i * sizeof(T),
              sizeof(T));
  return value;
}

// What an element means.
class Elements {
 public:
  Elements(const Plan& plan, int i)
      : encoding_(
            static_cast<Encoding>(plan.fb().weights()->Get(i)->encoding())),
        data_(plan.weight_data(i)),
        scales_(plan.weight_scales(i)) {
    const fb::Weight& w = *plan.fb().weights()->Get(i);
    cols_ = w.shape()->size() == 2 ? w.shape()->Get(1) : 1;
  }
  // Whether this knows the encoding.
  bool readable() const { return encoding_ <= Encoding::kI8Row; }
  double operator[](int64_t i) const {
    switch (encoding_) {
      case Encoding::kF32:
        return At<float>(data_, i);
      case Encoding::kF16:
        return F16ToFloat(At<uint16_t>(data_, i));
      case Encoding::kBF16:
        return BF16ToFloat(At<uint16_t>(data_, i));
      default:
        return static_cast<double>(At<int8_t>(data_, i)) * scales_[i / cols_];
    }
  }

 private:
  const Encoding encoding_;
  const void* const data_;
  const float* const scales_;
  int64_t cols_ = 1;
};

bool SameShape(const fb::Weight& a, const fb::Weight& b) {
  return std::equal(a.shape()->begin(), a.shape()->end(), b.shape()->begin(),
                    b.shape()->end());
}

bool MadeAlike(const fb::Weight& a, const fb::Weight& b) {
  if (a.seed() != b.seed() || a.encoding() != b.encoding() ||
      !SameShape(a, b) || a.synthetic_mean() != b.synthetic_mean() ||
      a.synthetic_scale() != b.synthetic_scale() ||
      a.pieces()->size() != b.pieces()->size()) {
    return false;
  }
  for (uint32_t i = 0; i < a.pieces()->size(); ++i) {
    if (std::memcmp(a.pieces()->Get(i), b.pieces()->Get(i),
                    sizeof(fb::SyntheticPiece)) != 0) {
      return false;
    }
  }
  return true;
}

}  // namespace

WeightDistance CompareWeights(const Plan& a, int i, const Plan& b, int j) {
  const fb::Weight& wa = *a.fb().weights()->Get(i);
  const fb::Weight& wb = *b.fb().weights()->Get(j);
  WeightDistance out;
  const bool made_a = wa.origin() == fb::WeightOrigin::Synthetic;
  const bool made_b = wb.origin() == fb::WeightOrigin::Synthetic;
  if (made_a || made_b) {
    out.same_bytes = made_a && made_b && MadeAlike(wa, wb);
    return out;
  }
  if (!SameShape(wa, wb)) return out;
  out.same_bytes =
      wa.encoding() == wb.encoding() && wa.bytes() == wb.bytes() &&
      wa.scales_bytes() == wb.scales_bytes() &&
      std::memcmp(a.weight_data(i), b.weight_data(j), wa.bytes()) == 0 &&
      (wa.scales_bytes() == 0 ||
       std::memcmp(a.weight_scales(i), b.weight_scales(j), wa.scales_bytes()) ==
           0);
  const Elements ea(a, i), eb(b, j);
  if (!ea.readable() || !eb.readable()) return out;
  out.measured = true;
  if (out.same_bytes) return out;
  int64_t count = 1;
  for (const int64_t d : *wa.shape()) count *= d;
  double difference = 0, norm = 0;
  for (int64_t e = 0; e < count; ++e) {
    const double x = ea[e], y = eb[e];
    if (x == y) {
      norm += x * x;
      continue;
    }
    ++out.different;
    difference += (x - y) * (x - y);
    norm += x * x;
    out.max_abs = std::max(out.max_abs, std::fabs(x - y));
  }
  out.relative_l2 =
      norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference);
  return out;
}

}  // namespace deepslice
