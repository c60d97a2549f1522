#include "runtime/generation_choice.h"

#include <limits>

#include "gtest/gtest.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

GenerationChoice Of(absl::string_view json) {
  const auto object = json::Parse(json);
  EXPECT_TRUE(object.ok()) << object.status();
  auto choice = ReadChoice(*object, {"prompt"});
  EXPECT_TRUE(choice.ok()) << choice.status();
  return choice.value_or(GenerationChoice());
}

// A plan whose generation_config.json said `d`, in memory of its own.
struct PlanWith {
  explicit PlanWith(const fb::GenerationDefaultsT& d) {
    fb::PlanT plan;
    plan.plan_set_id = plan.family = "x";
    plan.vocab_size = 100;
    plan.generation = std::make_unique<fb::GenerationDefaultsT>(d);
    builder.Finish(fb::Plan::Pack(builder, &plan));
  }
  const fb::Plan& fb() const {
    return *flatbuffers::GetRoot<fb::Plan>(builder.GetBufferPointer());
  }
  flatbuffers::FlatBufferBuilder builder;
};

Request Resolved(const std::string& request, const std::string& line,
                 const fb::GenerationDefaultsT& defaults) {
  const PlanWith plan(defaults);
  GenerationChoice c = Of(request);
  c.FillFrom(Of(line));
  c.FillFrom(ChoiceOf(plan.fb().generation()));
  auto r = RequestOf(plan.fb(), c);
  EXPECT_TRUE(r.ok()) << r.status();
  return r.value_or(Request());
}

TEST(GenerationChoice, RequestOverCommandLineOverPlanOverEngine) {
  fb::GenerationDefaultsT d;
  d.do_sample = true;
  d.temperature = 0.6f;
  d.top_k = 20;
  d.repetition_penalty = 1.1f;
  d.eos_ids = {2, 7};
  d.suppress_tokens = {9};
  const Request r = Resolved(R"({"top_k": 5, "stop_token_ids": [4]})",
                             R"({"top_k": 6, "temperature": 0.9})", d);
  EXPECT_FALSE(r.sampling.greedy);
  EXPECT_EQ(r.sampling.top_k, 5);
  EXPECT_EQ(r.sampling.temperature, 0.9f);
  EXPECT_EQ(r.edits.repetition_penalty, 1.1f);
  EXPECT_EQ(r.sampling.top_p, 1.0f);
  EXPECT_EQ(r.stop_ids, (std::vector<int32_t>{2, 7, 4}));
  ASSERT_EQ(r.edits.bias.size(), 1u);
  EXPECT_EQ(r.edits.bias[0].id, 9);
  EXPECT_EQ(r.edits.bias[0].bias, -std::numeric_limits<float>::infinity());
  EXPECT_EQ(Resolved(R"({"ignore_eos": true})", "{}", d).stop_ids.size(), 0u);
}

TEST(GenerationChoice, WhoSpeaksFirstOfSamplingDecidesIt) {
  fb::GenerationDefaultsT plain, samples;
  samples.do_sample = true;
  plain.temperature = samples.temperature = 0.6f;
  const auto greedy = [&](const char* request, const char* line,
                          const fb::GenerationDefaultsT& d) {
    return Resolved(request, line, d).sampling.greedy;
  };
  // A temperature in a file that does not sample stays without effect.
  EXPECT_TRUE(greedy("{}", "{}", plain));
  EXPECT_FALSE(greedy("{}", "{}", samples));
  EXPECT_TRUE(greedy("{}", R"({"do_sample": false})", samples));
  EXPECT_TRUE(greedy("{}", R"({"temperature": 0})", samples));
  EXPECT_FALSE(greedy("{}", R"({"top_p": 0.9})", plain));
  EXPECT_FALSE(greedy("{}", R"({"min_p": 0.1})", plain));
  EXPECT_TRUE(greedy("{}", R"({"seed": 3})", plain));
  EXPECT_FALSE(
      greedy(R"({"temperature": 0.5})", R"({"do_sample": false})", plain));
  EXPECT_TRUE(
      greedy(R"({"temperature": 0})", R"({"temperature": 1})", samples));
  EXPECT_EQ(Resolved("{}", R"({"top_k": 3})", plain).sampling.temperature,
            0.6f);
}

