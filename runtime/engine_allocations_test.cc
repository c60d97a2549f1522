// Counts allocations, so it replaces operator new.
#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/comm/local.h"
#include "runtime/engine.h"

namespace {
std::atomic<int64_t> allocations = 0;
}  // namespace

void* operator new(std::size_t size) {
  ++allocations;
  if (void* p = std::malloc(size == 0 ? 1 : size)) return p;
  std::abort();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace deepslice {
namespace {

// Always the same logits, made once.
class StillExecutor final : public Executor {
 public:
  StillExecutor() : logits_(7 * 131) {
    for (size_t i = 0; i < logits_.size(); ++i) {
      logits_[i] = static_cast<float>(i * 31 % 131) * 0.01f;
    }
  }
  absl::Status Execute(const StepBatch& batch) override {
    drawn_ = batch.samplers.size();
    return absl::OkStatus();
  }
  absl::StatusOr<const float*> Logits() override { return logits_.data(); }
  absl::StatusOr<absl::Span<const int32_t>> Sampled() override {
    return absl::MakeConstSpan(ids_, drawn_);
  }
  void SetObserver(Observer) override {}
  const RunLimits& limits() const override { return limits_; }
  int64_t blocks_per_seq() const override { return 25; }
  int64_t num_blocks() const override { return 75; }
  int64_t block_tokens() const override { return 4; }
  int64_t vocab_size() const override { return 131; }
  std::vector<MemoryLine> memory() const override { return {}; }

 private:
  const RunLimits limits_ = {3, 7, 100};
  const int32_t ids_[7] = {5, 1, 130, 7, 2, 99, 3};
  size_t drawn_ = 0;
  std::vector<float> logits_;
};

// Generates with `comm`, and returns the allocations between the steps in which
// all sequences decode.
int64_t SteadyAllocations(Comm* comm) {
  StillExecutor executor;
  auto engine = Engine::Create(&executor, comm);
  std::vector<Request> requests(3);
  int64_t first = -1, last = -1;
  int count = 0;
  for (int i = 0; i < 3; ++i) {
    requests[i].prompt = {1, 2, 3};
    requests[i].max_new_tokens = 60;
    requests[i].sampling = {.greedy = i == 0,
                            .top_k = i == 1 ? 40 : 0,
                            .top_p = i == 2 ? 0.9f : 1.0f};
    requests[i].on_token = [&, i](int32_t) {
      if (i == 0 && ++count == 10) first = allocations;
      if (i == 0 && count == 55) last = allocations;
      return true;
    };
  }
  EXPECT_TRUE(engine->Generate(std::move(requests)).ok());
  EXPECT_GE(first, 0);
  EXPECT_GE(last, first);
  return last - first;
}

TEST(EngineAllocations, SteadyStepsAllocateNothing) {
  EXPECT_EQ(SteadyAllocations(nullptr), 0);
}

TEST(EngineAllocations, NorDoTheFramesToAFollower) {
  std::vector<std::unique_ptr<Comm>> comms = MakeLocalComms(2);
  std::thread follower([&] {
    StillExecutor executor;
    EXPECT_TRUE(RunFollower(&executor, comms[1].get()).ok());
  });
  EXPECT_EQ(SteadyAllocations(comms[0].get()), 0);
  follower.join();
}

TEST(EngineAllocations, TheCounterCounts) {
  const int64_t before = allocations;
  auto p = std::make_unique<int>(7);
  EXPECT_EQ(*p, 7);
  EXPECT_EQ(allocations - before, 1);
}

}  // namespace
}  // namespace deepslice
