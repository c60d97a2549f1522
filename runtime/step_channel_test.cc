// Rank 0's engine and its followers, as threads of this process.
#include "runtime/step_channel.h"

#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/comm/local.h"
#include "runtime/engine.h"
#include "runtime/testing/fake_executor.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

// Rank 0 runs `lead`, the others RunFollower over executors made with
// `options`; returns how each follower ended.
template <typename Lead>
std::vector<absl::Status> RunWorld(
    std::vector<FakeExecutor::Options> options, Lead lead,
    std::vector<std::unique_ptr<FakeExecutor>>* executors) {
  std::vector<std::unique_ptr<Comm>> comms = MakeLocalComms(options.size());
  for (const auto& o : options) {
    executors->push_back(std::make_unique<FakeExecutor>(o));
  }
  std::vector<absl::Status> ends(options.size());
  std::vector<std::thread> threads;
  for (size_t r = 1; r < options.size(); ++r) {
    threads.emplace_back([&, r] {
      ends[r] = RunFollower((*executors)[r].get(), comms[r].get());
      comms[r].reset();
    });
  }
  lead((*executors)[0].get(), comms[0].get());
  for (std::thread& t : threads) t.join();
  return ends;
}

TEST(Follower, RunsTheStepsOfRankZeroUntilItStops) {
  std::vector<std::unique_ptr<FakeExecutor>> executors;
  const auto ends = RunWorld(
      {{}, {}, {}},
      [](Executor* executor, Comm* comm) {
        auto engine = Engine::Create(executor, comm);
        for (int i = 0; i < 2; ++i) {
          DS_ASSERT_OK(engine->Generate(
              {{.prompt = {1, 2, 3, 4, 5, 6, 7, 8, 9}, .max_new_tokens = 5},
               {.prompt = {40}, .max_new_tokens = 3}}));
          DS_ASSERT_OK(engine->Score({{1, 2}, {3, 4, 5}},
                                     [](int, int64_t, const float*) {}));
        }
      },
      &executors);
  for (int r = 1; r < 3; ++r) {
    DS_ASSERT_OK(ends[r]);
    EXPECT_EQ(executors[r]->step_tokens, executors[0]->step_tokens);
    EXPECT_GT(executors[r]->steps, 0);
  }
}

TEST(Follower, RefusesOtherCeilingsInsteadOfHanging) {
  std::vector<std::unique_ptr<FakeExecutor>> executors;
  FakeExecutor::Options other;
  other.limits.max_step_tokens = 5;
  const auto ends = RunWorld(
      {{}, other},
      [](Executor* executor, Comm* comm) {
        auto engine = Engine::Create(executor, comm);
        // The frame is out before the follower refuses; a later step tells.
        const auto done =
            engine->Generate({{.prompt = {1, 2, 3}, .max_new_tokens = 9}});
        EXPECT_FALSE(done.ok());
      },
      &executors);
  DS_EXPECT_ERROR(ends[1], kAborted, "rank 1 was prepared with other ceilings");
}

TEST(Follower, ItsFailureReachesRankZero) {
  std::vector<std::unique_ptr<FakeExecutor>> executors;
  const auto ends = RunWorld(
      {{}, {}},
      [&](Executor* executor, Comm* comm) {
        executors[1]->fail_at_step = 3;
        auto engine = Engine::Create(executor, comm);
        const auto done =
            engine->Generate({{.prompt = {1}, .max_new_tokens = 30}});
        EXPECT_FALSE(done.ok());
        EXPECT_TRUE(absl::StrContains(done.status().message(), "device gone"))
            << done.status().ToString();
      },
      &executors);
  DS_EXPECT_ERROR(ends[1], kUnavailable, "device gone");
}

