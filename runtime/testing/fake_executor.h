// An executor without a model, for tests: it keeps ids in a paged cache as a
// real one keeps keys and values, and its logits are a hash of all ids that the
// block table lets a token see.
#ifndef DEEPSLICE_RUNTIME_TESTING_FAKE_EXECUTOR_H_
#define DEEPSLICE_RUNTIME_TESTING_FAKE_EXECUTOR_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/executor.h"
#include "runtime/sampler.h"
#include "schema/base/checked_math.h"
#include "schema/base/digest.h"

namespace deepslice {

class FakeExecutor final : public Executor {
 public:
  struct Options {
    RunLimits limits = {
        .max_batch = 3, .max_step_tokens = 7, .max_seq_len = 40};
    int64_t block_tokens = 4;
    int64_t num_blocks = 30;  // 3 sequences of 10 blocks
    int64_t vocab = 131;
    bool keeps_sampled = false;
  };
  explicit FakeExecutor(Options options)
      : options_(options),
        cache_(options.num_blocks * options.block_tokens, -1) {}
  FakeExecutor() : FakeExecutor(Options()) {}

  absl::Status Execute(const StepBatch& batch) override {
    ++steps;
    step_tokens.push_back(static_cast<int64_t>(batch.ids.size()));
    if (fail_at_step == steps) return absl::UnavailableError("device gone");
    const int64_t n = static_cast<int64_t>(batch.ids.size());
    if (n == 0 || n > options_.limits.max_step_tokens) {
      return absl::InvalidArgumentError(absl::StrCat(n, " tokens in a step"));
    }
    for (int64_t t = 0; t < n; ++t) {
      if (t > 0 && batch.slots[t] == batch.slots[t - 1] &&
          batch.positions[t] != batch.positions[t - 1] + 1) {
        return absl::InvalidArgumentError("positions are not consecutive");
      }
      int32_t id = batch.ids[t];
      if (id < 0) {
        if (!options_.keeps_sampled || ~id >= Ssize(drawn_)) {
          return absl::InvalidArgumentError(absl::StrCat("id ", id));
        }
        id = drawn_[~id];  // may be kNoSampledId: nobody takes what follows
      }
      Cell(batch, batch.slots[t], batch.positions[t]) = id;
    }
    logits_.assign(batch.rows.size() * options_.vocab, 0.0f);
    for (size_t r = 0; r < batch.rows.size(); ++r) {
      const int32_t t = batch.rows[r];
      std::vector<int32_t> seen;
      for (int32_t p = 0; p <= batch.positions[t]; ++p) {
        seen.push_back(Cell(batch, batch.slots[t], p));
      }
      Fill(seen, &logits_[r * options_.vocab]);
    }
    if (!batch.samplers.empty()) Draw(batch.samplers);
    return absl::OkStatus();
  }

  // The logits after these ids: what Execute must arrive at.
  std::vector<float> LogitsAfter(const std::vector<int32_t>& ids) const {
    std::vector<float> row(options_.vocab);
    Fill(ids, row.data());
    return row;
  }

  absl::StatusOr<const float*> Logits() override { return logits_.data(); }
  absl::StatusOr<absl::Span<const int32_t>> Sampled() override {
    if (waiting_.empty()) return absl::InternalError("nothing was sampled");
    sampled_ = waiting_.front();
    waiting_.pop_front();
    return absl::MakeConstSpan(sampled_);
  }
  bool keeps_sampled() const override { return options_.keeps_sampled; }
  void SetObserver(Observer) override {}
  const RunLimits& limits() const override { return options_.limits; }
  int64_t blocks_per_seq() const override {
    return CeilDiv(options_.limits.max_seq_len, options_.block_tokens);
  }
  int64_t num_blocks() const override { return options_.num_blocks; }
  int64_t block_tokens() const override { return options_.block_tokens; }
  int64_t vocab_size() const override { return options_.vocab; }
  std::vector<MemoryLine> memory() const override { return {}; }

  int64_t steps = 0;
  int64_t fail_at_step = -1;  // this one, counted from 1, is Unavailable
  std::vector<int64_t> step_tokens;
  int most_waiting = 0;  // steps whose ids nobody had asked for yet
  // Changes a row of logits after the ids that led to it; empty: as hashed.
  std::function<void(const std::vector<int32_t>& ids, float* row)> edit;

 private:
  int32_t& Cell(const StepBatch& batch, int32_t slot, int32_t position) {
    const int32_t block =
        batch
            .blocks[slot * blocks_per_seq() + position / options_.block_tokens];
    return cache_[block * options_.block_tokens +
                  position % options_.block_tokens];
  }
  void Fill(const std::vector<int32_t>& ids, float* row) const {
    const uint64_t hash = Xxh3(ids.data(), ids.size() * sizeof(int32_t));
    for (int64_t v = 0; v < options_.vocab; ++v) {
      const uint64_t mix[] = {hash, static_cast<uint64_t>(v)};
      row[v] = static_cast<float>(Xxh3(mix, sizeof(mix)) >> 40) * 0x1p-21f;
    }
    if (edit) edit(ids, row);
  }

  static int64_t Ssize(const std::vector<int32_t>& v) {
    return static_cast<int64_t>(v.size());
  }
  void Draw(absl::Span<const SamplerRecord> samplers) {
    drawn_.clear();
    std::vector<int32_t> scratch;
    for (size_t r = 0; r < samplers.size(); ++r) {
      const SamplerRecord& s = samplers[r];
      const auto id = SampleToken(&logits_[r * options_.vocab], options_.vocab,
                                  ParamsOf(s), s.position, &scratch);
      drawn_.push_back(id.ok() ? *id : kNoSampledId);
    }
    waiting_.push_back(drawn_);
    most_waiting = std::max(most_waiting, static_cast<int>(waiting_.size()));
  }

  const Options options_;
  std::vector<int32_t> cache_;
  std::vector<float> logits_;
  std::vector<int32_t> drawn_;  // by the last step with samplers
  std::deque<std::vector<int32_t>> waiting_;
  std::vector<int32_t> sampled_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TESTING_FAKE_EXECUTOR_H_
