#include "passes/synthetic_weights.h"

#include "passes/formula.h"
#include "schema/base/status_macros.h"
#include "schema/synthetic.h"

namespace deepslice {
namespace {

std::vector<int64_t> ShapeOf(const Weight& weight) {
  std::vector<int64_t> shape;
  for (const Dim& d : weight.type.dims) shape.push_back(d.size);
  return shape;
}

}  // namespace

double SyntheticValue(uint64_t seed, absl::string_view tensor, int64_t row,
                      int64_t col) {
  return SyntheticUnit(SyntheticTensorKey(seed, tensor), row, col);
}

RefTensor AssemblePieces(
    const Weight& weight,
    const std::function<double(const SourcePiece& piece, int64_t row,
                               int64_t col)>& read) {
  RefTensor out;
  out.shape = ShapeOf(weight);
  const std::vector<SourcePiece>& pieces = weight.source.pieces;
  const auto append_row = [&](const SourcePiece& piece, int64_t row) {
    for (int64_t col = piece.cols.begin; col < piece.cols.end; ++col) {
      out.data.push_back(read(piece, piece.Row(row), col) + weight.source.plus);
    }
  };
  if (weight.source.interleaved) {
    for (int64_t i = 0; i < pieces[0].rows.size(); ++i) {
      for (const SourcePiece& p : pieces) append_row(p, p.rows.begin + i);
    }
  } else {
    for (const SourcePiece& p : pieces) {
      for (int64_t r = p.rows.begin; r < p.rows.end; ++r) append_row(p, r);
    }
  }
  return out;
}

WeightProvider SyntheticWeights(uint64_t seed) {
  return [seed](const Weight& weight) -> absl::StatusOr<RefTensor> {
    if (!weight.source.formula.empty()) {
      DS_ASSIGN_OR_RETURN(const std::vector<float> values,
                          EvaluateFormula(weight.source));
      return RefTensor{ShapeOf(weight), {values.begin(), values.end()}};
    }
    Weight whole = weight;
    if (whole.source.pieces.empty()) {
      const std::vector<int64_t> shape = ShapeOf(weight);
      whole.source.pieces.push_back({weight.name,
                                     false,
                                     {0, shape[0]},
                                     {0, shape.size() > 1 ? shape[1] : 1}});
    }
    const double base = weight.role == Role::kNorm ? 1 : 0;
    const SourcePiece* hashed = nullptr;
    uint64_t key = 0;
    return AssemblePieces(
        whole, [&](const SourcePiece& piece, int64_t row, int64_t col) {
          if (&piece != hashed) {
            hashed = &piece;
            key = SyntheticTensorKey(seed, piece.tensor);
          }
          return base + SyntheticUnit(key, row, col);
        });
  };
}

}  // namespace deepslice
