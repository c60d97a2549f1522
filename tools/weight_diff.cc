#include "tools/weight_diff.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "schema/encoding.h"
#include "tools/weight_rows.h"

namespace deepslice {
namespace {

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
  if (wa.encoding() > static_cast<int>(Encoding::kI8Row) ||
      wb.encoding() > static_cast<int>(Encoding::kI8Row)) {
    return out;
  }
  out.measured = true;
  if (out.same_bytes) return out;
  const WeightRows rows_a(a, i), rows_b(b, j);
  std::vector<float> row_a(rows_a.cols()), row_b(rows_a.cols());
  double difference = 0, norm = 0;
  for (int64_t r = 0; r < rows_a.rows(); ++r) {
    rows_a.Read(r, row_a.data());
    rows_b.Read(r, row_b.data());
    for (int64_t c = 0; c < rows_a.cols(); ++c) {
      const double x = row_a[c], y = row_b[c];
      norm += x * x;
      if (x == y) continue;
      ++out.different;
      difference += (x - y) * (x - y);
      out.max_abs = std::max(out.max_abs, std::fabs(x - y));
    }
  }
  out.relative_l2 =
      norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference);
  return out;
}

}  // namespace deepslice
