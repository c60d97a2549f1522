#include "compiler/config_rope.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

using Arguments = std::vector<std::pair<std::string, double>>;

// Head of 10, 128 positions, a family whose theta is 10000.
absl::StatusOr<RopeAttributes> Describe(absl::string_view config,
                                        int64_t head_dim = 10) {
  DS_ASSIGN_OR_RETURN(const json::Value value,
                      json::Parse(config, {.allow_nan_and_infinity = true}));
  DS_ASSIGN_OR_RETURN(RopeSets sets, DescribeRope(value, {}, head_dim, 128));
  EXPECT_FALSE(sets.local.has_value());
  return std::move(sets.all);
}

void Expect(absl::string_view config, absl::string_view formula,
            const Arguments& arguments, double scale = 1) {
  SCOPED_TRACE(std::string(config));
  DS_ASSERT_OK_AND_ASSIGN(const RopeAttributes rope, Describe(config));
  EXPECT_EQ(rope.formula, formula);
  EXPECT_EQ(rope.arguments, arguments);
  EXPECT_NEAR(rope.scale, scale, 1e-15);
}

TEST(DescribeRope, ReadsBothSpellingsOfEveryKind) {
  const Arguments plain = {{"base", 10000}, {"rotary_dim", 10}};
  Expect("{}", "rope_freqs", plain);
  Expect(R"({"rope_scaling": null})", "rope_freqs", plain);
  Expect(R"({"rope_scaling": {}, "rope_theta": 10000})", "rope_freqs", plain);
  Expect(R"({"rope_parameters": {"rope_type": "default",
             "rope_theta": 500000}})",
         "rope_freqs", {{"base", 500000}, {"rotary_dim", 10}});

  const Arguments linear = {{"base", 10000}, {"rotary_dim", 10}, {"factor", 2}};
  Expect(R"({"rope_scaling": {"type": "linear", "factor": 2}})",
         "rope_freqs_linear", linear);
  Expect(R"({"rope_parameters": {"rope_type": "linear", "factor": 2.0}})",
         "rope_freqs_linear", linear);
  Expect(R"({"rope_scaling": {"type": "linear", "rope_type": "linear",
             "factor": 2}})",
         "rope_freqs_linear", linear);

  const Arguments llama3 = {
      {"base", 500000},        {"rotary_dim", 10},
      {"factor", 8},           {"low_freq_factor", 1},
      {"high_freq_factor", 4}, {"original_positions", 32}};
  Expect(R"({"rope_theta": 500000, "rope_scaling": {"rope_type": "llama3",
             "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
             "original_max_position_embeddings": 32}})",
         "rope_freqs_llama3", llama3);
  Expect(R"({"original_max_position_embeddings": 32, "rope_parameters":
             {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0,
              "low_freq_factor": 1.0, "high_freq_factor": 4.0}})",
         "rope_freqs_llama3", llama3);
}

TEST(DescribeRope, DerivesYarnAsPublished) {
  const Arguments arguments = {{"base", 10000},  {"rotary_dim", 10},
                               {"factor", 4},    {"beta_fast", 32},
                               {"beta_slow", 1}, {"original_positions", 32},
                               {"truncate", 1}};
  // 0.1 ln 4 + 1.
  const double scale = 1.138629436111989;
  Expect(R"({"rope_scaling": {"type": "yarn", "factor": 4,
             "original_max_position_embeddings": 32}})",
         "rope_freqs_yarn", arguments, scale);
  // Without a factor it is the ratio of the two lengths.
  Expect(R"({"rope_scaling": {"type": "yarn", "factor": null,
             "original_max_position_embeddings": 32}})",
         "rope_freqs_yarn", arguments, scale);
  Expect(R"({"rope_scaling": {"type": "yarn", "factor": 4,
             "attention_factor": 0.75,
             "original_max_position_embeddings": 32}})",
         "rope_freqs_yarn", arguments, 0.75);
  // attention_scaling of transformers 5.24.
  Expect(R"({"rope_parameters": {"rope_type": "yarn", "factor": 40,
             "mscale": 0.9, "mscale_all_dim": 0.7, "beta_fast": 16,
             "beta_slow": 2, "truncate": false,
             "original_max_position_embeddings": 4096}})",
         "rope_freqs_yarn",
         {{"base", 10000},
          {"rotary_dim", 10},
          {"factor", 40},
          {"beta_fast", 16},
          {"beta_slow", 2},
          {"original_positions", 4096},
          {"truncate", 0}},
         1.0586364050044081);
}

