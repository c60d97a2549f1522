#include "schema/base/json.h"

#include "schema/base/status_matchers.h"

namespace deepslice::json {
namespace {

TEST(Json, KeepsOrderAndKinds) {
  DS_ASSERT_OK_AND_ASSIGN(
      const Value v,
      Parse(
          R"({"b":1,"a":[true,null,-2.5,"x"],"big":1000000000000000019884624838656})"));
  EXPECT_EQ(Write(v), R"({"b":1,"a":[true,null,-2.5,"x"],"big":1e+30})");
  EXPECT_EQ(v.Find("b")->as_int(), 1);
  EXPECT_EQ(v.Find("big")->kind(), Kind::kFloat);
  EXPECT_EQ(v.Find("none"), nullptr);
}

TEST(Json, RefusesDuplicateKey) {
  DS_EXPECT_ERROR(Parse(R"({"a":1,"a":2})"), kInvalidArgument,
                  "key \"a\" appears twice");
}

TEST(Json, NamesThePlaceOfBadSyntax) {
  DS_EXPECT_ERROR(Parse("{\n  \"a\": x}"), kInvalidArgument,
                  "line 2, column 8");
}

TEST(Json, QuotesLittleOfALongText) {
  const std::string a(100'000, 'a');
  for (const std::string& text :
       {"\"" + a + "\\q\"", "{\"" + a + "\":1,\"" + a + "\":2}", a}) {
    const absl::Status status = Parse(text).status();
    EXPECT_FALSE(status.ok());
    EXPECT_LT(status.message().size(), 300u);
  }
}

TEST(Json, RefusesByteOrderMarkNulAndDepth) {
  DS_EXPECT_ERROR(Parse("\xef\xbb\xbf{}"), kInvalidArgument, "byte-order mark");
  DS_EXPECT_ERROR(Parse(absl::string_view("{}\0\0", 4)), kInvalidArgument,
                  "NUL");
  DS_EXPECT_ERROR(Parse(std::string(100000, '[')), kInvalidArgument,
                  "nested deeper than 64");
}

TEST(Json, RefusesNumberOutOfRange) {
  DS_EXPECT_ERROR(Parse("1e400"), kInvalidArgument, "number out of range");
}

TEST(Json, DeviationsOnlyWhereAllowed) {
  DS_EXPECT_ERROR(Parse("{\"a\":[1,],}"), kInvalidArgument, "line 1, column");
  EXPECT_TRUE(Parse("{\"a\":[1,],}", {.allow_trailing_commas = true}).ok());
  DS_EXPECT_ERROR(Parse("[Infinity]"), kInvalidArgument, "column 2");
  DS_ASSERT_OK_AND_ASSIGN(const Value numbers,
                          Parse("[-Infinity, NaN, Infinity, 0E0, 2E1]",
                                {.allow_nan_and_infinity = true}));
  EXPECT_EQ(numbers.items()[0].as_double(), -HUGE_VAL);
  EXPECT_TRUE(std::isnan(numbers.items()[1].as_double()));
  EXPECT_EQ(numbers.items()[2].as_double(), HUGE_VAL);
  EXPECT_EQ(numbers.items()[3].as_double(), 0);
  EXPECT_EQ(numbers.items()[4].as_double(), 20);
  DS_EXPECT_ERROR(Parse("[1NaN]", {.allow_nan_and_infinity = true}),
                  kInvalidArgument, "inside another number");
  DS_ASSERT_OK_AND_ASSIGN(const Value strict, Parse("[0E0]"));
  EXPECT_EQ(strict.items()[0].as_double(), 0);
  DS_ASSERT_OK_AND_ASSIGN(
      const Value v, Parse("[\"NaN,]\"]", {.allow_nan_and_infinity = true,
                                           .allow_trailing_commas = true}));
  EXPECT_EQ(v.items()[0].as_string(), "NaN,]");
}

TEST(Json, WritesBadUtf8AsReplacement) {
  EXPECT_EQ(Write(Value(std::string("a\xff\n\x01"))),
            "\"a\xef\xbf\xbd\\n\\u0001\"");
}

TEST(JsonWrite, DoublesPrintAsPythonHasThem) {
  for (const auto& [d, text] : std::vector<std::pair<double, std::string>>{
           {0.1, "0.1"},
           {5000, "5000.0"},
           {-0.0, "-0.0"},
           {1e-4, "0.0001"},
           {1e-5, "1e-05"},
           {1.25e-7, "1.25e-07"},
           {9007199254740993, "9007199254740992.0"},
           {1e15, "1000000000000000.0"},
           {1e16, "1e+16"},
           {12345678901234567890.0, "1.2345678901234567e+19"},
           {5e-324, "5e-324"},
           {1.7976931348623157e308, "1.7976931348623157e+308"}}) {
    EXPECT_EQ(Write(Value(d)), text);
  }
}

}  // namespace
}  // namespace deepslice::json
