#include "compiler/policy_expression.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

absl::StatusOr<ConfigValue> Evaluate(absl::string_view expression,
                                     absl::string_view config) {
  DS_ASSIGN_OR_RETURN(const json::Value e, json::Parse(expression));
  DS_ASSIGN_OR_RETURN(const json::Value c, json::Parse(config));
  DS_ASSIGN_OR_RETURN(const json::Value attributes,
                      json::Parse(R"({"hidden_size": {"key": "h"},
                                      "heads": {"key": "n"}})"));
  DS_RETURN_IF_ERROR(CheckExpression(e));
  return EvaluateExpression(e, attributes, c);
}

void Expect(absl::string_view expression, absl::string_view config,
            absl::string_view value, absl::string_view place) {
  SCOPED_TRACE(std::string(expression));
  DS_ASSERT_OK_AND_ASSIGN(const ConfigValue got, Evaluate(expression, config));
  EXPECT_EQ(json::Write(got.value), value);
  EXPECT_EQ(got.place, place);
}

TEST(EvaluateExpression, EvaluatesEachForm) {
  Expect("3", "{}", "3", "");
  Expect(R"({"key": "a.b"})", R"({"a": {"b": 5}})", "5", "a.b");
  Expect(R"({"key": "a"})", "{}", "null", "a");
  Expect(R"({"key": "a", "absent": 7})", "{}", "7", "a");
  Expect(R"({"key": "a", "absent": 7})", R"({"a": null})", "null", "a");
  Expect(R"({"first_of": [{"key": "a"}, {"key": "b"}, 9]})", R"({"b": 2})", "2",
         "b");
  Expect(R"({"first_of": [{"key": "a"}, {"key": "b"}, 9]})", R"({"a": null})",
         "9", "a or b");
  Expect(R"({"first_of": [{"key": "a"}, {"key": "b"}]})", "{}", "null",
         "a or b");
  Expect(R"({"map": {"key": "a"}, "values": {"x": 1, "y": 2}})",
         R"({"a": "y"})", "2", "a");
  Expect(R"({"map": {"key": "a"}, "values": {"x": 1}})", "{}", "null", "a");
  const char* numbers = R"({"map": {"key": "a"},
                            "values": {"2": "two", "2.5": 3, "true": 4}})";
  Expect(numbers, R"({"a": 2})", "\"two\"", "a");
  Expect(numbers, R"({"a": 2.0})", "\"two\"", "a");
  Expect(numbers, R"({"a": 2.5})", "3", "a");
  Expect(numbers, R"({"a": true})", "4", "a");
  const char* when = R"({"when": {"key": "a", "equals": false},
                         "then": "one", "else": {"key": "b"}})";
  Expect(when, R"({"a": false, "b": 4})", "\"one\"", "a");
  Expect(when, R"({"a": true, "b": 4})", "4", "b");
  Expect(when, R"({"b": 4})", "4", "b");
  Expect(R"({"derive": "hidden_size_over_heads"})", R"({"h": 60, "n": 6})",
         "10", "head_dim");
  Expect(R"({"derive": "four_hidden_sizes"})", R"({"h": 12})", "48",
         "four hidden sizes");
  Expect(R"({"derive": "sqrt_hidden_size"})", R"({"h": 9})", "3.0",
         "square root of the hidden size");
  Expect(R"({"inverse": {"key": "a"}})", R"({"a": 8})", "0.125", "a");
  Expect(R"({"inverse": {"key": "a"}})", "{}", "null", "a");
  Expect(R"({"inverse_sqrt": {"first_of": [{"key": "a"}, 16]}})", "{}", "0.25",
         "a");
  Expect(R"({"half": {"key": "a"}})", R"({"a": 152})", "76", "a");
  const char* equal = R"({"equal": [{"first_of": [{"key": "a"}, {"key": "b"}]},
                                    {"key": "b"}]})";
  Expect(equal, R"({"b": 4})", "true", "b");
  Expect(equal, R"({"a": 4, "b": 4})", "true", "a");
  Expect(equal, R"({"a": 5, "b": 4})", "false", "a");
}

TEST(EvaluateExpression, NamesTheKeyThatDoesNotFit) {
  DS_EXPECT_ERROR(
      Evaluate(R"({"map": {"key": "a"}, "values": {"x": 1, "y": 2}})",
               R"({"a": "z"})"),
      kInvalidArgument, "config.json: a: found \"z\"; allowed: \"x\", \"y\"");
  for (const char* other : {"2.0000001", "false", "[2]"}) {
    DS_EXPECT_ERROR(
        Evaluate(R"({"map": {"key": "a"}, "values": {"2": 1, "true": 2}})",
                 absl::StrCat(R"({"a": )", other, "}")),
        kInvalidArgument, "; allowed: 2, true");
  }
  DS_EXPECT_ERROR(Evaluate(R"({"when": {"key": "a", "equals": false},
                               "then": 1, "else": 2})",
                           R"({"a": "no"})"),
                  kInvalidArgument, "a: found \"no\"; allowed: a boolean");
  DS_EXPECT_ERROR(Evaluate(R"({"derive": "hidden_size_over_heads"})",
                           R"({"h": 64, "n": 6})"),
                  kInvalidArgument, "found hidden size 64 and 6 attention");
  DS_EXPECT_ERROR(
      Evaluate(R"({"derive": "hidden_size_over_heads"})", R"({"h": 64})"),
      kInvalidArgument, "n: absent; allowed: an integer from 1");
  for (const char* bad : {"0", "-2", "\"2\"", "true"}) {
    const std::string config = absl::StrCat(R"({"a": )", bad, "}");
    DS_EXPECT_ERROR(Evaluate(R"({"inverse": {"key": "a"}})", config),
                    kInvalidArgument, "a: found ");
    DS_EXPECT_ERROR(Evaluate(R"({"inverse_sqrt": {"key": "a"}})", config),
                    kInvalidArgument, "allowed: a number above 0");
  }
  DS_EXPECT_ERROR(Evaluate(R"({"half": {"key": "a"}})", R"({"a": 153})"),
                  kInvalidArgument, "a: found 153; allowed: an even number");
}

TEST(CheckExpression, RefusesOtherForms) {
  for (const char* bad :
       {"[1]", "{}", R"({"key": 3})", R"({"key": "a", "else": 1})",
        R"({"first_of": []})", R"({"first_of": [[1]]})",
        R"({"map": {"key": "a"}})", R"({"derive": "sum"})",
        R"({"when": {"key": "a"}, "then": 1, "else": 2})",
        R"({"when": {"key": "a", "equals": 1}, "then": 1})",
        R"({"equal": [1]})", R"({"equal": [1, 2], "then": 1})",
        R"({"equal": [1, [2]]})", R"({"half": [1]})",
        R"({"half": 2, "inverse": 2})"}) {
    DS_ASSERT_OK_AND_ASSIGN(const json::Value e, json::Parse(bad));
    DS_EXPECT_ERROR(CheckExpression(e), kInvalidArgument,
                    "allowed: a literal, key, first_of, map, when, equal, "
                    "half, inverse, inverse_sqrt or derive");
  }
}

}  // namespace
}  // namespace deepslice
