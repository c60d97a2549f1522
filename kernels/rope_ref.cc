// Truth for Rope: pairs of each head rotated by position * freq.
#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/ref_util.h"
#include "schema/base/status_macros.h"

namespace deepslice {

void RefRotateHead(double position, const double* freqs, int64_t rotary_dim,
                   RopeStyle style, double scale, double* head) {
  const int64_t half = rotary_dim / 2;
  for (int64_t i = 0; i < half; ++i) {
    const double angle = position * freqs[i];
    const double c = std::cos(angle) * scale, s = std::sin(angle) * scale;
    const bool pairs = style == RopeStyle::kInterleaved;
    double& a = head[pairs ? 2 * i : i];
    double& b = head[pairs ? 2 * i + 1 : i + half];
    const double x = a, y = b;
    a = x * c - y * s;
    b = x * s + y * c;
  }
}

absl::Status RefRope(const RefCall& call, RefTensor* out) {
  const RefTensor* x = call.maybe(operand::Rope::x);
  const RefTensor* positions = call.maybe(operand::Rope::positions);
  const RefTensor* freqs = call.maybe(operand::Rope::freqs);
  const Attr* a = call.attrs;
  const int64_t heads = a[attr::Rope::heads].i;
  const int64_t head_dim = a[attr::Rope::head_dim].i;
  const int64_t rotary_dim = a[attr::Rope::rotary_dim].i;
  if (heads < 0 || head_dim < 1 || rotary_dim < 0 || rotary_dim % 2 != 0 ||
      rotary_dim > head_dim) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rope: heads ", heads, ", head_dim ", head_dim, ", rotary_dim ",
        rotary_dim, "; rotary_dim must be even and at most head_dim"));
  }
  DS_RETURN_IF_ERROR(CheckRefShape("rope", "x", x, {-1, heads * head_dim}));
  DS_RETURN_IF_ERROR(
      CheckRefShape("rope", "positions", positions, {x->rows()}));
  DS_RETURN_IF_ERROR(CheckRefShape("rope", "freqs", freqs, {rotary_dim / 2}));
  const RefTensor* longer = call.maybe(operand::Rope::long_freqs);
  const RefTensor* slots = call.maybe(operand::Rope::slots);
  const RefTensor* horizons = call.maybe(operand::Rope::horizons);
  if (longer != nullptr) {
    DS_RETURN_IF_ERROR(
        CheckRefShape("rope", "long_freqs", longer, {rotary_dim / 2}));
  }
  if (horizons != nullptr) {
    DS_RETURN_IF_ERROR(CheckRefShape("rope", "slots", slots, {x->rows()}));
    DS_RETURN_IF_ERROR(CheckRefShape("rope", "horizons", horizons, {-1}));
  }
  *out = *x;
  for (int64_t t = 0; t < x->rows(); ++t) {
    std::vector<double> table = freqs->data;
    if (horizons != nullptr) {
      const double horizon =
          horizons->data.at(static_cast<size_t>(slots->data[t]));
      const auto from = static_cast<double>(a[attr::Rope::long_from].i);
      const double length = std::max(horizon, positions->data[t] + 1);
      if (longer != nullptr && horizon > from) table = longer->data;
      if (longer == nullptr && length > from) {
        const double f = a[attr::Rope::ntk_factor].f;
        const double stretch = f * length / from - f + 1;
        for (size_t i = 1; i < table.size(); ++i) {
          table[i] /=
              std::pow(stretch, 2.0 * static_cast<double>(i) /
                                    static_cast<double>(rotary_dim - 2));
        }
      }
    }
    for (int64_t h = 0; h < heads; ++h) {
      RefRotateHead(positions->data[t], table.data(), rotary_dim,
                    static_cast<RopeStyle>(a[attr::Rope::style].i),
                    a[attr::Rope::scale].f,
                    out->data.data() + (t * heads + h) * head_dim);
    }
  }
  return absl::OkStatus();
}

}  // namespace deepslice
