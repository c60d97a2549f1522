// Chooses how each weight and the cache are stored. Values are rounded when the
// plan is written, over whole unsharded rows, so that a row has the same bits
// at every tp.
//   Before:  weight @up : f32[172, 64] role(mlp_up)
//   After:   weight @up : f32[172, 64] role(mlp_up) encoding(i8_row)
// Matrices whose role quantises take the dtype; other matrices the base type;
// vectors stay f32 (they are few, and added once), and so does what is named.
// Runs before tensor-slice.
#ifndef DEEPSLICE_PASSES_QUANTIZE_WEIGHTS_H_
#define DEEPSLICE_PASSES_QUANTIZE_WEIGHTS_H_

#include <string>
#include <vector>

#include "passes/pass.h"

namespace deepslice {

struct StorageChoice {
  Encoding weights = Encoding::kF32;  // of roles that quantise
  Encoding base = Encoding::kF32;     // of other matrices: a 16/32-bit type
  Encoding cache = Encoding::kF32;    // of keys and values
  // Matrices that stay f32, by the last part of their names: "attn_q".
  std::vector<std::string> precise;
};

// How a matrix of that name and role is stored.
Encoding MatrixEncoding(const StorageChoice& choice, absl::string_view name,
                        Role role);

class QuantizeWeights final : public Pass {
 public:
  explicit QuantizeWeights(StorageChoice choice) : choice_(choice) {}
  absl::string_view name() const override { return "quantize-weights"; }
  absl::Status Run(Graph& graph) override;

 private:
  const StorageChoice choice_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_PASSES_QUANTIZE_WEIGHTS_H_
