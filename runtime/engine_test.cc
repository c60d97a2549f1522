#include "runtime/engine.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/testing/fake_executor.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

using Ids = std::vector<int32_t>;

Ids Prompt(int length, int start) {
  Ids ids;
  for (int i = 0; i < length; ++i) ids.push_back((start + 17 * i * i) % 131);
  return ids;
}

// What greedy generation must give, from the executor's formula alone.
Ids GreedyTruth(const FakeExecutor& executor, Ids ids, int n) {
  Ids out;
  for (int i = 0; i < n; ++i) {
    const std::vector<float> row = executor.LogitsAfter(ids);
    ids.push_back(std::max_element(row.begin(), row.end()) - row.begin());
    out.push_back(ids.back());
  }
  return out;
}

Ids SampledAlone(const Request& request) {
  FakeExecutor executor;
  auto engine = Engine::Create(&executor, nullptr);
  auto done = engine->Generate({request});
  EXPECT_TRUE(done.ok()) << done.status().ToString();
  return done.ok() ? (*done)[0].ids : Ids();
}

TEST(Engine, ChunkedPrefillEqualsWholePrompt) {
  const Ids prompt = Prompt(23, 5);
  for (const int64_t step_tokens : {1, 2, 7, 23, 40}) {
    FakeExecutor executor({.limits = {3, step_tokens, 40}});
    auto engine = Engine::Create(&executor, nullptr);
    DS_ASSERT_OK_AND_ASSIGN(
        auto done, engine->Generate({{.prompt = prompt, .max_new_tokens = 9}}));
    EXPECT_EQ(done[0].ids, GreedyTruth(executor, prompt, 9)) << step_tokens;
    EXPECT_EQ(done[0].finish, FinishReason::kLength);
    // The prompt in whole steps, then one for each token but the last.
    EXPECT_EQ(executor.steps, CeilDiv(23, step_tokens) + 8);
  }
}

TEST(Engine, BatchMatesDontMatter) {
  std::vector<Request> requests;
  for (int i = 0; i < 11; ++i) {
    Request r;
    r.prompt = Prompt(1 + (5 * i) % 19, i);
    r.max_new_tokens = 1 + (7 * i) % 13;
    r.sampling.greedy = i % 3 == 0;
    r.sampling.seed = i;
    r.sampling.top_k = i % 2 ? 50 : 0;
    r.sampling.top_p = i % 5 == 1 ? 0.9f : 1.0f;
    requests.push_back(r);
  }
  FakeExecutor executor;
  auto engine = Engine::Create(&executor, nullptr);
  DS_ASSERT_OK_AND_ASSIGN(auto done, engine->Generate(requests));
  ASSERT_EQ(done.size(), requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(done[i].ids, SampledAlone(requests[i])) << i;
    EXPECT_EQ(done[i].ids.size(),
              static_cast<size_t>(requests[i].max_new_tokens));
  }
}

TEST(Engine, StepsUnderWayGiveTheSameIds) {
  std::vector<Request> requests;
  for (int i = 0; i < 11; ++i) {
    Request r;
    r.prompt = Prompt(1 + (5 * i) % 19, i);
    r.max_new_tokens = 1 + (7 * i) % 13;
    r.sampling.greedy = i % 3 == 0;
    r.sampling.seed = i;
    for (int32_t id = i; id < 131; id += 11) r.stop_ids.push_back(id);
    if (i % 4 == 1) {
      r.on_token = [n = 0](int32_t) mutable { return ++n < 3; };
    }
    requests.push_back(r);
  }
  FakeExecutor waits, ahead({.keeps_sampled = true});
  DS_ASSERT_OK_AND_ASSIGN(
      const auto one, Engine::Create(&waits, nullptr)->Generate(requests));
  DS_ASSERT_OK_AND_ASSIGN(
      const auto two, Engine::Create(&ahead, nullptr)->Generate(requests));
  EXPECT_EQ(ahead.most_waiting, 2);
  EXPECT_EQ(waits.most_waiting, 1);
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(one[i].ids, two[i].ids) << i;
    EXPECT_EQ(one[i].finish, two[i].finish) << i;
  }
}

