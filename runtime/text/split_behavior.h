// Splits of a text at matches, and what becomes of the matches.
#ifndef DEEPSLICE_RUNTIME_TEXT_SPLIT_BEHAVIOR_H_
#define DEEPSLICE_RUNTIME_TEXT_SPLIT_BEHAVIOR_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "runtime/text/pre_tokenize.h"
#include "runtime/text/tokenizer_spec.h"

namespace deepslice {

// All of a text as matches and the stretches between them, in order.
class SplitMatches {
 public:
  struct Match {
    PreTokens::Piece piece;
    bool is_match;
  };

  void Start() {
    matches_.clear();
    previous_ = 0;
  }
  // The next match, which starts where the last one ends or later.
  void Add(size_t begin, size_t end) {
    Between(begin);
    previous_ = static_cast<uint32_t>(end);
    matches_.push_back({{static_cast<uint32_t>(begin), previous_}, true});
  }
  void Finish(size_t size) { Between(size); }

  // Joins neighbours as `behavior` says and appends what stays, `base` added.
  void Apply(SplitBehavior behavior, bool invert, uint32_t base,
             std::vector<PreTokens::Piece>* out) const;

 private:
  void Between(size_t end) {
    if (end > previous_) {
      matches_.push_back({{previous_, static_cast<uint32_t>(end)}, false});
    }
  }
  std::vector<Match> matches_;
  uint32_t previous_ = 0;
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_SPLIT_BEHAVIOR_H_
