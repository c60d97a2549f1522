// What a request can ask for, through the engine: that it holds, and that
// neither batch mates nor steps under way change it.
#include "runtime/generation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/engine.h"
#include "runtime/philox.h"
#include "runtime/testing/fake_executor.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

using Ids = std::vector<int32_t>;
constexpr int64_t kVocab = 131;

Ids Prompt(int length, int start) {
  Ids ids;
  for (int i = 0; i < length; ++i) ids.push_back((start + 17 * i * i) % 131);
  return ids;
}

std::vector<Completion> RunAll(FakeExecutor& executor,
                               const std::vector<Request>& requests) {
  auto done = Engine::Create(&executor, nullptr)->Generate(requests);
  EXPECT_TRUE(done.ok()) << done.status().ToString();
  return done.ok() ? *std::move(done) : std::vector<Completion>();
}
std::vector<Completion> RunAlone(const Request& request) {
  FakeExecutor executor;
  return RunAll(executor, {request});
}

// What the definitions say, from the executor's formula alone.
Ids Truth(const FakeExecutor& executor, const Request& r, int answer) {
  Ids all = r.prompt, out;
  SamplingParams sampling = r.sampling;
  sampling.seed = SeedOfAnswer(sampling.seed, answer);
  std::vector<int32_t> scratch;
  while (static_cast<int64_t>(out.size()) < r.max_new_tokens) {
    std::vector<float> row = executor.LogitsAfter(all);
    TokenHistory history(kVocab, kVocab);
    for (const int32_t id : r.prompt) history.AddPrompt(id);
    for (const int32_t id : out) history.AddAnswer(id);
    const bool early = static_cast<int64_t>(out.size()) < r.min_new_tokens;
    EditLogits(r.edits, history, early ? r.stop_ids : Ids(), row.data());
    const int32_t id = SampleToken(row.data(), kVocab, sampling,
                                   static_cast<int64_t>(all.size()), &scratch)
                           .value();
    if (std::count(r.stop_ids.begin(), r.stop_ids.end(), id) > 0) break;
    out.push_back(id);
    all.push_back(id);
  }
  return out;
}

// Requests of every kind; `i` chooses.
Request Mixed(int i) {
  Request r;
  r.prompt = Prompt(1 + (5 * i) % 19, i);
  r.max_new_tokens = 1 + (7 * i) % 13;
  r.sampling.greedy = i % 4 == 0;
  r.sampling.seed = 100 + i;
  r.sampling.temperature = 0.5f + 0.1f * static_cast<float>(i % 5);
  r.sampling.top_k = i % 3 == 1 ? 20 : 0;
  r.sampling.min_p = i % 5 == 2 ? 0.1f : 0.0f;
  r.sampling.typical_p = i % 7 == 3 ? 0.6f : 1.0f;
  if (i % 3 == 0) {
    r.edits.repetition_penalty = 1.5f;
    r.edits.frequency_penalty = 0.4f;
    r.edits.presence_penalty = 0.2f;
  }
  if (i % 5 == 1) r.edits.bias = {{i, 4.0f}, {i + 9, -100.0f}};
  for (int32_t id = i % 9; id < 131; id += 9) r.stop_ids.push_back(id);
  r.min_new_tokens = i % 2 == 0 ? r.max_new_tokens / 2 : 0;
  r.n = i % 6 == 5 ? 3 : i % 8 == 2 ? 7 : 1;
  return r;
}

TEST(Generation, EveryFeatureFollowsItsDefinitionAlone) {
  const FakeExecutor formula;
  for (int i = 0; i < 60; ++i) {
    const Request r = Mixed(i);
    const std::vector<Completion> done = RunAlone(r);
    ASSERT_EQ(done.size(), static_cast<size_t>(r.n));
    for (int a = 0; a < r.n; ++a) {
      EXPECT_EQ(done[a].ids, Truth(formula, r, a)) << i << ", answer " << a;
    }
  }
}

