#include "compiler/policy.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

absl::StatusOr<std::string> Match(absl::string_view config) {
  DS_ASSIGN_OR_RETURN(const json::Value value, json::Parse(config));
  DS_ASSIGN_OR_RETURN(const Policy* policy, MatchPolicy(value));
  return policy->name;
}

TEST(AllPolicies, AreSortedAndNameWhatTheyMatch) {
  const std::vector<Policy>& policies = AllPolicies();
  ASSERT_GE(policies.size(), 26u);
  EXPECT_TRUE(std::is_sorted(
      policies.begin(), policies.end(),
      [](const Policy& a, const Policy& b) { return a.name < b.name; }));
  for (const Policy& p : policies) {
    EXPECT_FALSE(p.architectures.empty()) << p.name;
    EXPECT_FALSE(p.model_types.empty()) << p.name;
    // The head's rule reads the embedding's.
    const auto at = [&](absl::string_view slot) {
      return std::find_if(
          p.weights.begin(), p.weights.end(),
          [&](const WeightPattern& w) { return w.slots[0]->name == slot; });
    };
    ASSERT_NE(at("embed"), p.weights.end()) << p.name;
    if (p.name == "clip") continue;  // gives no tokens
    ASSERT_NE(at("head"), p.weights.end()) << p.name;
    EXPECT_LT(at("embed"), at("head")) << p.name;
  }
}

TEST(MatchPolicy, GoesByArchitecturesThenByModelType) {
  EXPECT_EQ(*Match(R"({"architectures": ["Qwen2ForCausalLM"]})"), "qwen2");
  EXPECT_EQ(*Match(R"({"model_type": "gpt2"})"), "gpt2");
  EXPECT_EQ(*Match(R"({"architectures": null, "model_type": "mistral"})"),
            "mistral");
  EXPECT_EQ(*Match(R"({"architectures": ["LlamaForCausalLM", "LlamaModel"]})"),
            "llama");
}

TEST(MatchPolicy, NamesTheNearestAndSaysWhereTheSupportedAre) {
  DS_EXPECT_ERROR(Match(R"({"architectures": ["Qwen33ForCausalLM"]})"),
                  kUnimplemented,
                  "architectures: found \"Qwen33ForCausalLM\"; allowed: ");
  DS_EXPECT_ERROR(Match(R"({"architectures": ["Qwen33ForCausalLM"]})"),
                  kUnimplemented,
                  " families, which `dscompile families` lists; the nearest is "
                  "Qwen3ForCausalLM");
  // By the stem: all have an ending in common.
  for (const char* unlike :
       {"WhisperModel", "MyForCausalLM", "SunflowerForCausalLM", "Model", ""}) {
    DS_EXPECT_ERROR(
        Match(absl::StrCat(R"({"architectures": [")", unlike, R"("]})")),
        kUnimplemented, "lists; nothing else is supported");
  }
  DS_EXPECT_ERROR(Match(R"({"architectures": ["Phi4Model"]})"), kUnimplemented,
                  "the nearest is PhiModel");
  DS_EXPECT_ERROR(Match(R"({"architectures": ["GPT2ForCausalLM"]})"),
                  kUnimplemented, "the nearest is GPT2LMHeadModel");
  DS_EXPECT_ERROR(Match(R"({"model_type": "lama"})"), kUnimplemented,
                  "model_type: found \"lama\"; allowed: ");
  DS_EXPECT_ERROR(Match(R"({"model_type": "lama"})"), kUnimplemented,
                  "; the nearest is llama");
}

TEST(MatchPolicy, RefusesContradictions) {
  DS_EXPECT_ERROR(
      Match(R"({"architectures": ["LlamaForCausalLM"],
                "model_type": "qwen2"})"),
      kInvalidArgument,
      "model_type: found \"qwen2\"; allowed: \"llama\", as architectures says "
      "LlamaForCausalLM");
  DS_EXPECT_ERROR(
      Match(R"({"architectures": ["LlamaForCausalLM", "GPT2Model"]})"),
      kInvalidArgument, "allowed: architectures of one family");
  DS_EXPECT_ERROR(Match("{}"), kInvalidArgument, "both absent");
  DS_EXPECT_ERROR(Match(R"({"architectures": []})"), kInvalidArgument,
                  "a list of at least one name");
  DS_EXPECT_ERROR(Match(R"({"architectures": [3]})"), kInvalidArgument,
                  "a list of strings");
  DS_EXPECT_ERROR(Match(R"({"architectures": ["LlamaModel"],
                            "model_type": 3})"),
                  kInvalidArgument, "model_type: found 3; allowed: a string");
}

