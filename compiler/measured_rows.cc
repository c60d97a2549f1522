#include "compiler/measured_rows.h"

#include <algorithm>

#include "schema/base/checked_math.h"

namespace deepslice {
namespace {

bool SameRows(const Weight& a, const Weight& b) {
  const auto& x = a.source.pieces;
  const auto& y = b.source.pieces;
  return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                    [](SourcePiece p, const SourcePiece& q) {
                      p.cols = q.cols;
                      return p == q;
                    });
}

}  // namespace

bool CountSameRows(const SourcePiece& a, const SourcePiece& b) {
  return a.tensor == b.tensor && a.transposed == b.transposed &&
         a.block == b.block && a.every == b.every && a.from == b.from;
}

std::vector<bool> MeasuredRows(const std::vector<const Graph*>& ranks,
                               size_t rank, size_t index) {
  const Weight& w = *ranks[rank]->weights()[index];
  const int64_t rows = w.type.dims[0].size;
  const bool same = std::all_of(
      ranks.begin(), ranks.end(),
      [&](const Graph* g) { return SameRows(*g->weights()[index], w); });
  std::vector<bool> measured(rows, !same);
  if (same) {
    const auto n = static_cast<int64_t>(ranks.size());
    const auto r = static_cast<int64_t>(rank);
    for (int64_t i = PartBegin(rows, n, r); i < PartBegin(rows, n, r + 1);
         ++i) {
      measured[i] = true;
    }
    return measured;
  }
  const auto pieces = static_cast<int64_t>(w.source.pieces.size());
  int64_t first = 0;  // row of the weight
  for (int64_t p = 0; p < pieces; ++p) {
    const SourcePiece& own = w.source.pieces[p];
    const bool in_turn = w.source.interleaved;
    for (size_t before = 0; before < rank; ++before) {
      for (const SourcePiece& other :
           ranks[before]->weights()[index]->source.pieces) {
        if (!CountSameRows(own, other)) continue;
        const int64_t end = std::min(own.rows.end, other.rows.end);
        for (int64_t r = std::max(own.rows.begin, other.rows.begin); r < end;
             ++r) {
          const int64_t at = r - own.rows.begin;
          measured[in_turn ? at * pieces + p : first + at] = false;
        }
      }
    }
    first += own.rows.size();
  }
  return measured;
}

}  // namespace deepslice
