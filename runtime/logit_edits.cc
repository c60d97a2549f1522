#include "runtime/logit_edits.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"

namespace deepslice {

absl::Status CheckLogitEdits(const LogitEdits& e, int64_t vocab) {
  const auto bad = [](auto... text) {
    return absl::InvalidArgumentError(absl::StrCat(text...));
  };
  if (!(e.repetition_penalty > 0) || !std::isfinite(e.repetition_penalty)) {
    return bad("repetition penalty is ", e.repetition_penalty,
               "; it must be above 0 (1: off)");
  }
  if (!std::isfinite(e.frequency_penalty)) {
    return bad("frequency penalty is ", e.frequency_penalty,
               "; it must be finite");
  }
  if (!std::isfinite(e.presence_penalty)) {
    return bad("presence penalty is ", e.presence_penalty,
               "; it must be finite");
  }
  for (const LogitBias& b : e.bias) {
    if (b.id < 0 || b.id >= vocab) {
      return bad("logit bias of id ", b.id, "; ids are 0 to ", vocab - 1);
    }
    if (std::isnan(b.bias) || b.bias > std::numeric_limits<float>::max()) {
      return bad("logit bias of id ", b.id, " is ", b.bias,
                 "; it must be finite, or -inf for never");
    }
  }
  return absl::OkStatus();
}

void EditLogits(const LogitEdits& edits, const TokenHistory& history,
                absl::Span<const int32_t> banned, float* row) {
  const float r = edits.repetition_penalty;
  for (const TokenHistory::Entry& e : history.entries()) {
    float& x = row[e.id];
    if (r != 1.0f) x = x > 0 ? x / r : x * r;
    if (e.count > 0) {
      x -= edits.frequency_penalty * static_cast<float>(e.count) +
           edits.presence_penalty;
    }
  }
  for (const LogitBias& b : edits.bias) row[b.id] += b.bias;
  for (const int32_t id : banned) {
    row[id] = -std::numeric_limits<float>::infinity();
  }
}

}  // namespace deepslice