TEST(Generation, NeitherMatesNorStepsUnderWayChangeIt) {
  for (int mix = 0; mix < 12; ++mix) {
    std::vector<Request> requests;
    for (int i = 0; i < 9; ++i) requests.push_back(Mixed(mix * 5 + 7 * i));
    requests.push_back(Mixed(mix));
    requests.back().sampling = {};
    requests.back().n = 1 + mix % 3;
    requests.back().beams.width = 3;
    requests.push_back(Mixed(mix + 1));
    requests.back().logprobs = 2;
    for (const bool keeps_sampled : {false, true}) {
      FakeExecutor executor({.keeps_sampled = keeps_sampled});
      const std::vector<Completion> done = RunAll(executor, requests);
      size_t at = 0;
      for (const Request& r : requests) {
        for (const Completion& alone : RunAlone(r)) {
          ASSERT_LT(at, done.size());
          EXPECT_EQ(done[at].ids, alone.ids) << mix << ": " << at;
          EXPECT_EQ(done[at].finish, alone.finish);
          EXPECT_EQ(done[at].score, alone.score);
          ++at;
        }
      }
      EXPECT_EQ(at, done.size());
    }
  }
}

TEST(Generation, StepsRunAheadWhereTheDeviceDrawsAll) {
  Request r = {.prompt = {3, 4}, .max_new_tokens = 9};
  r.sampling = {.greedy = false, .top_k = 30, .min_p = 0.05f};
  FakeExecutor device({.keeps_sampled = true});
  RunAll(device, {r});
  EXPECT_EQ(device.most_waiting, 2);
  r.edits.presence_penalty = 1;
  FakeExecutor host({.keeps_sampled = true});
  RunAll(host, {r});
  EXPECT_EQ(host.most_waiting, 1);
}

TEST(Generation, AnswersRunTheirPromptOnce) {
  // The third answer of a prompt of 16 = 4 blocks shares all of it.
  FakeExecutor executor({.limits = {3, 64, 40}});
  Request r = {.prompt = Prompt(16, 1), .max_new_tokens = 5};
  r.sampling.greedy = false;
  r.n = 3;
  RunAll(executor, {r});
  EXPECT_EQ(executor.step_tokens, (std::vector<int64_t>{16, 3, 3, 3, 3}));
}

TEST(Generation, LogprobsAreTheModelsOwn) {
  Request r = {.prompt = {5, 6}, .max_new_tokens = 4};
  r.sampling = {.greedy = false, .temperature = 0.3f};
  r.edits.presence_penalty = 3;
  r.logprobs = 5;
  FakeExecutor executor;
  const std::vector<Completion> done = RunAll(executor, {r});
  ASSERT_EQ(done[0].logprobs.size(), 4u);
  Ids all = r.prompt;
  for (int i = 0; i < 4; ++i) {
    const std::vector<float> row = executor.LogitsAfter(all);
    double sum = 0;
    for (const float x : row) sum += std::exp(x);
    const TokenLogprobs& got = done[0].logprobs[i];
    EXPECT_EQ(got.chosen.id, done[0].ids[i]);
    EXPECT_NEAR(got.chosen.logprob, row[got.chosen.id] - std::log(sum), 1e-5);
    ASSERT_EQ(got.top.size(), 5u);
    EXPECT_EQ(got.top[0].id,
              std::max_element(row.begin(), row.end()) - row.begin());
    all.push_back(got.chosen.id);
  }
}