TEST(DescribeRope, TurnsAPartOfTheHead) {
  DS_ASSERT_OK_AND_ASSIGN(const RopeAttributes rope,
                          Describe(R"({"partial_rotary_factor": 0.4})"));
  EXPECT_EQ(rope.rotary_dim, 4);
  DS_EXPECT_ERROR(Describe(R"({"partial_rotary_factor": 0.5})"),
                  kInvalidArgument, "found 5 rotary elements of a head of 10");
  DS_EXPECT_ERROR(Describe(R"({"rope_parameters": {"partial_rotary_factor":
                               1.5}})"),
                  kInvalidArgument,
                  "rope_parameters.partial_rotary_factor: found 1.5");
  DS_EXPECT_ERROR(Describe("{}", 9), kInvalidArgument,
                  "head_dim: found 9 rotary elements");
}

TEST(DescribeRope, FallsBackToTheFamily) {
  RopeDefaults defaults;
  defaults.theta = 500;
  defaults.rotary_factor = 0.4;
  const auto describe = [&](absl::string_view config) {
    const absl::StatusOr<RopeSets> sets =
        DescribeRope(*json::Parse(config), defaults, 10, 128);
    EXPECT_TRUE(sets.ok()) << sets.status();
    return sets->all.arguments;
  };
  EXPECT_EQ(describe("{}"), (Arguments{{"base", 500}, {"rotary_dim", 4}}));
  EXPECT_EQ(describe(R"({"rope_theta": 7, "partial_rotary_factor": 0.8})"),
            (Arguments{{"base", 7}, {"rotary_dim", 8}}));
  defaults.rotary_dim = 6;
  EXPECT_EQ(describe("{}"), (Arguments{{"base", 500}, {"rotary_dim", 6}}));
  defaults.rotary_dim = 12;
  DS_EXPECT_ERROR(DescribeRope(*json::Parse("{}"), defaults, 10, 128),
                  kInvalidArgument,
                  "rotary_dim: found 12 rotary elements of a head of 10");
  defaults.rotary_dim = 0;
  defaults.original_positions = 32;
  EXPECT_EQ(describe(R"({"rope_scaling": {"type": "llama3", "factor": 8,
                         "low_freq_factor": 1, "high_freq_factor": 4}})"),
            (Arguments{{"base", 500},
                       {"rotary_dim", 4},
                       {"factor", 8},
                       {"low_freq_factor", 1},
                       {"high_freq_factor", 4},
                       {"original_positions", 32}}));
}

