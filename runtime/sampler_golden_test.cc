// The whole way from logits to a token against transformers' processors, by
// tests/golden_cases/generation/make_sampling.py.
#include <cmath>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/logit_edits.h"
#include "runtime/sampler.h"
#include "schema/base/file.h"
#include "schema/base/json.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

std::vector<int32_t> Ids(const json::Value& list) {
  std::vector<int32_t> ids;
  for (const json::Value& v : list.items()) {
    ids.push_back(static_cast<int32_t>(v.as_int()));
  }
  return ids;
}

struct Share {
  int32_t id;
  double p;
};

// Of each id that can be drawn, in the order in which a growing number gives
// them, the share of numbers: found by halving.
std::vector<Share> Shares(const std::vector<float>& row,
                          const SamplingParams& params) {
  std::vector<int32_t> scratch;
  const auto draw = [&](double u) {
    return DrawToken(row.data(), static_cast<int64_t>(row.size()), params, u,
                     &scratch)
        .value();
  };
  std::vector<Share> shares;
  double from = 0;
  while (from < 1) {
    const int32_t id = draw(from);
    double low = from, high = 1;  // draw(low) is id, draw(high) is not
    while (std::nextafter(low, 1.0) < high) {
      const double middle = low + (high - low) / 2;
      (draw(middle) == id ? low : high) = middle;
    }
    shares.push_back({id, high - from});
    from = high;
  }
  return shares;
}

TEST(Sampler, GivesTheProbabilitiesOfTransformers) {
  DS_ASSERT_OK_AND_ASSIGN(
      const std::string text,
      ReadFile(DS_GENERATION_GOLDENS "/sampling.json", 1 << 20));
  DS_ASSERT_OK_AND_ASSIGN(const json::Value cases, json::Parse(text));
  ASSERT_GT(cases.items().size(), 60u);
  int index = 0;
  for (const json::Value& c : cases.items()) {
    SCOPED_TRACE(index++);
    const auto number = [&](const char* key) {
      return static_cast<float>(c.Find(key)->as_double());
    };
    std::vector<float> row;
    for (const json::Value& v : c.Find("logits")->items()) {
      row.push_back(static_cast<float>(v.as_double()));
    }
    LogitEdits edits = {.repetition_penalty = number("repetition_penalty"),
                        .frequency_penalty = number("frequency_penalty"),
                        .presence_penalty = number("presence_penalty")};
    for (const auto& [id, bias] : c.Find("logit_bias")->members()) {
      edits.bias.push_back(
          {std::stoi(id), static_cast<float>(bias.as_double())});
    }
    TokenHistory history(static_cast<int64_t>(row.size()), 40);
    for (const int32_t id : Ids(*c.Find("prompt"))) history.AddPrompt(id);
    for (const int32_t id : Ids(*c.Find("answer"))) history.AddAnswer(id);
    EditLogits(edits, history, Ids(*c.Find("banned")), row.data());
    const SamplingParams params = {
        .greedy = false,
        .temperature = number("temperature"),
        .top_k = static_cast<int32_t>(c.Find("top_k")->as_int()),
        .top_p = number("top_p"),
        .min_p = number("min_p"),
        .typical_p = number("typical_p")};

    std::vector<double> got(row.size(), 0), want(row.size(), 0);
    for (const Share& s : Shares(row, params)) got[s.id] += s.p;
    for (const auto& [id, p] : c.Find("probabilities")->members()) {
      want[std::stoi(id)] = p.as_double();
    }
    for (size_t id = 0; id < row.size(); ++id) {
      EXPECT_NEAR(got[id], want[id], 2e-6) << "id " << id;
      // A share below the distance of two numbers near 1 can be missed.
      if (want[id] == 0 || want[id] > 1e-12) {
        EXPECT_EQ(got[id] > 0, want[id] > 0) << "id " << id;
      }
    }
  }
}

}  // namespace
}  // namespace deepslice
