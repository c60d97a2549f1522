// The steps of a GPU program that treat each row by itself: embeddings, norms,
// elementwise work, rotation, work on heads.
#ifndef DEEPSLICE_COMPILER_GPU_ROW_LOWERING_H_
#define DEEPSLICE_COMPILER_GPU_ROW_LOWERING_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "compiler/gpu/folds.h"
#include "compiler/gpu/value_places.h"
#include "kernels/cuda/rows.h"

namespace deepslice {

// The type that a weight has in memory.
inline DType StoredType(const Weight* w) {
  // The tags of encodings that are no quantised ones are those of dtypes.
  return static_cast<DType>(w->encoding);
}

// Each Lower* adds the steps of a node that has rows.
class RowLowering : protected ValuePlaces {
 public:
  // `fused`: linears are kernels of ours, which take norms and gathers in.
  RowLowering(const ProgramRequest& request, SpecTable* kernels, bool fused)
      : ValuePlaces(request, kernels), folds_(graph_, fused) {}

 protected:
  using Ref = LoweredOperand;
  using Second = ElementwiseShape::Second;

  absl::Status LowerEmbed(const Node& n);
  absl::Status LowerNorm(const Node& n);
  absl::Status LowerRope(const Node& n);
  absl::Status LowerHeadNorm(const Node& n);
  absl::Status LowerSumSquares(const Node& n);
  absl::Status LowerRmsNormOver(const Node& n);
  absl::Status LowerConcatHeads(const Node& n);
  absl::Status LowerHeadLinear(const Node& n);
  // A Scale or a Softcap; `y` is its result, or its sum with `second`.
  absl::Status LowerScale(const Node& n, const Value* second, const Value* y);
  // An Add, with a Scale that it takes in.
  absl::Status LowerAdd(const Node& n);

  struct Extras {
    const Weight* bias = nullptr;
    const Node* epilogue = nullptr;  // Activation or GatedAct
    const Value* second = nullptr;
    Second how = Second::kNone;
    const Node* gather = nullptr;
  };
  absl::Status Elementwise(const Value* x, const Value* y, const Extras& e) {
    return Elementwise(BufferOf(x), Columns(x), y, e);
  }
  absl::Status Elementwise(int x, int64_t columns, const Value* y,
                           const Extras& e);
  // Copies an input into `buffer`, which has as many columns, as its type.
  void Round(const Value* input, absl::string_view name, int buffer);
  static void SetEpilogue(const Node* n, std::optional<Act>* act, bool* gated);

  // The rows that a gather wants, or none.
  Ref Rows(const Node* gather);
  // Fills all of the buffer's rows, as many as v has, with zeros.
  void Zeros(const Value* v, absl::string_view name, int buffer);
  // Unimplemented unless `v` has this type.
  absl::Status CheckType(const Value* v, DType type) const;

  const Folds folds_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_GPU_ROW_LOWERING_H_
