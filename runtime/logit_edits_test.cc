#include "runtime/logit_edits.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"
#include "runtime/token_logprobs.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(LogitEdits, PenaltiesThenBiasThenBans) {
  TokenHistory history(6, 6);
  history.AddPrompt(1);
  history.AddPrompt(2);
  history.AddAnswer(2);
  history.AddAnswer(3);
  history.AddAnswer(3);
  std::vector<float> row = {2, 2, 2, -2, -2, 0};
  const LogitEdits edits = {.repetition_penalty = 2,
                            .frequency_penalty = 0.25f,
                            .presence_penalty = 0.5f,
                            .bias = {{1, 10}, {5, -kInfinity}}};
  EditLogits(edits, history, {4}, row.data());
  // 1: of the prompt only. 2: 2 / 2 - 0.25 - 0.5. 3: -2 * 2 - 2 * 0.25 - 0.5.
  EXPECT_EQ(row,
            (std::vector<float>{2, 11, 0.25f, -5, -kInfinity, -kInfinity}));
}

TEST(LogitEdits, AHistoryCanBeUsedAgain) {
  TokenHistory history(4, 4);
  history.AddAnswer(3);
  history.AddAnswer(1);
  history.AddAnswer(3);
  ASSERT_EQ(history.entries().size(), 2u);
  EXPECT_EQ(history.entries()[0].id, 3);
  EXPECT_EQ(history.entries()[0].count, 2);
  history.Clear();
  EXPECT_TRUE(history.entries().empty());
  history.AddPrompt(1);
  EXPECT_EQ(history.entries()[0].count, 0);
}

TEST(LogitEdits, RefusesWhatIsNoNumberOrNoId) {
  const auto refuses = [](const LogitEdits& edits, absl::string_view part) {
    DS_EXPECT_ERROR(CheckLogitEdits(edits, 100), kInvalidArgument, part);
  };
  DS_ASSERT_OK(CheckLogitEdits({.bias = {{99, -kInfinity}}}, 100));
  refuses({.repetition_penalty = 0}, "repetition penalty is 0; it must be");
  refuses({.repetition_penalty = kInfinity}, "repetition penalty is inf");
  refuses({.frequency_penalty = std::nanf("")}, "frequency penalty is nan");
  refuses({.presence_penalty = kInfinity}, "presence penalty is inf");
  refuses({.bias = {{100, 1}}}, "logit bias of id 100; ids are 0 to 99");
  refuses({.bias = {{-1, 1}}}, "logit bias of id -1");
  refuses({.bias = {{5, kInfinity}}}, "logit bias of id 5 is inf");
  refuses({.bias = {{5, std::nanf("")}}}, "logit bias of id 5 is nan");
}

TEST(TokenLogprobs, AreTheLogarithmOfTheSoftmax) {
  const std::vector<float> logits = {0, std::log(2.0f), -kInfinity, 0,
                                     std::log(4.0f)};
  const TokenLogprobs got = LogprobsOf(logits.data(), 5, 2, 3);
  EXPECT_EQ(got.chosen.id, 2);
  EXPECT_EQ(got.chosen.logprob, -kInfinity);
  ASSERT_EQ(got.top.size(), 3u);
  EXPECT_EQ(got.top[0].id, 4);
  EXPECT_NEAR(got.top[0].logprob, std::log(4.0 / 8), 1e-6);
  EXPECT_EQ(got.top[1].id, 1);
  EXPECT_EQ(got.top[2].id, 0);  // a tie with 3
  EXPECT_NEAR(got.top[2].logprob, std::log(1.0 / 8), 1e-6);
  EXPECT_EQ(LogprobsOf(logits.data(), 5, 1, 99).top.size(), 5u);
  std::vector<float> all(5);
  // Far from 0, where exp alone would overflow.
  std::vector<float> far = {900, 900, 900, 900, -kInfinity};
  LogSoftmax(far.data(), 5, all.data());
  EXPECT_NEAR(all[1], std::log(0.25), 1e-6);
  EXPECT_EQ(all[4], -kInfinity);
}

}  // namespace
}  // namespace deepslice
