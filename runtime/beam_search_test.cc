#include "runtime/beam_search.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace deepslice {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// Runs a search over a model whose rows depend on the last token alone; row 0
// is the prompt's, row 1 + id follows id.
std::vector<BeamSearch::Answer> Search(
    const BeamParams& params, const std::vector<int32_t>& stops, int64_t most,
    const std::vector<std::vector<float>>& rows) {
  BeamSearch search(params, stops, most);
  while (true) {
    for (int b = 0; b < search.num_live(); ++b) {
      const auto ids = search.ids(b);
      const auto& row = rows[ids.empty() ? 0 : 1 + ids.back()];
      search.AddRow(b, row.data(), static_cast<int64_t>(row.size()));
    }
    if (search.Advance().empty()) return search.answers();
  }
}

float L(double p) { return static_cast<float>(std::log(p)); }

// Of three tokens: greedy takes 0 at first, and the best pair begins with 1.
const std::vector<std::vector<float>> kTrap = {{L(0.6), L(0.4), kNever},
                                               {L(0.5), L(0.3), L(0.2)},
                                               {L(0.05), L(0.9), L(0.05)},
                                               {L(0.4), L(0.3), L(0.3)}};

TEST(BeamSearch, FindsWhatGreedyMisses) {
  const auto got = Search({.width = 2}, {}, 2, kTrap);
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(got[0].ids, (std::vector<int32_t>{1, 1}));
  EXPECT_FALSE(got[0].stopped);
  EXPECT_NEAR(got[0].score, std::log(0.4 * 0.9) / 2, 1e-6);
  EXPECT_EQ(got[1].ids, (std::vector<int32_t>{0, 0}));
}

TEST(BeamSearch, DividesByTheLengthWithTheStopIdCounted) {
  for (const float penalty : {0.0f, 1.0f, 2.0f}) {
    const auto got =
        Search({.width = 2, .length_penalty = penalty}, {2}, 3, kTrap);
    for (const auto& a : got) {
      const auto length = static_cast<double>(a.ids.size() + a.stopped);
      double sum = 0;
      int32_t last = -1;
      std::vector<int32_t> all = a.ids;
      if (a.stopped) all.push_back(2);
      for (const int32_t id : all) {
        sum += kTrap[1 + last][id];
        last = id;
      }
      EXPECT_NEAR(a.score, sum / std::pow(length, penalty), 1e-5) << penalty;
    }
  }
}

// The stop id is likely at once, and what goes on stays likely for long.
const std::vector<std::vector<float>> kStay = {{L(0.5), L(0.26), L(0.24)},
                                               {L(0.97), L(0.02), L(0.01)},
                                               {L(0.3), L(0.3), L(0.4)},
                                               {L(0.3), L(0.3), L(0.4)}};

TEST(BeamSearch, StopsByItsRule) {
  const auto lengths = [](BeamParams::Stop stop, float penalty) {
    std::vector<size_t> out;
    for (const auto& a :
         Search({.width = 2, .length_penalty = penalty, .stop = stop}, {2, 1},
                30, kStay)) {
      out.push_back(a.ids.size());
    }
    return out;
  };
  // Two ends (by 1 and by 2) in the first rounds are enough.
  EXPECT_LE(lengths(BeamParams::Stop::kAtOnce, 1)[0], 2u);
  // A mean over 30 tokens beats them, so that only `never` waits for it.
  EXPECT_EQ(lengths(BeamParams::Stop::kNever, 1)[0], 30u);
}

TEST(BeamSearch, ForbiddenTokensAreNeverTaken) {
  const std::vector<std::vector<float>> rows(
      4, {kNever, 0.0f, kNever});  // one way on
  const auto got = Search({.width = 3}, {}, 4, rows);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].ids, (std::vector<int32_t>{1, 1, 1, 1}));
  const std::vector<std::vector<float>> none(4, {kNever, kNever, kNever});
  EXPECT_TRUE(Search({.width = 2}, {}, 4, none).empty());
}

}  // namespace
}  // namespace deepslice
