// The known name that a mistyped one most likely means, for hints in errors.
#ifndef DEEPSLICE_SCHEMA_BASE_NEAREST_H_
#define DEEPSLICE_SCHEMA_BASE_NEAREST_H_

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace deepslice {

// Insertions, deletions and substitutions that turn `a` into `b`. Quadratic:
// names only.
inline int EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<int> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i) + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const int substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row[b.size()];
}

// The element of `known` nearest to `name` (the first of equals), or "" when
// more than a third of the name would have to change.
template <typename Names>
std::string NearestName(absl::string_view name, const Names& known) {
  constexpr size_t kLongestName = 256;
  if (name.size() > kLongestName) return "";
  std::string best;
  int best_distance = static_cast<int>(name.size()) / 3 + 2;
  for (const auto& candidate : known) {
    const absl::string_view text(candidate);
    // As many letters come or go at least.
    const size_t sizes[] = {name.size(), text.size()};
    if (text.size() > kLongestName ||
        static_cast<int>(std::max(sizes[0], sizes[1]) -
                         std::min(sizes[0], sizes[1])) >= best_distance) {
      continue;
    }
    const int distance = EditDistance(name, text);
    if (distance < best_distance) {
      best_distance = distance;
      best = std::string(text);
    }
  }
  return best;
}

}  // namespace deepslice

#endif  // DEEPSLICE_SCHEMA_BASE_NEAREST_H_