TEST(Engine, DecodeTokensRideInEveryStepOfALongPrefill) {
  FakeExecutor executor;  // 7 tokens a step
  auto engine = Engine::Create(&executor, nullptr);
  std::vector<int> order;
  Request quick = {.prompt = {3}, .max_new_tokens = 4};
  quick.on_token = [&](int32_t) {
    order.push_back(0);
    return true;
  };
  Request slow = {.prompt = Prompt(30, 1), .max_new_tokens = 1};
  slow.on_token = [&](int32_t) {
    order.push_back(1);
    return true;
  };
  DS_ASSERT_OK(engine->Generate({quick, slow}));
  EXPECT_EQ(order, (std::vector<int>{0, 0, 0, 0, 1}));
  // 1 + 6 a step while both run, then what the prompt still lacks.
  EXPECT_EQ(executor.step_tokens, (std::vector<int64_t>{7, 7, 7, 7, 6}));
}

TEST(Engine, MoreDecodingSequencesThanAStepHoldsTakeTurns) {
  FakeExecutor executor({.limits = {5, 2, 20}, .num_blocks = 25});
  auto engine = Engine::Create(&executor, nullptr);
  std::vector<Request> requests(5);
  std::vector<int> got(5, 0);
  int widest = 0;
  for (int i = 0; i < 5; ++i) {
    requests[i].prompt = {i + 1};
    requests[i].max_new_tokens = 6;
    requests[i].on_token = [&got, &widest, i](int32_t) {
      ++got[i];
      const auto [low, high] = std::minmax_element(got.begin(), got.end());
      widest = std::max(widest, *high - *low);
      return true;
    };
  }
  DS_ASSERT_OK_AND_ASSIGN(auto done, engine->Generate(requests));
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(done[i].ids, GreedyTruth(executor, {i + 1}, 6));
  }
  EXPECT_LE(widest, 2);  // nobody is left behind
}

TEST(Engine, StopIdEndsASequenceAndIsNotPartOfIt) {
  FakeExecutor executor;
  const Ids truth = GreedyTruth(executor, {9, 4}, 8);
  ASSERT_EQ(std::find(truth.begin(), truth.begin() + 5, truth[5]),
            truth.begin() + 5);
  Ids told;
  Request r = {.prompt = {9, 4}, .max_new_tokens = 8};
  r.stop_ids = {truth[7], truth[5]};
  r.on_token = [&](int32_t id) {
    told.push_back(id);
    return true;
  };
  auto engine = Engine::Create(&executor, nullptr);
  DS_ASSERT_OK_AND_ASSIGN(auto done, engine->Generate({r}));
  EXPECT_EQ(done[0].finish, FinishReason::kStop);
  EXPECT_EQ(done[0].ids, Ids(truth.begin(), truth.begin() + 5));
  EXPECT_EQ(told, Ids(truth.begin(), truth.begin() + 6));
}

TEST(Engine, CallbackCancelsItsOwnSequenceOnly) {
  FakeExecutor executor;
  auto engine = Engine::Create(&executor, nullptr);
  int count = 0;
  Request a = {.prompt = {1, 2, 3}, .max_new_tokens = 9};
  a.on_token = [&](int32_t) { return ++count < 3; };
  const Request b = {.prompt = {4, 5}, .max_new_tokens = 9};
  DS_ASSERT_OK_AND_ASSIGN(auto done, engine->Generate({a, b}));
  EXPECT_EQ(done[0].finish, FinishReason::kCancelled);
  EXPECT_EQ(done[0].ids, GreedyTruth(executor, {1, 2, 3}, 3));
  EXPECT_EQ(done[1].ids, GreedyTruth(executor, {4, 5}, 9));
}