TEST(Follower, EndsWhenRankZeroFails) {
  std::vector<std::unique_ptr<FakeExecutor>> executors;
  const auto ends = RunWorld(
      {{}, {}},
      [&](Executor* executor, Comm* comm) {
        executors[0]->fail_at_step = 3;
        auto engine = Engine::Create(executor, comm);
        DS_EXPECT_ERROR(
            engine->Generate({{.prompt = {1}, .max_new_tokens = 30}}),
            kUnavailable, "device gone");
      },
      &executors);
  EXPECT_FALSE(ends[1].ok());
}

// Frames that no StepChannel would send.
class ForgedFrame : public testing::Test {
 protected:
  // What rank 1 makes of `words` (the 16 words of a header) and `body`.
  absl::Status Receive(std::vector<uint32_t> words, std::vector<int32_t> body) {
    std::vector<std::unique_ptr<Comm>> comms = MakeLocalComms(2);
    absl::Status status;
    std::thread follower([&] {
      FakeExecutor executor;
      StepChannel channel(executor, comms[1].get());
      StepBatch batch;
      status = channel.Receive(&batch).status();
      comms[1].reset();
    });
    EXPECT_TRUE(comms[0]->Broadcast(words.data(), 64).ok());
    if (!body.empty()) {
      comms[0]
          ->Broadcast(body.data(), static_cast<int64_t>(4 * body.size()))
          .IgnoreError();
    }
    comms[0].reset();
    follower.join();
    return status;
  }

  // A good header of a step with one token and one row.
  std::vector<uint32_t> Header() {
    const uint64_t shape = StepShapeDigest(FakeExecutor());
    const uint64_t sum = Xxh3(body_.data(), 4 * body_.size());
    std::vector<uint32_t> words(16, 0);
    words[0] = 0x74735344;
    words[1] = 1;
    words[4] = static_cast<uint32_t>(shape);
    words[5] = static_cast<uint32_t>(shape >> 32);
    words[6] = static_cast<uint32_t>(sum);
    words[7] = static_cast<uint32_t>(sum >> 32);
    words[8] = 1;   // tokens
    words[9] = 30;  // 3 slots of 10 blocks
    words[10] = 1;  // rows
    return words;
  }
  std::vector<int32_t> body_ = std::vector<int32_t>(3 + 30 + 1, 0);
};

TEST_F(ForgedFrame, IsReadAsDocumented) {
  DS_ASSERT_OK(Receive(Header(), body_));
}

TEST_F(ForgedFrame, WrongMagicOrKindIsRefused) {
  auto words = Header();
  words[0] = 7;
  DS_EXPECT_ERROR(Receive(words, {}), kAborted, "magic 7");
  words = Header();
  words[1] = 9;
  DS_EXPECT_ERROR(Receive(words, {}), kAborted, "kind 9");
}

TEST_F(ForgedFrame, StepOutOfTurnIsRefusedWithBothNumbers) {
  auto words = Header();
  words[2] = 5;
  DS_EXPECT_ERROR(Receive(words, {}), kAborted,
                  "rank 0 is at step 5, rank 1 at step 0");
}

TEST_F(ForgedFrame, SizesBeyondTheCeilingsAreRefused) {
  auto words = Header();
  words[8] = 8;
  DS_EXPECT_ERROR(Receive(words, {}), kAborted, "has 8 tokens");
  words = Header();
  words[10] = 2;
  DS_EXPECT_ERROR(Receive(words, {}), kAborted, "2 rows");
  words = Header();
  words[9] = 0xffffffff;
  DS_EXPECT_ERROR(Receive(words, {}), kAborted, "4294967295 block table");
}

TEST_F(ForgedFrame, SourcesAndImagesOfAPlanWithoutAreRefused) {
  for (const int at : {12, 13, 14, 15}) {
    auto words = Header();
    words[at] = 1;
    DS_EXPECT_ERROR(Receive(words, {}), kAborted, "fit");
  }
}

TEST_F(ForgedFrame, DamagedBodyIsRefused) {
  const auto words = Header();
  body_[1] = 3;
  DS_EXPECT_ERROR(Receive(words, body_), kAborted, "came with digest");
}

}  // namespace
}  // namespace deepslice
