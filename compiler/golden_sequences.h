// Short greedy sequences that a plan carries, for `dsrun selftest`: made by
// plain arithmetic in double from the graph before slicing, with weights
// rounded as the plan stores them, so that they are the same on every machine.
#ifndef DEEPSLICE_COMPILER_GOLDEN_SEQUENCES_H_
#define DEEPSLICE_COMPILER_GOLDEN_SEQUENCES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/checkpoint/checkpoint.h"
#include "compiler/progress.h"
#include "ir/graph.h"

namespace deepslice {

inline constexpr int kGoldenSequences = 8;

struct GoldenSequence {
  std::vector<int32_t> prompt;
  std::vector<int32_t> continuation;  // not empty
};

struct GoldenOptions {
  // Multiply-adds that the sequences may take together, which bounds their
  // length: prompts of up to 4 tokens and 8 new ones, fewer for large models,
  // none where even one new token each takes more.
  int64_t budget = 0;
  int64_t vocab_size = 0;
  int64_t max_seq_len = 0;  // of the plan
  // A continuation ends before the first token that is not clearly the
  // likeliest: whose logit leads by less than `margin` times the spread of the
  // row's logits (their root mean square about the mean), or by 2e-3.
  double margin = 0;
  int threads = 1;
  std::function<bool()> stopped;  // asked between steps; may be empty
  ReportProgress progress;
};

// Prompts to choose from, more than kGoldenSequences of them: beginnings of
// texts where `tokenizer` (TokenizerTables::bytes) is not empty, else ids
// spread over the vocabulary.
std::vector<std::vector<int32_t>> GoldenPrompts(absl::string_view tokenizer,
                                                int64_t vocab_size);

// At most kGoldenSequences, the longest of those that the prompts give; empty
// when the budget is too small. Errors of the checkpoint; Cancelled.
absl::StatusOr<std::vector<GoldenSequence>> MakeGoldenSequences(
    const Graph& unsliced, const Checkpoint& checkpoint,
    const std::vector<std::vector<int32_t>>& prompts,
    const GoldenOptions& options);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_GOLDEN_SEQUENCES_H_