TEST(Engine, ScarceCacheBlocksDelayRequestsButNeverChangeThem) {
  // Each needs 3 blocks of 4; the cache holds 4.
  FakeExecutor executor({.limits = {3, 7, 12}, .num_blocks = 4});
  auto engine = Engine::Create(&executor, nullptr);
  std::vector<Request> requests;
  for (int i = 0; i < 4; ++i) {
    requests.push_back({.prompt = Prompt(5, i), .max_new_tokens = 6});
  }
  DS_ASSERT_OK_AND_ASSIGN(auto done, engine->Generate(requests));
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(done[i].ids, GreedyTruth(executor, Prompt(5, i), 6));
  }
}

TEST(Engine, RunsAgainAfterAGeneration) {
  FakeExecutor executor;
  auto engine = Engine::Create(&executor, nullptr);
  for (int i = 0; i < 3; ++i) {
    DS_ASSERT_OK_AND_ASSIGN(
        auto done,
        engine->Generate({{.prompt = Prompt(9, i), .max_new_tokens = 5}}));
    EXPECT_EQ(done[0].ids, GreedyTruth(executor, Prompt(9, i), 5));
  }
  DS_ASSERT_OK_AND_ASSIGN(auto none, engine->Generate({}));
  EXPECT_TRUE(none.empty());
}

TEST(Engine, RefusesBadRequestsBeforeAnythingRuns) {
  FakeExecutor executor;
  auto engine = Engine::Create(&executor, nullptr);
  const Request good = {.prompt = {1}, .max_new_tokens = 1};
  const auto refuses = [&](Request bad, absl::string_view part) {
    DS_EXPECT_ERROR(engine->Generate({good, bad}), kInvalidArgument, part);
    EXPECT_EQ(executor.steps, 0);
  };
  refuses({.prompt = {}, .max_new_tokens = 1}, "request 1: the prompt has no");
  refuses({.prompt = {1}, .max_new_tokens = 0}, "max_new_tokens is 0");
  refuses({.prompt = Prompt(33, 1), .max_new_tokens = 8},
          "33 tokens and 8 new ones exceed the sequence ceiling of 40");
  refuses({.prompt = {1, 2}, .max_new_tokens = INT64_MAX},
          "exceed the sequence ceiling of 40");
  refuses({.prompt = {1, 131}, .max_new_tokens = 1},
          "prompt id 1 is 131; ids are 0 to 130");
  refuses({.prompt = {-1}, .max_new_tokens = 1}, "prompt id 0 is -1");
  Request bad = good;
  bad.stop_ids = {4, 500};
  refuses(bad, "stop id 1 is 500");
  bad = good;
  bad.sampling = {.greedy = false, .temperature = 0};
  refuses(bad, "temperature is 0");
  bad.sampling.temperature = std::nanf("");
  refuses(bad, "temperature is nan");
  bad.sampling = {.greedy = false, .top_k = -2};
  refuses(bad, "top-k is -2");
  bad.sampling = {.greedy = false, .top_p = 1.5f};
  refuses(bad, "top-p is 1.5");
  // Exactly at the ceiling is fine.
  DS_ASSERT_OK(
      engine->Generate({{.prompt = Prompt(32, 1), .max_new_tokens = 8}}));
}

TEST(Engine, RefusesASequenceThatTheCacheCanNeverHold) {
  FakeExecutor executor({.limits = {3, 7, 40}, .num_blocks = 5});
  auto engine = Engine::Create(&executor, nullptr);
  DS_EXPECT_ERROR(
      engine->Generate({{.prompt = Prompt(20, 1), .max_new_tokens = 2}}),
      kInvalidArgument,
      "21 tokens take 6 cache blocks of 4 tokens; the cache has 5");
}

