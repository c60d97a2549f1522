#include "tools/line_diff.h"

#include <algorithm>
#include <cstdint>

namespace deepslice {
namespace {

constexpr uint64_t kMostPairs = uint64_t{16} << 20;

}  // namespace

std::vector<LineChange> DiffLines(const std::vector<std::string>& a,
                                  const std::vector<std::string>& b) {
  size_t begin = 0, a_end = a.size(), b_end = b.size();
  while (begin < a_end && begin < b_end && a[begin] == b[begin]) ++begin;
  while (a_end > begin && b_end > begin && a[a_end - 1] == b[b_end - 1]) {
    --a_end;
    --b_end;
  }
  const size_t n = a_end - begin, m = b_end - begin;
  std::vector<LineChange> changes;
  const auto only = [&](bool added, size_t i) {
    changes.push_back({added, static_cast<int>(begin + i),
                       added ? b[begin + i] : a[begin + i]});
  };
  if (static_cast<uint64_t>(n) * m > kMostPairs) {
    for (size_t i = 0; i < n; ++i) only(false, i);
    for (size_t j = 0; j < m; ++j) only(true, j);
    return changes;
  }
  // common[i][j]: the most lines that a from i on and b from j on share.
  const size_t row = m + 1;
  std::vector<uint32_t> common((n + 1) * row);
  for (size_t i = n; i-- > 0;) {
    for (size_t j = m; j-- > 0;) {
      common[i * row + j] =
          a[begin + i] == b[begin + j]
              ? common[(i + 1) * row + j + 1] + 1
              : std::max(common[(i + 1) * row + j], common[i * row + j + 1]);
    }
  }
  size_t i = 0, j = 0;
  while (i < n || j < m) {
    if (i < n && j < m && a[begin + i] == b[begin + j]) {
      ++i;
      ++j;
    } else if (j == m || (i < n && common[(i + 1) * row + j] >=
                                       common[i * row + j + 1])) {
      only(false, i++);
    } else {
      only(true, j++);
    }
  }
  return changes;
}

}  // namespace deepslice
