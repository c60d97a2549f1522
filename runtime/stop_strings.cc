#include "runtime/stop_strings.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"

namespace deepslice {
namespace {

std::vector<std::string> NotEmpty(std::vector<std::string> stops) {
  stops.erase(std::remove(stops.begin(), stops.end(), std::string()),
              stops.end());
  return stops;
}

}  // namespace

StopStrings::StopStrings(std::vector<std::string> stops)
    : stops_(NotEmpty(std::move(stops))) {
  for (const std::string& s : stops_) longest_ = std::max(longest_, s.size());
}

size_t StopStrings::Head() const {
  // A whole one is no head: it was found, or let through.
  for (size_t n = std::min(held_.size(), longest_ - 1); n > 0; --n) {
    const absl::string_view tail =
        absl::string_view(held_).substr(held_.size() - n);
    for (const std::string& s : stops_) {
      if (s.size() > n && absl::StartsWith(s, tail)) return n;
    }
  }
  return 0;
}

int StopStrings::Add(absl::string_view piece, bool armed, std::string* out) {
  if (stops_.empty()) {
    out->append(piece.data(), piece.size());
    return -1;
  }
  held_.append(piece.data(), piece.size());
  if (armed) {
    size_t first = std::string::npos;
    int found = -1;
    for (size_t i = 0; i < stops_.size(); ++i) {
      const size_t at = held_.find(stops_[i]);
      if (at == std::string::npos || at > first) continue;
      if (at == first && stops_[i].size() <= stops_[found].size()) continue;
      first = at;
      found = static_cast<int>(i);
    }
    if (found >= 0) {
      out->append(held_, 0, first);
      held_.clear();
      return found;
    }
  }
  const size_t free = held_.size() - Head();
  out->append(held_, 0, free);
  held_.erase(0, free);
  return -1;
}

void StopStrings::Finish(std::string* out) {
  out->append(held_);
  held_.clear();
}

}  // namespace deepslice