TEST(Engine, NanLogitsEndTheirOwnSequenceAlone) {
  const Request good = {.prompt = {1}, .max_new_tokens = 12};
  const Request bad = {.prompt = {1, 2, 3}, .max_new_tokens = 9};
  for (const bool keeps_sampled : {false, true}) {
    FakeExecutor executor({.keeps_sampled = keeps_sampled});
    executor.edit = [](const Ids& ids, float* row) {
      // Nobody may run behind it, as the sequence has ended.
      if (ids.size() == 6 && ids[1] == 2) {
        row[77] = std::numeric_limits<float>::quiet_NaN();
      }
    };
    auto engine = Engine::Create(&executor, nullptr);
    for (int again = 0; again < 2; ++again) {
      DS_ASSERT_OK_AND_ASSIGN(auto done, engine->Generate({good, bad, good}));
      const Ids truth = GreedyTruth(executor, {1}, 12);
      EXPECT_EQ(done[0].ids, truth);
      EXPECT_EQ(done[2].ids, truth);
      EXPECT_EQ(done[2].finish, FinishReason::kLength);
      EXPECT_EQ(done[1].finish, FinishReason::kError);
      EXPECT_EQ(done[1].ids, GreedyTruth(executor, bad.prompt, 3));
      DS_EXPECT_ERROR(done[1].error, kInternal,
                      "step 3, position 5: the logits hold NaN");
    }
    EXPECT_LE(executor.most_waiting, 2);
  }
}

TEST(Engine, AFailedStepEndsTheEngine) {
  FakeExecutor executor;
  executor.fail_at_step = 2;
  auto engine = Engine::Create(&executor, nullptr);
  const Request r = {.prompt = {1}, .max_new_tokens = 9};
  DS_EXPECT_ERROR(engine->Generate({r}), kUnavailable, "device gone");
  DS_EXPECT_ERROR(engine->Generate({r}), kUnavailable, "device gone");
  EXPECT_EQ(executor.steps, 2);
}

TEST(Score, GivesAllPositionsInOrder) {
  const std::vector<Ids> sequences = {Prompt(11, 1), Prompt(1, 2),
                                      Prompt(18, 3), Prompt(4, 4),
                                      Prompt(7, 5),  Prompt(40, 6)};
  for (const int64_t step_tokens : {1, 3, 7, 64}) {
    FakeExecutor executor({.limits = {2, step_tokens, 40}, .num_blocks = 20});
    auto engine = Engine::Create(&executor, nullptr);
    size_t sequence = 0, position = 0;
    DS_ASSERT_OK(
        engine->Score(sequences, [&](int s, int64_t p, const float* logits) {
          ASSERT_EQ(static_cast<size_t>(s), sequence);
          ASSERT_EQ(static_cast<size_t>(p), position);
          const Ids& ids = sequences[sequence];
          const std::vector<float> want =
              executor.LogitsAfter(Ids(ids.begin(), ids.begin() + position + 1));
          ASSERT_EQ(std::vector<float>(logits, logits + 131), want);
          if (++position == ids.size()) {
            ++sequence;
            position = 0;
          }
        }));
    EXPECT_EQ(sequence, sequences.size());
  }
}

TEST(Score, RefusesWhatDoesNotFit) {
  FakeExecutor executor;
  auto engine = Engine::Create(&executor, nullptr);
  const auto sink = [](int, int64_t, const float*) {};
  DS_EXPECT_ERROR(engine->Score({{1}, Prompt(41, 1)}, sink), kInvalidArgument,
                  "sequence 1 has 41 tokens; at least one and at most the "
                  "sequence ceiling of 40");
  DS_EXPECT_ERROR(engine->Score({{}}, sink), kInvalidArgument,
                  "sequence 0 has 0 tokens");
  DS_EXPECT_ERROR(engine->Score({{5, 131}}, sink), kInvalidArgument,
                  "sequence 0: id 1 is 131");
  EXPECT_EQ(executor.steps, 0);
}

}  // namespace
}  // namespace deepslice
