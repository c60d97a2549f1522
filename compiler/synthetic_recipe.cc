#include "compiler/synthetic_recipe.h"

#include "schema/encoding.h"

namespace deepslice {

absl::optional<SyntheticRecipe> SyntheticRecipeOf(const Checkpoint& checkpoint,
                                                  const Weight& weight) {
  const std::vector<SourcePiece>& pieces = weight.source.pieces;
  if (pieces.empty() || IsQuantized(weight.encoding)) return absl::nullopt;
  SyntheticRecipe out;
  int64_t row = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const SourcePiece& piece = pieces[i];
    const TensorInfo* t = checkpoint.Find(piece.tensor);
    if (t == nullptr || !t->synthetic.has_value()) return absl::nullopt;
    const SyntheticTensor& made = *t->synthetic;
    if (i == 0) {
      out.seed = made.seed;
      out.mean = made.mean;
      out.scale = made.scale;
    } else if (made.seed != out.seed || made.mean != out.mean ||
               made.scale != out.scale) {
      return absl::nullopt;
    }
    SyntheticRows rows;
    rows.key = made.key;
    rows.rows = piece.rows.size();
    rows.rows_begin = piece.rows.begin;
    rows.cols_begin = piece.cols.begin;
    if (weight.source.interleaved) {
      rows.first_row = static_cast<int64_t>(i);
      rows.row_step = static_cast<int64_t>(pieces.size());
    } else {
      rows.first_row = row;
      row += rows.rows;
    }
    if (rows.rows > 0) out.pieces.push_back(rows);
  }
  // A rank that owns nothing of the weight: no bytes to make.
  if (out.pieces.empty()) return absl::nullopt;
  return out;
}

}  // namespace deepslice
