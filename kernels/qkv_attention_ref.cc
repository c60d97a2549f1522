// Truth for QkvAttention: split the row, rotate q and k, then Attention.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/ref_util.h"
#include "schema/base/status_macros.h"

namespace deepslice {

absl::Status RefQkvAttention(const RefCall& call, RefTensor* out) {
  using O = operand::QkvAttention;
  using A = attr::QkvAttention;
  const Attr* attrs = call.attrs;
  const RefAttentionParams a = {
      "qkv_attention",         attrs[A::heads].i,
      attrs[A::kv_heads].i,    attrs[A::group].i,
      attrs[A::head_offset].i, attrs[A::head_dim].i,
      attrs[A::window].i,      attrs[A::scale].f,
      attrs[A::softcap].f,     static_cast<Alibi>(attrs[A::alibi].i),
      call.maybe(O::slopes)};
  const int64_t q_cols = a.heads * a.head_dim;
  const int64_t kv_cols = a.kv_heads * a.head_dim;
  const RefTensor* qkv = call.maybe(O::qkv);
  DS_RETURN_IF_ERROR(
      CheckRefShape(a.op, "qkv", qkv, {-1, q_cols + 2 * kv_cols}));
  const int64_t tokens = qkv->rows();
  const RefTensor* positions = call.maybe(O::positions);
  DS_RETURN_IF_ERROR(CheckRefAttention(a, positions, call.maybe(O::slots),
                                       call.maybe(O::blocks), tokens,
                                       call.state));
  const RefTensor* freqs = call.maybe(O::freqs);
  const int64_t rotary_dim = attrs[A::rotary_dim].i;
  if (freqs != nullptr) {
    if (rotary_dim < 0 || rotary_dim % 2 != 0 || rotary_dim > a.head_dim) {
      return absl::InvalidArgumentError(
          absl::StrCat(a.op, ": rotary_dim ", rotary_dim,
                       "; must be even and at most head_dim ", a.head_dim));
    }
    DS_RETURN_IF_ERROR(CheckRefShape(a.op, "freqs", freqs, {rotary_dim / 2}));
  }
  RefTensor q, k, v;
  ResizeRef({tokens, q_cols}, &q);
  ResizeRef({tokens, kv_cols}, &k);
  ResizeRef({tokens, kv_cols}, &v);
  for (int64_t t = 0; t < tokens; ++t) {
    const double* row = qkv->row(t);
    double* q_row = q.data.data() + t * q_cols;
    double* k_row = k.data.data() + t * kv_cols;
    std::copy_n(row, q_cols, q_row);
    std::copy_n(row + q_cols, kv_cols, k_row);
    std::copy_n(row + q_cols + kv_cols, kv_cols, v.data.data() + t * kv_cols);
    if (freqs == nullptr) continue;
    const auto rotate = [&](double* head) {
      RefRotateHead(positions->data[t], freqs->data.data(), rotary_dim,
                    static_cast<RopeStyle>(attrs[A::style].i),
                    attrs[A::rope_scale].f, head);
    };
    for (int64_t h = 0; h < a.heads; ++h) rotate(q_row + h * a.head_dim);
    for (int64_t h = 0; h < a.kv_heads; ++h) rotate(k_row + h * a.head_dim);
  }
  RunRefAttention(a, q, k, v, *positions, call.in(O::slots), call.state, out);
  return absl::OkStatus();
}

}  // namespace deepslice