TEST(NamePattern, MatchesOneLayerOrOneName) {
  const NamePattern layer("{prefix}layers.{i}.norm", "model.");
  EXPECT_EQ(layer.Name(12), "model.layers.12.norm");
  EXPECT_EQ(layer.Match("model.layers.12.norm"), 12);
  EXPECT_EQ(layer.Match("model.layers.0.norm"), 0);
  for (const char* other :
       {"model.layers..norm", "model.layers.1a.norm", "model.layers.012.norm",
        "model.layers.-1.norm", "layers.1.norm", "model.layers.1.norm2",
        "model.layers.99999999999999999999.norm"}) {
    EXPECT_EQ(layer.Match(other), -1) << other;
  }
  const NamePattern one("{prefix}norm.weight", "");
  EXPECT_EQ(one.Name(3), "norm.weight");
  EXPECT_EQ(one.Match("norm.weight"), 0);
  EXPECT_EQ(one.Match("model.norm.weight"), -1);
}

TEST(ExpandChoices, GivesEveryNameTheFirstChoicesFirst) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(*ExpandChoices("{prefix}layers.{i}.n.{h}"),
            (Names{"{prefix}layers.{i}.n.{h}"}));
  EXPECT_EQ(
      *ExpandChoices("{a|b.c|}x{i}{y|z}"),
      (Names{"ax{i}y", "ax{i}z", "b.cx{i}y", "b.cx{i}z", "x{i}y", "x{i}z"}));
  EXPECT_EQ(*ExpandChoices(""), (Names{""}));
  for (const char* unpaired : {"a{b|c", "a}b", "{a|b}}", "}{"}) {
    DS_EXPECT_ERROR(ExpandChoices(unpaired), kInvalidArgument,
                    "allowed: braces in pairs");
  }
  DS_EXPECT_ERROR(ExpandChoices("{layer}.x"), kInvalidArgument,
                  "\"{layer}.x\": allowed: {prefix}, {i}, {h} and {one|other}");
  DS_EXPECT_ERROR(ExpandChoices("{a|{i}}"), kInvalidArgument,
                  "allowed: no braces inside braces");
  EXPECT_EQ(ExpandChoices("{a|b}{a|b}{a|b}{a|b}{a|b}{a|b}")->size(), 64u);
  DS_EXPECT_ERROR(ExpandChoices("{a|b}{a|b}{a|b}{a|b}{a|b}{a|b}{a|b}"),
                  kInvalidArgument, "allowed: at most 64 names");
}

TEST(ParsePolicy, NamesWhatIsWrong) {
  const auto expect = [](const std::string& weights, const char* part) {
    DS_EXPECT_ERROR(
        ParsePolicy(R"({"policy": "p", "architectures": [], "model_types": [],
                        "prefixes": [], "unused": [], "attributes": {},
                        "weights": [)" +
                        weights + "]}",
                    "p.json"),
        kInvalidArgument, part);
  };
  expect(R"({"name": "a", "weight": "attn_r"})",
         "policies/p.json: weight: found \"attn_r\"; allowed: embed, ");
  expect(R"({"name": "a", "weight": "attn_q"})", "allowed: {i} where");
  expect(R"({"name": "a.{i}", "weight": "embed"})", "allowed: {i} where");
  expect(R"({"name": "a", "weight": "embed", "when": "flag"})",
         "when: found \"flag\"");
  expect(R"({"name": "a.{i}", "weights": ["attn_q", "attn_k"]})",
         "layout: absent");
  expect(R"({"name": "a.{i}", "weight": "attn_q", "layout": "thirds"})",
         "layout: found \"thirds\"");
  expect(R"({"weight": "embed"})", "a name and a weight");
  expect(R"({"name": "{j}.a", "weight": "embed"})", "\"{j}.a\": allowed: ");
  expect(R"({"name": "a.{i}", "weights": ["attn_q", "attn_k", "attn_v"],
             "layout": "qkv_layout"})",
         "attributes.qkv_layout: absent");
  DS_EXPECT_ERROR(ParsePolicy(R"({"policy": "p", "weight": []})", "p.json"),
                  kInvalidArgument, "found key \"weight\"; allowed: policy, ");
  DS_EXPECT_ERROR(ParsePolicy("{", "p.json"), kInvalidArgument,
                  "policies/p.json: ");
}

TEST(ParsePolicy, TakesNamesOfItsWeightsAsPrecise) {
  const auto parse = [](const char* precise) {
    return ParsePolicy(
        absl::StrCat(R"({"policy": "p", "architectures": [], "model_types": [],
                         "prefixes": [], "unused": [], "attributes": {},
                         "weights": [{"name": "a", "weight": "embed"}],
                         "precise": )",
                     precise, "}"),
        "p.json");
  };
  DS_ASSERT_OK_AND_ASSIGN(const Policy p, parse(R"(["embed"])"));
  EXPECT_EQ(p.precise, std::vector<std::string>{"embed"});
  DS_EXPECT_ERROR(parse(R"(["head"])"), kInvalidArgument,
                  "precise: found [\"head\"]; allowed: names of the policy's");
  DS_EXPECT_ERROR(parse("3"), kInvalidArgument, "precise");
}

}  // namespace
}  // namespace deepslice
