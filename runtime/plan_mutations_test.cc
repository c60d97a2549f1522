// Any damage to a plan's bytes is a clean error, or a plan that runs a step
// without a crash. Run it under the sanitizers too.
#include <algorithm>
#include <cstring>
#include <random>

#include "gtest/gtest.h"
#include "runtime/executor.h"
#include "schema/base/status_matchers.h"
#include "tests/support/gpu_plan_builder.h"
#include "tests/support/plan_builder.h"

namespace deepslice {
namespace {

class PlanMutations
    : public testing::TestWithParam<std::pair<Encoding, Encoding>> {
 protected:
  PlanMutations()
      : plan_(
            TinyLlama{.matrices = GetParam().first, .cache = GetParam().second}
                .Build()),
        good_(plan_.Bytes()),
        pool_(1) {}

  // Loads and, when that works, runs a prefill and a decode.
  void Try(const std::string& bytes) {
    // Weights don't change here, so their hashes need no check.
    auto plan =
        Plan::FromBytes(bytes, plan_.weights, "p", {.check_weights = false});
    if (!plan.ok()) {
      ++refused_;
      return;
    }
    auto executor = Executor::Prepare(*plan, {}, nullptr, &pool_);
    if (!executor.ok()) {
      ++refused_;
      return;
    }
    ++ran_;
    const int64_t table = (*executor)->num_blocks();
    if (table > (1 << 20)) return;  // the table alone would take long
    const std::vector<int32_t> blocks(table, 0);
    const auto run = [&](std::vector<int32_t> ids, int32_t first) {
      std::vector<int32_t> positions, slots(ids.size(), 0), rows;
      for (size_t i = 0; i < ids.size(); ++i) {
        positions.push_back(first + static_cast<int32_t>(i));
        rows.push_back(static_cast<int32_t>(i));
      }
      const absl::Status status =
          (*executor)->Execute({ids, positions, slots, blocks, rows, {}});
      if (!status.ok()) return;
      // Reads what a caller would read.
      float sum = 0;
      if ((*executor)->encodes()) {
        const auto outputs = (*executor)->Outputs();
        if (!outputs.ok()) return;
        for (const NamedOutput& o : *outputs) {
          for (int64_t i = 0; i < o.rows * o.cols; ++i) sum += o.data[i];
        }
        sum_ = sum;
        return;
      }
      const int64_t count = rows.size() * (*executor)->vocab_size();
      for (int64_t i = 0; i < count; ++i) sum += (*(*executor)->Logits())[i];
      sum_ = sum;
    };
    run({1, 130, 7}, 0);
    run({5}, 3);
  }

  const TestPlan plan_;
  const std::string good_;
  ThreadPool pool_;
  int64_t refused_ = 0, ran_ = 0;
  volatile float sum_ = 0;  // keeps the reading
};

INSTANTIATE_TEST_SUITE_P(
    All, PlanMutations,
    testing::Values(std::make_pair(Encoding::kF32, Encoding::kF32),
                    std::make_pair(Encoding::kI8Row, Encoding::kBF16)),
    [](const auto& info) {
      return std::string(EncodingName(info.param.first));
    });

TEST_P(PlanMutations, EveryByteFlipped) {
  for (const int mask : {0xff, 0x01, 0x80}) {
    for (size_t i = 0; i < good_.size(); ++i) {
      std::string bytes = good_;
      bytes[i] = static_cast<char>(bytes[i] ^ mask);
      Try(bytes);
    }
  }
  // Every bit of the tables that stand first.
  for (size_t i = 0; i < std::min<size_t>(good_.size(), 4096); ++i) {
    for (int bit = 1; bit < 7; ++bit) {
      std::string bytes = good_;
      bytes[i] = static_cast<char>(bytes[i] ^ (1 << bit));
      Try(bytes);
    }
  }
  // Both ends are met: names may change freely, most else may not.
  EXPECT_GT(refused_, 1000);
  EXPECT_GT(ran_, 1000);
}

TEST_P(PlanMutations, EveryTruncation) {
  for (size_t n = 0; n < good_.size(); ++n) Try(good_.substr(0, n));
  EXPECT_LE(ran_, 8);  // padding at the end is nobody's
  EXPECT_EQ(refused_ + ran_, static_cast<int64_t>(good_.size()));
}

TEST_P(PlanMutations, WordsReplaced) {
  std::mt19937 random(20260101);
  for (const uint32_t word : {0u, 1u, 0x7fffffffu, 0x80000000u, 0xffffffffu}) {
    for (size_t at = 0; at + 4 <= good_.size(); at += 4) {
      std::string bytes = good_;
      std::memcpy(&bytes[at], &word, 4);
      Try(bytes);
    }
    for (int i = 0; i < 3000; ++i) {  // two words at once
      std::string bytes = good_;
      for (int k = 0; k < 2; ++k) {
        std::memcpy(&bytes[random() % (good_.size() - 3)], &word, 4);
      }
      Try(bytes);
    }
  }
  EXPECT_GT(refused_, 1000);
  EXPECT_GT(ran_, 1000);
}

// A plan with a GPU target is read the same way; there is no card to run it.
class GpuPlanMutations : public testing::Test {
 protected:
  GpuPlanMutations() : plan_(TinyGpuPlan().Build()), good_(plan_.Bytes()) {}

  void Try(const std::string& bytes) {
    const auto plan =
        Plan::FromBytes(bytes, plan_.weights, "p", {.check_weights = false});
    ++(plan.ok() ? taken_ : refused_);
  }

  const TestPlan plan_;
  const std::string good_;
  int64_t refused_ = 0, taken_ = 0;
};

TEST_F(GpuPlanMutations, EveryByteFlipped) {
  for (const int mask : {0xff, 0x01, 0x80}) {
    for (size_t i = 0; i < good_.size(); ++i) {
      std::string bytes = good_;
      bytes[i] = static_cast<char>(bytes[i] ^ mask);
      Try(bytes);
    }
  }
  EXPECT_GT(refused_, 1000);
  EXPECT_GT(taken_, 1000);
}

TEST_F(GpuPlanMutations, EveryTruncation) {
  for (size_t n = 0; n < good_.size(); ++n) Try(good_.substr(0, n));
  EXPECT_LE(taken_, 8);  // padding at the end is nobody's
}

TEST_F(GpuPlanMutations, WordsReplaced) {
  for (const uint32_t word : {0u, 1u, 0x7fffffffu, 0x80000000u, 0xffffffffu}) {
    for (size_t at = 0; at + 4 <= good_.size(); at += 4) {
      std::string bytes = good_;
      std::memcpy(&bytes[at], &word, 4);
      Try(bytes);
    }
  }
  EXPECT_GT(refused_, 1000);
  EXPECT_GT(taken_, 1000);
}

}  // namespace
}  // namespace deepslice
