// Beam search over rows of log-probabilities, by the rules of transformers'
// generate(num_beams=...): which beams go on, and which answers are the best.
#ifndef DEEPSLICE_RUNTIME_BEAM_SEARCH_H_
#define DEEPSLICE_RUNTIME_BEAM_SEARCH_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace deepslice {

struct BeamParams {
  int width = 1;  // beams; 1: no beam search
  // An answer's score is the sum of its tokens' log-probabilities, the stop id
  // included, divided by (their number) ^ length_penalty.
  float length_penalty = 1.0f;
  // With `width` answers ended, the search ends
  enum class Stop {
    // when the best live beam, at its present length, scores no better than the
    // worst of them (transformers' early_stopping=False);
    kHeuristic,
    kAtOnce,  // at once (True);
    // when no live beam can still score better: as kHeuristic, at the greatest
    // length where length_penalty is above 0 ("never").
    kNever,
  };
  Stop stop = Stop::kHeuristic;
};

// One search. In each round every live beam gives its row, in any order; then
// Advance says how beams go on. Not thread-safe.
class BeamSearch {
 public:
  // Starts with one live beam, which has no tokens.
  BeamSearch(const BeamParams& params, std::vector<int32_t> stop_ids,
             int64_t max_new_tokens);

  int num_live() const { return static_cast<int>(live_.size()); }
  absl::Span<const int32_t> ids(int beam) const { return live_[beam].ids; }

  // The log-probabilities, [vocab], behind live beam `beam`; those of -infinity
  // are never taken.
  void AddRow(int beam, const float* logprobs, int64_t vocab);
  bool all_rows_in() const { return rows_ == num_live(); }

  // How a beam of the next round comes from one of this.
  struct Next {
    int parent;
    int32_t id;
  };
  // Ends a round. The next round's beams, the best first; none: the search has
  // ended. Valid until the next call.
  absl::Span<const Next> Advance();

  struct Answer {
    std::vector<int32_t> ids;  // without the stop id
    bool stopped;              // by a stop id, else by length
    double score;
  };
  // The ended answers, at most `width`, the best first.
  const std::vector<Answer>& answers() const { return answers_; }

 private:
  struct Beam {
    std::vector<int32_t> ids;
    double sum = 0;  // of log-probabilities
  };
  struct Candidate {
    double sum;
    int beam;
    int32_t id;
    // Orders the better first; of equal ones that of the better beam, then the
    // lower id.
    bool operator<(const Candidate& o) const {
      if (sum != o.sum) return sum > o.sum;
      return beam != o.beam ? beam < o.beam : id < o.id;
    }
  };

  bool IsStop(int32_t id) const;
  double Score(double sum, int64_t length) const;
  bool full() const {
    return static_cast<int>(answers_.size()) == params_.width;
  }
  void End(const Candidate& c);
  // Whether a live beam may still beat an ended answer.
  bool CanImprove() const;

  const BeamParams params_;
  const std::vector<int32_t> stop_ids_;
  const int64_t max_new_tokens_;
  const size_t keep_;  // candidates of a round
  std::vector<Beam> live_, next_live_;
  std::vector<Candidate> candidates_;
  std::vector<Next> next_;
  std::vector<Answer> answers_;
  int rows_ = 0;
  int64_t length_ = 0;  // tokens of each live beam
  bool improvable_ = true;
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_BEAM_SEARCH_H_
