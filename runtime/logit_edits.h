// What changes a row of logits before a token is chosen: penalties for tokens
// that were there before, biases, and tokens that may not come yet.
#ifndef DEEPSLICE_RUNTIME_LOGIT_EDITS_H_
#define DEEPSLICE_RUNTIME_LOGIT_EDITS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace deepslice {

struct LogitBias {
  int32_t id;
  float bias;  // not NaN; -infinity: never this token
};

// In this order, each on what the one before left:
//   repetition_penalty  tokens of prompt and answer: x / r where x > 0, x * r
//                       elsewhere (Keskar et al. 2019, as transformers does)
//   frequency_penalty,  tokens of the answer: x - f * (times there) - p (as
//   presence_penalty    the OpenAI interface does)
//   bias                x + bias
struct LogitEdits {
  float repetition_penalty = 1.0f;  // > 0; 1: off
  float frequency_penalty = 0.0f;
  float presence_penalty = 0.0f;
  std::vector<LogitBias> bias;

  bool has_penalty() const {
    return repetition_penalty != 1.0f || frequency_penalty != 0.0f ||
           presence_penalty != 0.0f;
  }
  bool empty() const { return !has_penalty() && bias.empty(); }
};

// InvalidArgument, with the value, for one that is out of range.
absl::Status CheckLogitEdits(const LogitEdits& edits, int64_t vocab);

// The different tokens of a sequence, and how often each is in its answer.
class TokenHistory {
 public:
  struct Entry {
    int32_t id;
    int32_t count;  // in the answer; 0: only in the prompt
  };
  // Allocates here alone, for at most `most_tokens` different ones.
  TokenHistory(int64_t vocab, int64_t most_tokens) : place_(vocab, -1) {
    entries_.reserve(most_tokens);
  }
  void AddPrompt(int32_t id) { Find(id); }
  void AddAnswer(int32_t id) { ++Find(id).count; }
  void Clear() {
    for (const Entry& e : entries_) place_[e.id] = -1;
    entries_.clear();
  }
  absl::Span<const Entry> entries() const { return entries_; }

 private:
  Entry& Find(int32_t id) {
    if (place_[id] < 0) {
      place_[id] = static_cast<int32_t>(entries_.size());
      entries_.push_back({id, 0});
    }
    return entries_[place_[id]];
  }
  std::vector<int32_t> place_;  // in entries_, by id; -1: not there
  std::vector<Entry> entries_;
};

// Edits `row`, then forbids the `banned` ids.
void EditLogits(const LogitEdits& edits, const TokenHistory& history,
                absl::Span<const int32_t> banned, float* row);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_LOGIT_EDITS_H_
