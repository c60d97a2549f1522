#include "compiler/synthetic_recipe.h"

#include "schema/encoding.h"

namespace deepslice {

absl::optional<SyntheticRecipe> SyntheticRecipeOf(const Checkpoint& checkpoint,
                                                  const Weight& weight) {
  const auto find = [&](absl::string_view name) -> const SyntheticTensor* {
    const TensorInfo* t = checkpoint.Find(name);
    return t == nullptr || !t->synthetic.has_value() ? nullptr : &*t->synthetic;
  };
  return SyntheticRecipeOf(find, weight);
}

absl::optional<SyntheticRecipe> SyntheticRecipeOf(FindSynthetic find,
                                                  const Weight& weight) {
  const std::vector<SourcePiece>& pieces = weight.source.pieces;
  if (pieces.empty() || IsQuantized(weight.encoding)) return absl::nullopt;
  SyntheticRecipe out;
  int64_t row = 0;
  float first_mean = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const SourcePiece& piece = pieces[i];
    const SyntheticTensor* found = find(piece.tensor);
    if (found == nullptr) return absl::nullopt;
    const SyntheticTensor& made = *found;
    if (i == 0) {
      first_mean = made.mean;
      out.seed = made.seed;
      out.mean = made.mean + static_cast<float>(weight.source.plus);
      out.scale = made.scale;
    } else if (made.seed != out.seed || made.mean != first_mean ||
               made.scale != out.scale) {
      return absl::nullopt;
    }
    // One for each run of rows that follow each other in the tensor.
    for (int64_t r = piece.rows.begin; r < piece.rows.end;) {
      SyntheticRows rows;
      rows.key = made.key;
      rows.rows = piece.RunLength(r, piece.rows.end);
      rows.rows_begin = piece.Row(r);
      rows.cols_begin = piece.cols.begin;
      if (weight.source.interleaved) {
        rows.row_step = static_cast<int64_t>(pieces.size());
        rows.first_row =
            (r - piece.rows.begin) * rows.row_step + static_cast<int64_t>(i);
      } else {
        rows.first_row = row;
        row += rows.rows;
      }
      r += rows.rows;
      out.pieces.push_back(rows);
    }
  }
  // A rank that owns nothing of the weight: no bytes to make.
  if (out.pieces.empty()) return absl::nullopt;
  return out;
}

}  // namespace deepslice
