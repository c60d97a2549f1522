#include "runtime/beam_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "schema/base/check.h"

namespace deepslice {
namespace {

std::vector<int32_t> Distinct(std::vector<int32_t> ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

}  // namespace

BeamSearch::BeamSearch(const BeamParams& params, std::vector<int32_t> stop_ids,
                       int64_t max_new_tokens)
    : params_(params),
      stop_ids_(Distinct(std::move(stop_ids))),
      max_new_tokens_(max_new_tokens),
      // So many that `width` of them end with no stop id.
      keep_(std::max<size_t>(2, 1 + stop_ids_.size()) * params.width),
      live_(1) {}

bool BeamSearch::IsStop(int32_t id) const {
  return std::binary_search(stop_ids_.begin(), stop_ids_.end(), id);
}

double BeamSearch::Score(double sum, int64_t length) const {
  return sum / std::pow(static_cast<double>(length),
                        static_cast<double>(params_.length_penalty));
}

void BeamSearch::AddRow(int beam, const float* logprobs, int64_t vocab) {
  // The best `keep_` of a beam: no round can take more of it. They are kept as
  // a heap whose front is the worst.
  const size_t first = candidates_.size();
  const auto begin = [&] { return candidates_.begin() + first; };
  const double sum = live_[beam].sum;
  for (int64_t id = 0; id < vocab; ++id) {
    const Candidate c = {sum + logprobs[id], beam, static_cast<int32_t>(id)};
    if (!(c.sum > -std::numeric_limits<double>::infinity())) continue;
    if (candidates_.size() - first == keep_) {
      if (!(c < *begin())) continue;
      std::pop_heap(begin(), candidates_.end());
      candidates_.pop_back();
    }
    candidates_.push_back(c);
    std::push_heap(begin(), candidates_.end());
  }
  ++rows_;
}

void BeamSearch::End(const Candidate& c) {
  const bool stop = IsStop(c.id);
  Answer answer = {live_[c.beam].ids, stop, Score(c.sum, length_ + 1)};
  if (!stop) answer.ids.push_back(c.id);
  const auto at =
      std::find_if(answers_.begin(), answers_.end(),
                   [&](const Answer& a) { return a.score < answer.score; });
  answers_.insert(at, std::move(answer));
  if (static_cast<int>(answers_.size()) > params_.width) answers_.pop_back();
}

bool BeamSearch::CanImprove() const {
  if (live_.empty()) return false;
  if (!full()) return true;
  const bool longest =
      params_.stop == BeamParams::Stop::kNever && params_.length_penalty > 0;
  return Score(live_[0].sum, longest ? max_new_tokens_ : length_) >
         answers_.back().score;
}

absl::Span<const BeamSearch::Next> BeamSearch::Advance() {
  DS_CHECK(all_rows_in());
  rows_ = 0;
  next_.clear();
  next_live_.clear();
  const size_t keep = std::min(keep_, candidates_.size());
  std::partial_sort(candidates_.begin(), candidates_.begin() + keep,
                    candidates_.end());
  const bool at_end = length_ + 1 == max_new_tokens_;
  const bool closed = full() && params_.stop == BeamParams::Stop::kAtOnce;
  const auto width = static_cast<size_t>(params_.width);
  for (size_t i = 0; i < keep; ++i) {
    const Candidate& c = candidates_[i];
    if (at_end || IsStop(c.id)) {
      // Those behind the first `width` are only there to go on.
      if (i < width && !closed && improvable_) End(c);
    } else if (next_.size() < width) {
      next_.push_back({c.beam, c.id});
      Beam& beam = next_live_.emplace_back();
      beam.ids = live_[c.beam].ids;
      beam.ids.push_back(c.id);
      beam.sum = c.sum;
    }
  }
  candidates_.clear();
  live_.swap(next_live_);
  ++length_;
  improvable_ = improvable_ && CanImprove();
  if (!improvable_ || (full() && params_.stop == BeamParams::Stop::kAtOnce)) {
    next_.clear();
    live_.clear();
  }
  return next_;
}

}  // namespace deepslice
