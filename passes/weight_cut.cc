#include "passes/weight_cut.h"

#include "absl/strings/str_format.h"

namespace deepslice {
namespace {

absl::Status Refuse(const Weight& w, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrFormat("@%s: %s", w.name, why));
}

}  // namespace

absl::Status CutWeightRows(Weight& w, Range part) {
  if (part.end > w.type.dims[0].size) {
    return Refuse(w, absl::StrFormat("rows %d:%d of %d", part.begin, part.end,
                                     w.type.dims[0].size));
  }
  if (!w.source.empty()) {
    if (w.source.pieces.size() != 1) {
      return Refuse(
          w, absl::StrFormat("is made of %d pieces; role %s is cut as one",
                             w.source.pieces.size(), GetRole(w.role).spelling));
    }
    Range& rows = w.source.pieces[0].rows;
    rows = {rows.begin + part.begin, rows.begin + part.end};
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
