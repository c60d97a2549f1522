#include "passes/synthetic_weights.h"

#include "passes/formula.h"
#include "schema/base/digest.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// The finaliser of splitmix64: every bit of the input moves every output bit.
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// In [-0.25, 0.25) in steps of 2^-21, so that 1 + value is exact in float too.
double ValueAt(uint64_t tensor_hash, int64_t row, int64_t col) {
  const uint64_t hash = Mix(Mix(tensor_hash ^ static_cast<uint64_t>(row)) ^
                            static_cast<uint64_t>(col));
  return static_cast<double>(hash >> 44) * 0x1p-21 - 0.25;
}

std::vector<int64_t> ShapeOf(const Weight& weight) {
  std::vector<int64_t> shape;
  for (const Dim& d : weight.type.dims) shape.push_back(d.size);
  return shape;
}

}  // namespace

double SyntheticValue(uint64_t seed, absl::string_view tensor, int64_t row,
                      int64_t col) {
  return ValueAt(Mix(seed) ^ Xxh3(tensor), row, col);
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
      out.data.push_back(read(piece, row, col));
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
    uint64_t hash = 0;
    return AssemblePieces(
        whole, [&](const SourcePiece& piece, int64_t row, int64_t col) {
          if (&piece != hashed) {
            hashed = &piece;
            hash = Mix(seed) ^ Xxh3(piece.tensor);
          }
          return base + ValueAt(hash, row, col);
        });
  };
}

}  // namespace deepslice