TEST(Generation, AWatcherSeesEveryAnswerAndCanEndIt) {
  Request r = {.prompt = {5, 6}, .max_new_tokens = 9};
  r.sampling.greedy = false;
  r.n = 3;
  r.logprobs = 0;
  std::vector<int> seen(3, 0);
  r.watch = [&](const NewToken& t) {
    EXPECT_NE(t.logprobs, nullptr);
    ++seen[t.answer];
    if (t.answer == 1 && seen[1] == 2) return Verdict::kStop;
    if (t.answer == 2 && seen[2] == 4) return Verdict::kCancel;
    return Verdict::kGoOn;
  };
  const std::vector<Completion> done = RunAlone(r);
  EXPECT_EQ(seen, (std::vector<int>{9, 2, 4}));
  EXPECT_EQ(done[0].finish, FinishReason::kLength);
  EXPECT_EQ(done[1].finish, FinishReason::kStop);
  EXPECT_EQ(done[1].ids.size(), 2u);
  EXPECT_EQ(done[2].finish, FinishReason::kCancelled);
}

// The same search without a cache: over the formula.
std::vector<BeamSearch::Answer> SearchTruth(const FakeExecutor& executor,
                                            const Request& r) {
  BeamSearch search(r.beams, r.stop_ids, r.max_new_tokens);
  while (true) {
    for (int b = 0; b < search.num_live(); ++b) {
      Ids all = r.prompt;
      TokenHistory history(kVocab, kVocab);
      for (const int32_t id : all) history.AddPrompt(id);
      for (const int32_t id : search.ids(b)) {
        all.push_back(id);
        history.AddAnswer(id);
      }
      std::vector<float> row = executor.LogitsAfter(all);
      LogSoftmax(row.data(), kVocab, row.data());
      const auto length = static_cast<int64_t>(search.ids(b).size());
      EditLogits(r.edits, history,
                 length < r.min_new_tokens ? r.stop_ids : Ids(), row.data());
      search.AddRow(b, row.data(), kVocab);
    }
    if (search.Advance().empty()) return search.answers();
  }
}

TEST(Generation, BeamsSeeTheirOwnTokensAndNoOthers) {
  for (int i = 0; i < 24; ++i) {
    Request r;
    r.prompt = Prompt(1 + (5 * i) % 17, i);
    r.max_new_tokens = 2 + (7 * i) % 19;
    r.beams.width = 2 + i % 2;
    r.beams.length_penalty = 0.5f * static_cast<float>(i % 5 - 1);
    r.beams.stop = static_cast<BeamParams::Stop>(i % 3);
    if (i % 4 == 1) r.edits.repetition_penalty = 1.7f;
    r.min_new_tokens = i % 3;
    r.n = 2;
    for (int32_t id = i % 40; id < 131; id += 40) r.stop_ids.push_back(id);
    // Steps of few tokens bring the beams' rows apart.
    for (const int64_t step_tokens : {2, 7}) {
      FakeExecutor executor({.limits = {3, step_tokens, 40}});
      const std::vector<Completion> done = RunAll(executor, {r, r});
      const auto truth = SearchTruth(executor, r);
      for (int a = 0; a < 4; ++a) {
        EXPECT_EQ(done[a].ids, truth[a % 2].ids) << i;
        EXPECT_EQ(done[a].score, truth[a % 2].score) << i;
        EXPECT_EQ(done[a].finish == FinishReason::kStop, truth[a % 2].stopped);
      }
    }
  }
}

TEST(Generation, AFailedBeamEndsItsSearchAlone) {
  FakeExecutor executor({.limits = {4, 9, 40}, .num_blocks = 40});
  executor.edit = [](const Ids& ids, float* row) {
    if (ids.size() == 7 && ids[0] == 1) row[0] = std::nanf("");
  };
  Request beams = {.prompt = {1, 2, 3}, .max_new_tokens = 9};
  beams.beams.width = 3;
  beams.n = 2;
  const Request other = {.prompt = {4, 5}, .max_new_tokens = 9};
  const std::vector<Completion> done = RunAll(executor, {beams, other, beams});
  ASSERT_EQ(done.size(), 5u);
  for (const int failed : {0, 1, 3, 4}) {
    EXPECT_EQ(done[failed].finish, FinishReason::kError);
    DS_EXPECT_ERROR(done[failed].error, kInternal, "position 6: the logits");
  }
  EXPECT_EQ(done[2].ids, RunAlone(other)[0].ids);
}

