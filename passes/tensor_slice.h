// Cuts every weight whose role has a cut to the part that one tp rank owns, and
// adds the collectives that the cut makes necessary.
//   Before:  %y = linear(%h, @down) : f32[T, 64]
//   After:   %y.partial = linear(%h, @down) : f32[T, 64]
//            %y = all_reduce(%y.partial) {group=tp} : f32[T, 64]
//            @down is now "down_proj.weight"[0:64, 80:172]
// Attention is cut by KV head groups; with more ranks than KV heads by query
// heads, each rank keeping a copy of the KV heads it reads. MLPs are cut in
// grains of 16, embedding and head by vocabulary entries. A rank may own
// nothing: its zero-sized parts add zero.
// Needs roles. Runs after quantize-weights (a row keeps its scale) and before
// fuse-epilogues (a bias is added once, after the sum). At tp 1 it changes
// nothing.
#ifndef DEEPSLICE_PASSES_TENSOR_SLICE_H_
#define DEEPSLICE_PASSES_TENSOR_SLICE_H_

#include "passes/pass.h"

namespace deepslice {

// The query and KV heads of one rank.
struct HeadPart {
  Range q;   // of all query heads
  Range kv;  // of all KV heads: those that q reads
};
// Heads are cut by group while tp <= kv_heads, else by query head.
// `kv_heads` divides `heads`.
HeadPart PartOfHeads(int64_t heads, int64_t kv_heads, int tp, int rank);

// The part of an MLP of that intermediate size, in grains of 16.
Range PartOfMlp(int64_t intermediate, int tp, int rank);

class TensorSlice final : public Pass {
 public:
  TensorSlice(int tp, int rank) : tp_(tp), rank_(rank) {}
  absl::string_view name() const override { return "tensor-slice"; }
  absl::Status Run(Graph& graph) override;

 private:
  const int tp_, rank_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_PASSES_TENSOR_SLICE_H_
