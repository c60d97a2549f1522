#include "compiler/injection.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compiler/model.h"

namespace deepslice {
namespace {

// Whether `name` ends with the path `suffix`, at a dot or at its beginning.
bool EndsWithPath(absl::string_view name, absl::string_view suffix) {
  if (!absl::ConsumeSuffix(&name, suffix)) return false;
  return name.empty() || name.back() == '.';
}

bool IsRowParallel(const ModelWeight& w) {
  const Cut cut = GetRole(w.role).cut;
  return w.shape.size() == 2 && (cut == Cut::kOutHeads || cut == Cut::kMlpCols);
}

}  // namespace

bool Injection::Names(absl::string_view tensor) const {
  if (!absl::ConsumeSuffix(&tensor, ".weight")) return false;
  for (const std::string& suffix : suffixes) {
    if (EndsWithPath(tensor, suffix)) return true;
  }
  return false;
}

absl::StatusOr<Injection> ParseInjection(absl::string_view text) {
  Injection out;
  if (text.empty()) return out;
  const auto bad = [&] {
    return absl::InvalidArgumentError(absl::StrCat(
        "--injection \"", text,
        "\": allowed: a block's class, '=' and the names of its row-parallel "
        "linears with commas between: T5Block=SelfAttention.o,"
        "EncDecAttention.o,DenseReluDense.wo"));
  };
  const std::vector<absl::string_view> sides = absl::StrSplit(text, '=');
  if (sides.size() != 2) return bad();
  out.block = std::string(absl::StripAsciiWhitespace(sides[0]));
  for (absl::string_view name : absl::StrSplit(sides[1], ',')) {
    name = absl::StripAsciiWhitespace(name);
    absl::ConsumeSuffix(&name, ".weight");
    if (name.empty() || absl::StartsWith(name, ".")) return bad();
    out.suffixes.emplace_back(name);
  }
  if (out.block.empty()) return bad();
  return out;
}

absl::Status CheckInjection(const Injection& injection,
                            const ModelDescription& model) {
  std::vector<bool> found(injection.suffixes.size());
  for (const ModelWeight& w : model.weights) {
    for (const SourcePiece& piece : w.source.pieces) {
      const bool named = injection.Names(piece.tensor);
      if (named != IsRowParallel(w)) {
        return absl::FailedPreconditionError(
            absl::StrCat("--injection: tensor \"", piece.tensor, "\" is ",
                         named ? "named, but column-parallel or whole"
                               : "row-parallel, but not named",
                         " in policy ", model.family,
                         "; name just the linears whose products are summed"));
      }
      for (size_t i = 0; i < found.size(); ++i) {
        absl::string_view name = piece.tensor;
        if (absl::ConsumeSuffix(&name, ".weight") &&
            EndsWithPath(name, injection.suffixes[i])) {
          found[i] = true;
        }
      }
    }
  }
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i]) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("--injection: no tensor ends in \"", injection.suffixes[i],
                     ".weight\"; name linears of the checkpoint's blocks"));
  }
  return absl::OkStatus();
}

}  // namespace deepslice
