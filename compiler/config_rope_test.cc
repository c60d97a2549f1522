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
  return DescribeRope(value, 10000, head_dim, 128);
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
  for (const char* kind : {"dynamic", "longrope", "su", "mrope"}) {
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
