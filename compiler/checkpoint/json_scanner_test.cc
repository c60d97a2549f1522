#include "compiler/checkpoint/json_scanner.h"

#include <vector>

#include "compiler/checkpoint/untrusted_text.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

absl::Status SkipAll(absl::string_view text) {
  JsonScanner scanner(text);
  DS_RETURN_IF_ERROR(scanner.Skip());
  return scanner.End();
}

TEST(JsonScanner, ReadsMembersInOrder) {
  JsonScanner s("{\"a\" : 7, \"b\":[1,2.5e1] ,\"c\":{}}\n ");
  std::vector<std::string> keys;
  int64_t a = 0;
  std::vector<double> b;
  DS_ASSERT_OK(s.Object([&](const std::string& key) -> absl::Status {
    keys.push_back(key);
    if (key == "a") {
      DS_ASSIGN_OR_RETURN(a, s.Unsigned());
      return absl::OkStatus();
    }
    if (key == "b") {
      return s.Array([&]() -> absl::Status {
        DS_ASSIGN_OR_RETURN(const double d, s.Number());
        b.push_back(d);
        return absl::OkStatus();
      });
    }
    return s.Skip();
  }));
  DS_ASSERT_OK(s.End());
  EXPECT_EQ(keys, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(a, 7);
  EXPECT_EQ(b, (std::vector<double>{1, 25}));
}

TEST(JsonScanner, DecodesEscapes) {
  JsonScanner s(R"("\"\\\/\b\f\n\r\t\u0041\u00e9\u20ac\ud83d\ude00")");
  DS_ASSERT_OK_AND_ASSIGN(const std::string text, s.String());
  EXPECT_EQ(text, "\"\\/\b\f\n\r\tA\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
}

TEST(JsonScanner, AcceptsWhatJsonAllows) {
  for (const char* good : {"0", "-0", "-1.5E+3", "true", "false", "null", "[]",
                           "{}", "\"\"", " [ 1 , [ ] , {\"a\":null} ] "}) {
    EXPECT_TRUE(SkipAll(good).ok()) << good << SkipAll(good);
  }
}

TEST(JsonScanner, RefusesWhatJsonDoesNot) {
  for (const char* bad : {"",
                          "01",
                          "1.",
                          ".5",
                          "+1",
                          "1e",
                          "-",
                          "tru",
                          "nul",
                          "[1,]",
                          "[,1]",
                          "{\"a\"}",
                          "{\"a\":1,}",
                          "{a:1}",
                          "'a'",
                          "\"\\x\"",
                          "\"\\u12g4\"",
                          "\"\\ud800\"",
                          "\"\\ud800\\u0041\"",
                          "\"\\udc00\"",
                          "\"a",
                          "[1 2]",
                          "1 2",
                          "{\"a\":1}x",
                          "NaN",
                          "\"\x01\"",
                          "[",
                          "{",
                          "\"\\"}) {
    EXPECT_EQ(SkipAll(bad).code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

TEST(JsonScanner, NamesThePlaceAndWhatStandsThere) {
  DS_EXPECT_ERROR(SkipAll("{\n \"a\": ?}"), kInvalidArgument,
                  "line 2, column 7: found '?'; must be a number");
  DS_EXPECT_ERROR(SkipAll("{} x"), kInvalidArgument,
                  "column 4: found x after the value; only spaces may follow");
  DS_EXPECT_ERROR(SkipAll(absl::string_view("{}\0", 3)), kInvalidArgument,
                  "found byte 0x00 after the value");
}

TEST(JsonScanner, UnsignedRefusesSignsFractionsAndWidth) {
  for (const char* bad : {"-1", "1.0", "1e3", "\"1\"", "[1]", "null"}) {
    JsonScanner s(bad);
    DS_EXPECT_ERROR(s.Unsigned(), kInvalidArgument,
                    "must be an integer of at least 0");
  }
  JsonScanner most("9223372036854775807");
  DS_ASSERT_OK_AND_ASSIGN(const int64_t v, most.Unsigned());
  EXPECT_EQ(v, INT64_MAX);
  JsonScanner beyond("9223372036854775808");
  DS_EXPECT_ERROR(beyond.Unsigned(), kInvalidArgument, "must be below 2^63");
}

TEST(JsonScanner, BoundsDepth) {
  DS_ASSERT_OK(SkipAll(std::string(64, '[') + std::string(64, ']')));
  DS_EXPECT_ERROR(SkipAll(std::string(65, '[') + std::string(65, ']')),
                  kInvalidArgument, "nested deeper than 64");
  DS_EXPECT_ERROR(SkipAll(std::string(1000000, '[')), kInvalidArgument,
                  "nested deeper than 64");
}

TEST(UntrustedText, FindsTheFirstBadByte) {
  EXPECT_EQ(FindBadUtf8("a\xc3\xa9\xf0\x9f\x98\x80"), std::string::npos);
  EXPECT_EQ(FindBadUtf8("ab\xff"), 2u);
  EXPECT_EQ(FindBadUtf8("\xc0\x80"), 0u) << "overlong";
  EXPECT_EQ(FindBadUtf8("a\xed\xa0\x80"), 1u) << "surrogate";
  EXPECT_EQ(FindBadUtf8("\xe2\x82"), 0u) << "cut";
  EXPECT_EQ(FindBadUtf8("\xf4\x90\x80\x80"), 0u) << "beyond U+10FFFF";
}

TEST(UntrustedText, QuotesOnOneLineAndCuts) {
  EXPECT_EQ(Quoted("a\n\"b\"\xc3\xa9"), "\"a\\n\\\"b\\\"\xc3\xa9\"");
  EXPECT_EQ(Quoted("\xff"), "\"\\377\"");
  EXPECT_EQ(Quoted(std::string(121, 'x')),
            "\"" + std::string(120, 'x') + "...\"");
  // The cut falls inside the two bytes of U+00E9.
  EXPECT_EQ(Quoted(std::string(119, 'x') + "\xc3\xa9"),
            "\"" + std::string(119, 'x') + "...\"");
}

}  // namespace
}  // namespace deepslice