TEST(Generation, AFailedPromptFailsAllItsAnswers) {
  FakeExecutor executor;
  executor.edit = [](const Ids& ids, float* row) {
    if (ids[0] == 1) row[5] = std::numeric_limits<float>::infinity();
  };
  Request r = {.prompt = {1, 2, 3}, .max_new_tokens = 9};
  r.sampling.greedy = false;
  r.n = 5;
  const Request other = {.prompt = {4, 5}, .max_new_tokens = 9};
  const std::vector<Completion> done = RunAll(executor, {r, other});
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(done[i].finish, FinishReason::kError) << i;
  }
  EXPECT_EQ(done[5].ids, RunAlone(other)[0].ids);
}

TEST(Generation, WhenEverythingIsForbiddenTheAnswerFails) {
  Request r = {.prompt = {1, 2, 3}, .max_new_tokens = 4};
  for (int32_t id = 0; id < 131; ++id) {
    r.edits.bias.push_back({id, -std::numeric_limits<float>::infinity()});
  }
  DS_EXPECT_ERROR(RunAlone(r)[0].error, kInvalidArgument,
                  "leave no token to choose");
  r.beams.width = 2;
  DS_EXPECT_ERROR(RunAlone(r)[0].error, kInvalidArgument,
                  "beam search ended with 0 answers of the 1 asked for");
}

TEST(Generation, RefusesWhatDoesNotGoTogether) {
  FakeExecutor executor;
  auto engine = Engine::Create(&executor, nullptr);
  const auto refuses = [&](const Request& r, absl::string_view part) {
    DS_EXPECT_ERROR(engine->Generate({r}), kInvalidArgument, part);
    EXPECT_EQ(executor.steps, 0);
  };
  const Request good = {.prompt = {1}, .max_new_tokens = 4};
  Request r = good;
  r.min_new_tokens = 5;
  refuses(r, "min_new_tokens is 5; 0 to max_new_tokens = 4 are allowed");
  r = good;
  r.n = 0;
  refuses(r, "n is 0");
  r = good;
  r.logprobs = 132;
  refuses(r, "logprobs is 132; 0 to 131 are allowed");
  r = good;
  r.sampling = {.greedy = false, .min_p = 1.5f};
  refuses(r, "min-p is 1.5");
  r.sampling = {.greedy = false, .typical_p = 0};
  refuses(r, "typical-p is 0");
  r = good;
  r.edits.bias = {{131, 1}};
  refuses(r, "logit bias of id 131");
  r = good;
  r.beams.width = 0;
  refuses(r, "beam width is 0");
  r.beams.width = 4;
  refuses(r, "4 beams need as many sequences at once; at most 3 run together");
  r.beams.width = 3;
  r.n = 4;
  refuses(r, "4 answers of 3 beams");
  r.n = 1;
  r.logprobs = 0;
  refuses(r, "a score and no logprobs");
  r.logprobs = -1;
  r.sampling.greedy = false;
  refuses(r, "beam search of 3 beams takes no sampling");
  FakeExecutor small({.limits = {3, 7, 40}, .num_blocks = 11});
  r = {.prompt = Prompt(9, 1), .max_new_tokens = 11};
  r.beams.width = 3;
  // Two full blocks of the prompt once, three more of each.
  DS_ASSERT_OK(Engine::Create(&small, nullptr)->Generate({r}));
  r.max_new_tokens = 12;
  DS_ASSERT_OK(Engine::Create(&small, nullptr)->Generate({r}));
  r.max_new_tokens = 13;
  DS_EXPECT_ERROR(Engine::Create(&small, nullptr)->Generate({r}),
                  kInvalidArgument,
                  "3 beams of 21 tokens take 14 cache blocks of 4 tokens; the "
                  "cache has 11");
}

}  // namespace
}  // namespace deepslice
