// Joins the q, k and v linears of an attention into one, with their biases, and
// takes the rotation into the attention.
//   Before:  %q = linear(%h, @attn_q)   %qr = rope(%q, %positions, @freqs)
//            %k = linear(%h, @attn_k)   %kr = rope(%k, %positions, @freqs)
//            %v = linear(%h, @attn_v)
//            %a = attention(%qr, %kr, %v, ...)
//   After:   %qkv = linear(%h, @attn_qkv)
//            %a = qkv_attention(%qkv, ..., freqs=@freqs)
// Leaves an attention alone whose linears read different values, whose
// intermediate values have other users, or where only some have a bias.
#ifndef DEEPSLICE_PASSES_FUSE_QKV_H_
#define DEEPSLICE_PASSES_FUSE_QKV_H_

#include "passes/pass.h"

namespace deepslice {

class FuseQkv final : public Pass {
 public:
  absl::string_view name() const override { return "fuse-qkv"; }
  absl::Status Run(Graph& graph) override;
};

}  // namespace deepslice

#endif  // DEEPSLICE_PASSES_FUSE_QKV_H_
