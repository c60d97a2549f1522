// Takes bias and residual into the step that makes the sum's other term: the
// linear itself where no collective follows it, else the addition after the
// all-reduce.
//   Before:  %n = linear(%a, @w)   %y = add_bias(%n, @b)   %z = add(%r, %y)
//   After:   %z = linear(%a, @w, bias=@b, residual=%r)
//   Before:  %y = all_reduce(%p)   %b = add_bias(%y, @b)   %z = add(%r, %b)
//   After:   %y = all_reduce(%p)   %z = add(%r, %y, bias=@b)
// Runs after tensor-slice: a bias taken into a linear that is then summed over
// ranks would be added once per rank.
#ifndef DEEPSLICE_PASSES_FUSE_EPILOGUES_H_
#define DEEPSLICE_PASSES_FUSE_EPILOGUES_H_

#include "passes/pass.h"

namespace deepslice {

class FuseEpilogues final : public Pass {
 public:
  absl::string_view name() const override { return "fuse-epilogues"; }
  absl::Status Run(Graph& graph) override;
};

}  // namespace deepslice

#endif  // DEEPSLICE_PASSES_FUSE_EPILOGUES_H_