TEST(DescribeRope, GivesLayersWithAWindowTheirOwnSet) {
  RopeDefaults defaults;
  defaults.theta = 1e6;
  defaults.local_theta = 10000;
  const auto describe = [&](absl::string_view config) {
    return DescribeRope(*json::Parse(config), defaults, 10, 128);
  };
  const Arguments local = {{"base", 10000}, {"rotary_dim", 10}};
  // Gemma 3 as transformers 4 wrote it: the scaling is of the other layers.
  DS_ASSERT_OK_AND_ASSIGN(RopeSets sets,
                          describe(R"({"rope_theta": 5e5, "rope_scaling":
                                  {"rope_type": "linear", "factor": 8}})"));
  EXPECT_EQ(sets.all.formula, "rope_freqs_linear");
  EXPECT_EQ(sets.all.arguments,
            (Arguments{{"base", 5e5}, {"rotary_dim", 10}, {"factor", 8}}));
  ASSERT_TRUE(sets.local.has_value());
  EXPECT_EQ(sets.local->formula, "rope_freqs");
  EXPECT_EQ(sets.local->arguments, local);
  // And as 5 does.
  DS_ASSERT_OK_AND_ASSIGN(sets, describe(R"({"rope_parameters": {
          "full_attention": {"rope_type": "default"},
          "sliding_attention": {"rope_type": "linear", "factor": 2,
                                "rope_theta": 700}}})"));
  EXPECT_EQ(sets.all.arguments, (Arguments{{"base", 1e6}, {"rotary_dim", 10}}));
  EXPECT_EQ(sets.local->arguments,
            (Arguments{{"base", 700}, {"rotary_dim", 10}, {"factor", 2}}));
  DS_ASSERT_OK_AND_ASSIGN(sets, describe("{}"));
  EXPECT_EQ(sets.local->arguments, local);
  DS_EXPECT_ERROR(describe(R"({"rope_parameters": {"sliding_attention":
                               {"rope_type": "dynamic", "factor": 2}}})"),
                  kUnimplemented,
                  "rope_parameters.sliding_attention.rope_type: found "
                  "\"dynamic\"; allowed: default, linear, llama3, yarn for");
  DS_EXPECT_ERROR(describe(R"({"rope_parameters": {"rope_theta": 5}})"),
                  kUnimplemented,
                  "rope_parameters.rope_theta: found 5; allowed: "
                  "\"full_attention\" and");
  DS_EXPECT_ERROR(describe(R"({"rope_parameters": {"sliding_attention":
                               {"rope_type": "linear"}}})"),
                  kInvalidArgument,
                  "rope_parameters.sliding_attention.factor: absent");
}

TEST(DescribeRope, DynamicStretchesBeyondTheModelsPositions) {
  DS_ASSERT_OK_AND_ASSIGN(
      const RopeAttributes rope,
      Describe(R"({"rope_scaling": {"type": "dynamic", "factor": 2.5}})"));
  EXPECT_EQ(rope.formula, "rope_freqs");
  EXPECT_EQ(rope.arguments, (Arguments{{"base", 10000}, {"rotary_dim", 10}}));
  EXPECT_EQ(rope.ntk_factor, 2.5);
  EXPECT_EQ(rope.long_from, 128);
  // One pair turns at the same speed whatever the base.
  DS_ASSERT_OK_AND_ASSIGN(
      const RopeAttributes one,
      Describe(R"({"rope_scaling": {"type": "dynamic", "factor": 2}})", 2));
  EXPECT_EQ(one.ntk_factor, 0);
  EXPECT_EQ(one.long_from, 0);
  DS_EXPECT_ERROR(Describe(R"({"rope_scaling": {"type": "dynamic"}})"),
                  kInvalidArgument, "rope_scaling.factor: absent");
}

