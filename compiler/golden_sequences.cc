#include "compiler/golden_sequences.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "compiler/stream_graph.h"
#include "runtime/text/tokenizer.h"
#include "schema/base/checked_math.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// More than are kept: some continuations have no clear first token.
constexpr const char* kTexts[] = {
    "The capital of France is",      "Once upon a time there was",
    "def add(a, b):\n    return",    "1, 2, 3, 4, 5, 6,",
    "Water is made of hydrogen and", "In the beginning God created",
    "Dear Sir or Madam, I am",       "The quick brown fox jumps over",
    "Monday, Tuesday, Wednesday,",   "To be or not to be",
    "SELECT name FROM users WHERE",  "Ladies and gentlemen, welcome to",
};
constexpr int kPrompts = std::size(kTexts);
constexpr double kLeastLead = 2e-3;  // of logits, whatever their spread

// Tokens of a prompt, and new ones, longest first.
struct Length {
  int prompt, fresh;
};
constexpr Length kLengths[] = {{4, 8}, {4, 4}, {3, 3}, {2, 2}, {2, 1}, {1, 1}};

// The longest that the budget and the plan allow; {0, 0}: none.
Length ChooseLength(int64_t elements, int64_t count, const GoldenOptions& o) {
  for (const Length& length : kLengths) {
    int64_t tokens, work;
    tokens = count * (length.prompt + length.fresh - 1);
    if (length.prompt + length.fresh <= o.max_seq_len &&
        CheckedMul(tokens, elements, &work) && work <= o.budget) {
      return length;
    }
  }
  return {0, 0};
}

RefTensor Ints(const std::vector<int64_t>& shape,
               const std::vector<int32_t>& values) {
  RefTensor t;
  t.shape = shape;
  t.data.assign(values.begin(), values.end());
  return t;
}

// The likeliest id of a row, or -1 where it does not lead clearly.
int32_t ClearWinner(const double* row, int64_t cols, double margin) {
  double best = -std::numeric_limits<double>::infinity(), second = best;
  double sum = 0, squares = 0;
  int64_t at = -1;
  for (int64_t i = 0; i < cols; ++i) {
    const double v = row[i];
    if (!std::isfinite(v)) return -1;
    sum += v;
    squares += v * v;
    if (v > best) {
      second = best;
      best = v;
      at = i;
    } else if (v > second) {
      second = v;
    }
  }
  const double mean = sum / cols;
  const double spread = std::sqrt(std::max(0.0, squares / cols - mean * mean));
  return best - second >= std::max(kLeastLead, margin * spread)
             ? static_cast<int32_t>(at)
             : -1;
}

// Whether a sequence's steps are the same whether it may grow to `a` tokens or
// to `b`.
bool SameTables(const Graph& graph, int64_t a, int64_t b) {
  for (const auto& node : graph.nodes()) {
    if (node->op != OpKind::kRope ||
        node->weight(operand::Rope::long_freqs) == nullptr) {
      continue;
    }
    const int64_t from = node->i(attr::Rope::long_from);
    if ((a > from) != (b > from)) return false;
  }
  return true;
}

}  // namespace

std::vector<std::vector<int32_t>> GoldenPrompts(absl::string_view tokenizer,
                                                int64_t vocab_size) {
  std::vector<std::vector<int32_t>> prompts;
  if (!tokenizer.empty()) {
    const auto loaded = Tokenizer::Load(tokenizer);
    for (int i = 0; loaded.ok() && i < kPrompts; ++i) {
      const auto ids = (*loaded)->Encode(kTexts[i]);
      if (ids.ok() && !ids->empty() &&
          std::all_of(ids->begin(), ids->end(),
                      [&](int32_t id) { return id >= 0 && id < vocab_size; })) {
        prompts.push_back(*ids);
      }
    }
  }
  uint64_t x = 88172645463325252u;  // xorshift64
  while (prompts.size() < static_cast<size_t>(kPrompts)) {
    std::vector<int32_t>& ids = prompts.emplace_back();
    for (int i = 0; i < kLengths[0].prompt; ++i) {
      x ^= x << 13;
      x ^= x >> 7;
      x ^= x << 17;
      ids.push_back(
          static_cast<int32_t>(x % static_cast<uint64_t>(vocab_size)));
    }
  }
  return prompts;
}

