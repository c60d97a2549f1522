#include "passes/weight_cut.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

absl::Status Refuse(const Weight& w, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrFormat("@%s: %s", w.name, why));
}

// Rows that a formula counts from `begin` to `end`.
absl::Status CutFormula(Weight& w, Range part) {
  double* begin = nullptr;
  double* end = nullptr;
  for (auto& [name, number] : w.source.arguments) {
    if (name == "begin") begin = &number;
    if (name == "end") end = &number;
  }
  if (begin == nullptr || end == nullptr) {
    return Refuse(w, absl::StrFormat("is made by %s, which has no part",
                                     w.source.formula));
  }
  *end = *begin + static_cast<double>(part.end);
  *begin += static_cast<double>(part.begin);
  return absl::OkStatus();
}

// Rows [part.begin, part.end) of pieces one after the other; of a weight of
// none of their rows, one piece stays.
void CutJoined(std::vector<SourcePiece>& pieces, Range part) {
  std::vector<SourcePiece> kept;
  int64_t first = 0;  // of the piece, in the weight
  for (SourcePiece& p : pieces) {
    const int64_t size = p.rows.size();
    const Range cut = {std::clamp<int64_t>(part.begin - first, 0, size),
                       std::clamp<int64_t>(part.end - first, 0, size)};
    first += size;
    p.rows = {p.rows.begin + cut.begin, p.rows.begin + cut.end};
    if (cut.size() > 0) kept.push_back(p);
  }
  if (kept.empty() && !pieces.empty()) kept.push_back(pieces[0]);
  pieces = std::move(kept);
}

}  // namespace

absl::Status CutWeightRows(Weight& w, Range part) {
  if (part.end > w.type.dims[0].size) {
    return Refuse(w, absl::StrFormat("rows %d:%d of %d", part.begin, part.end,
                                     w.type.dims[0].size));
  }
  if (!w.source.formula.empty()) {
    DS_RETURN_IF_ERROR(CutFormula(w, part));
  } else if (w.source.interleaved) {
    return Refuse(w, absl::StrFormat("is interleaved; role %s is cut as one",
                                     GetRole(w.role).spelling));
  } else {
    CutJoined(w.source.pieces, part);
  }
  w.type.dims[0] = part.size();
  return absl::OkStatus();
}

absl::Status CutWeightCols(Weight& w, Range part) {
  if (w.type.rank() != 2 || part.end > w.type.dims[1].size) {
    return Refuse(w, absl::StrFormat("columns %d:%d of a %s", part.begin,
                                     part.end, TypeText(w.type)));
  }
  for (SourcePiece& p : w.source.pieces) {
    p.cols = {p.cols.begin + part.begin, p.cols.begin + part.end};
  }
  w.type.dims[1] = part.size();
  return absl::OkStatus();
}

absl::Status CutWeightPieces(Weight& w, const std::vector<Range>& parts) {
  if (w.source.pieces.size() != parts.size()) {
    return Refuse(w, absl::StrFormat("is made of %d pieces; role %s has %d",
                                     w.source.pieces.size(),
                                     GetRole(w.role).spelling, parts.size()));
  }
  int64_t rows = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    Range& r = w.source.pieces[i].rows;
    if (parts[i].end > r.size()) {
      return Refuse(w,
                    absl::StrFormat("rows %d:%d of piece %d, which has %d",
                                    parts[i].begin, parts[i].end, i, r.size()));
    }
    r = {r.begin + parts[i].begin, r.begin + parts[i].end};
    rows += parts[i].size();
  }
  w.type.dims[0] = rows;
  return absl::OkStatus();
}

}  // namespace deepslice