TEST(DescribeRope, LongropeHasAListForEachSideOfTheOriginalLength) {
  const Arguments plain = {{"base", 10000}, {"rotary_dim", 4}};
  Arguments shorter = plain, longer = plain;
  shorter.insert(shorter.end(), {{"factor_0", 1}, {"factor_1", 1.5}});
  longer.insert(longer.end(), {{"factor_0", 2}, {"factor_1", 4.25}});
  // sqrt(1 + ln 4 / ln 32): attention_scaling of transformers 5.24.
  const double scale = 1.1832159566199232;
  for (const char* kind : {"longrope", "su", "yarn"}) {
    DS_ASSERT_OK_AND_ASSIGN(
        const RopeAttributes rope,
        Describe(absl::StrCat(R"({"original_max_position_embeddings": 32,
                                  "rope_scaling": {"short_factor": [1, 1.5],
                                  "long_factor": [2, 4.25], "type": ")",
                              kind, "\"}}"),
                 4));
    EXPECT_EQ(rope.formula, "rope_freqs_factors");
    EXPECT_EQ(rope.arguments, shorter);
    EXPECT_EQ(rope.long_arguments, longer);
    EXPECT_EQ(rope.long_from, 32);
    EXPECT_NEAR(rope.scale, scale, 1e-15);
  }
  const auto expect = [](absl::string_view set, absl::string_view part) {
    DS_EXPECT_ERROR(
        Describe(absl::StrCat(R"({"rope_scaling": {"type": "longrope", )", set,
                              "}}"),
                 4),
        kInvalidArgument, part);
  };
  expect(R"("short_factor": [1, 1])", "rope_scaling.long_factor: absent");
  expect(R"("short_factor": [1], "long_factor": [1, 1])",
         "short_factor: found [1]; allowed: a list of 2 numbers");
  expect(R"("short_factor": [1, 0], "long_factor": [1, 1])",
         "short_factor[1]: found 0");
  expect(R"("short_factor": [1, 1], "long_factor": 3)",
         "long_factor: found 3; allowed: a list of 2");
}

TEST(DescribeRope, RefusesSpellingsThatDisagree) {
  const auto expect = [](absl::string_view config, absl::string_view part) {
    DS_EXPECT_ERROR(Describe(config), kInvalidArgument, part);
  };
  expect(R"({"rope_scaling": {"type": "linear", "rope_type": "yarn",
             "factor": 2}})",
         "rope_type: found \"yarn\"; allowed: the same as rope_scaling.type");
  expect(R"({"rope_theta": 10000, "rope_parameters": {"rope_theta": 5}})",
         "rope_parameters.rope_theta: found 5");
  expect(R"({"rope_scaling": {"type": "linear", "factor": 2},
             "rope_parameters": {"type": "linear", "factor": 3}})",
         "rope_parameters.factor: found 3; allowed: the same as "
         "rope_scaling.factor, 2; keep one of the two");
}

TEST(DescribeRope, NamesKindsThatAreNotSupported) {
  for (const char* kind : {"mrope", "proportional", "axial"}) {
    DS_EXPECT_ERROR(
        Describe(absl::StrCat(R"({"rope_scaling": {"factor": 2, "type": ")",
                              kind, "\"}}")),
        kUnimplemented, absl::StrCat("found \"", kind, "\""));
  }
  DS_EXPECT_ERROR(Describe(R"({"rope_scaling": {"type": "lineal"}})"),
                  kInvalidArgument, "the nearest is linear");
  DS_EXPECT_ERROR(Describe(R"({"rope_parameters": {"full_attention": {}}})"),
                  kUnimplemented, "one set of parameters for all layers");
}

TEST(DescribeRope, RefusesValuesOutOfRange) {
  const auto expect = [](absl::string_view config, absl::string_view part) {
    DS_EXPECT_ERROR(Describe(config), kInvalidArgument, part);
  };
  expect(R"({"rope_theta": 0})",
         "rope_theta: found 0; allowed: a number above");
  expect(R"({"rope_theta": NaN})", "rope_theta: found");
  expect(R"({"rope_scaling": 3})", "rope_scaling: found 3; allowed: an object");
  expect(R"({"rope_scaling": {"type": "linear"}})",
         "rope_scaling.factor: absent; allowed: a number of at least 1");
  expect(R"({"rope_scaling": {"type": "linear", "factor": "2"}})",
         "rope_scaling.factor: found \"2\"");
  expect(R"({"rope_scaling": {"type": "linear", "factor": 0.5}})",
         "at least 1");
  expect(R"({"rope_scaling": {"type": "llama3", "factor": 8,
             "low_freq_factor": 4, "high_freq_factor": 4}})",
         "high_freq_factor: found 4; allowed: above low_freq_factor");
  expect(R"({"rope_scaling": {"type": "yarn", "factor": 8, "beta_fast": 1,
             "beta_slow": 2}})",
         "beta_fast: found 1; allowed: at least beta_slow, 2");
  expect(R"({"rope_scaling": {"type": "yarn", "factor": 8, "truncate": 1}})",
         "truncate: found 1; allowed: true or false");
}

}  // namespace
}  // namespace deepslice