TEST(GenerationChoice, BeamsAndSamplingOverruleEachOtherBySource) {
  fb::GenerationDefaultsT samples, beams;
  samples.do_sample = true;
  beams.num_beams = 4;
  beams.early_stopping = 2;
  Request r = Resolved("{}", R"({"num_beams": 3})", samples);
  EXPECT_EQ(r.beams.width, 3);
  EXPECT_TRUE(r.sampling.greedy);
  r = Resolved("{}", "{}", beams);
  EXPECT_EQ(r.beams.width, 4);
  EXPECT_EQ(r.beams.stop, BeamParams::Stop::kNever);
  r = Resolved("{}", R"({"temperature": 0.7})", beams);
  EXPECT_EQ(r.beams.width, 1);
  EXPECT_FALSE(r.sampling.greedy);
  EXPECT_EQ(WidthOf(Of(R"({"num_beams": 5, "n": 2})")), 5);
  EXPECT_EQ(WidthOf(Of(R"({"n": 2})")), 2);
}

TEST(GenerationChoice, ReadsEveryFieldUnderItsNames) {
  const GenerationChoice c = Of(R"({
    "prompt": "x", "do_sample": true, "temperature": 0.5, "top_p": 0.9,
    "min_p": 0.1, "typical_p": 0.8, "top_k": 7, "seed": 12,
    "repetition_penalty": 1.2, "presence_penalty": 0.3,
    "frequency_penalty": -0.4, "logit_bias": {"5": 2, "6": -1.5},
    "suppress_tokens": [1], "max_tokens": 9, "min_tokens": 2,
    "stop": "a", "stop_token_ids": [3], "ignore_eos": true, "n": 2,
    "logprobs": 4, "beam_width": 1, "length_penalty": 0.5,
    "early_stopping": "never"})");
  EXPECT_EQ(c.sample, true);
  EXPECT_EQ(c.temperature, 0.5f);
  EXPECT_EQ(c.typical_p, 0.8f);
  EXPECT_EQ(c.seed, 12u);
  ASSERT_EQ(c.logit_bias->size(), 2u);
  EXPECT_EQ((*c.logit_bias)[1].bias, -1.5f);
  EXPECT_EQ(c.max_new_tokens, 9);
  EXPECT_EQ(*c.stop, (std::vector<std::string>{"a"}));
  EXPECT_EQ(*c.stop_ids, (std::vector<int32_t>{3}));
  EXPECT_EQ(c.logprobs, 4);
  EXPECT_EQ(c.early_stopping, BeamParams::Stop::kNever);
  EXPECT_EQ(Of(R"({"stop": ["a", "b"]})").stop->size(), 2u);
  EXPECT_FALSE(Of(R"({"top_k": null})").top_k.has_value());
}

TEST(GenerationChoice, RefusesWithTheKey) {
  const auto refuses = [](absl::string_view json, absl::string_view part) {
    DS_EXPECT_ERROR(ReadChoice(*json::Parse(json), {"prompt"}),
                    kInvalidArgument, part);
  };
  refuses("[1]", "found an array; an object is needed");
  refuses(R"({"temprature": 1})",
          "\"temprature\" is no field of a request; did you mean "
          "\"temperature\"?");
  refuses(R"({"temperature": "hot"})",
          "\"temperature\": found a string; a number is needed");
  refuses(R"({"top_k": 1.5})", "\"top_k\": found a number; a whole number");
  refuses(R"({"top_k": -1})", "\"top_k\": found -1; 0 to 2147483647");
  refuses(R"({"n": 9999999999})", "\"n\": found 9999999999");
  refuses(R"({"max_tokens": 1, "max_new_tokens": 2})",
          "\"max_new_tokens\" is another name of a field that is there");
  refuses(R"({"logit_bias": {"x": 1}})", "\"x\" is no token id");
  refuses(R"({"stop": ""})", "an empty string stops nothing");
  refuses(R"({"stop": [3]})", "\"stop\": found an integer");
  refuses(R"({"early_stopping": 1})", "true, false or \"never\" is needed");
  const PlanWith plan({});
  DS_EXPECT_ERROR(RequestOf(plan.fb(), Of(R"({"beams": 2, "stop": "x"})")),
                  kInvalidArgument, "2 beams takes no stop strings");
}

}  // namespace
}  // namespace deepslice
