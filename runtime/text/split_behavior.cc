// The five things that can be done with what a text is split at.
#include "runtime/text/split_behavior.h"

#include <algorithm>

namespace deepslice {

void SplitMatches::Apply(SplitBehavior behavior, bool invert, uint32_t base,
                         std::vector<PreTokens::Piece>* out) const {
  std::vector<PreTokens::Piece> pieces;
  bool previous = false;
  switch (behavior) {
    case SplitBehavior::kIsolated:
      for (const Match& m : matches_) pieces.push_back(m.piece);
      break;
    case SplitBehavior::kRemoved:
      for (const Match& m : matches_) {
        if (m.is_match == invert) pieces.push_back(m.piece);
      }
      break;
    case SplitBehavior::kContiguous:
    case SplitBehavior::kMergedWithPrevious:
      for (const Match& m : matches_) {
        const bool is_match = m.is_match != invert;
        const bool join = behavior == SplitBehavior::kContiguous
                              ? is_match == previous
                              : is_match && !previous;
        if (join && !pieces.empty()) {
          pieces.back().end = m.piece.end;
        } else {
          pieces.push_back(m.piece);
        }
        previous = is_match;
      }
      break;
    case SplitBehavior::kMergedWithNext:
      for (auto m = matches_.rbegin(); m != matches_.rend(); ++m) {
        const bool is_match = m->is_match != invert;
        if (is_match && !previous && !pieces.empty()) {
          pieces.back().begin = m->piece.begin;
        } else {
          pieces.push_back(m->piece);
        }
        previous = is_match;
      }
      std::reverse(pieces.begin(), pieces.end());
      break;
  }
  for (const PreTokens::Piece& p : pieces) {
    if (p.end > p.begin) out->push_back({base + p.begin, base + p.end});
  }
}

}  // namespace deepslice