absl::StatusOr<std::vector<GoldenSequence>> MakeGoldenSequences(
    const Graph& unsliced, const Checkpoint& checkpoint,
    const std::vector<std::vector<int32_t>>& prompts,
    const GoldenOptions& options) {
  const int64_t count = static_cast<int64_t>(prompts.size());
  const Length length = ChooseLength(MatrixElements(unsliced), count, options);
  std::vector<GoldenSequence> sequences;
  if (length.fresh == 0) return sequences;
  std::vector<bool> going(count, true);
  for (const std::vector<int32_t>& p : prompts) {
    const size_t most = std::min<size_t>(p.size(), length.prompt);
    sequences.push_back({{p.begin(), p.begin() + most}, {}});
  }
  // Of [S]: what dsrun is told of a sequence that is continued so far.
  std::vector<int32_t> horizons, lengths;
  for (const GoldenSequence& s : sequences) {
    lengths.push_back(static_cast<int32_t>(s.prompt.size()));
    horizons.push_back(static_cast<int32_t>(s.prompt.size()) + length.fresh);
  }
  StreamedGraph graph(unsliced, checkpoint, options.threads);
  const uint64_t steps = length.fresh * unsliced.nodes().size();
  for (int round = 0; round < length.fresh; ++round) {
    std::vector<int32_t> ids, positions, slots, rows, owners;
    for (int64_t s = 0; s < count; ++s) {
      if (!going[s]) continue;
      const GoldenSequence& g = sequences[s];
      const std::vector<int32_t> all =
          round == 0 ? g.prompt : std::vector<int32_t>{g.continuation.back()};
      const int32_t first =
          round == 0
              ? 0
              : static_cast<int32_t>(g.prompt.size() + g.continuation.size()) -
                    1;
      for (size_t i = 0; i < all.size(); ++i) {
        ids.push_back(all[i]);
        positions.push_back(first + static_cast<int32_t>(i));
        slots.push_back(static_cast<int32_t>(s));
      }
      rows.push_back(static_cast<int32_t>(ids.size()) - 1);
      owners.push_back(static_cast<int32_t>(s));
    }
    if (rows.empty()) break;
    const int64_t n = static_cast<int64_t>(ids.size());
    const auto between = [&](size_t node) {
      if (options.stopped && options.stopped()) {
        return absl::CancelledError("interrupted");
      }
      if (options.progress) {
        options.progress("golden sequences: computed",
                         round * unsliced.nodes().size() + node, steps,
                         "steps");
      }
      return absl::OkStatus();
    };
    DS_ASSIGN_OR_RETURN(
        const RefTensor logits,
        graph.Run({{"ids", Ints({n}, ids)},
                   {"positions", Ints({n}, positions)},
                   {"slots", Ints({n}, slots)},
                   {"blocks", Ints({1, 1}, {0})},
                   {"rows", Ints({static_cast<int64_t>(rows.size())}, rows)},
                   {"horizons", Ints({count}, horizons)},
                   {"prompts", Ints({count}, lengths)}},
                  between));
    for (size_t r = 0; r < owners.size(); ++r) {
      const int32_t id = ClearWinner(logits.row(static_cast<int64_t>(r)),
                                     logits.cols(), options.margin);
      if (id >= 0 && id < options.vocab_size) {
        sequences[owners[r]].continuation.push_back(id);
      } else {
        going[owners[r]] = false;
      }
    }
  }
  for (int64_t s = 0; s < count; ++s) {
    GoldenSequence& g = sequences[s];
    const int64_t total =
        static_cast<int64_t>(g.prompt.size() + g.continuation.size());
    if (!SameTables(unsliced, total, horizons[s])) g.continuation.clear();
  }
  std::stable_sort(sequences.begin(), sequences.end(),
                   [](const GoldenSequence& a, const GoldenSequence& b) {
                     return a.continuation.size() > b.continuation.size();
                   });
  if (sequences.size() > kGoldenSequences) sequences.resize(kGoldenSequences);
  while (!sequences.empty() && sequences.back().continuation.empty()) {
    sequences.pop_back();
  }
  return sequences;
}

}  // namespace deepslice
