// UTF-8 with replacement, whole and in parts.
#include "runtime/text/utf8.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace deepslice {
namespace {

#define FFFD "\xEF\xBF\xBD"

TEST(Utf8, ReplacesEachMaximalPartOfABadSequence) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a\xC3", "a" FFFD},
      {"\xE2\x82", FFFD},  // cut short: one
      {"\xE2\x82x", FFFD "x"},
      {"\xF0\x9F\x98", FFFD},
      {"\xC0\xAF", FFFD FFFD},  // overlong
      {"\xE0\x80\xAF", FFFD FFFD FFFD},
      {"\xED\xA0\x80", FFFD FFFD FFFD},  // a surrogate
      {"\xF4\x90\x80\x80", FFFD FFFD FFFD FFFD},
      {"\x80\xFF", FFFD FFFD},
      {"\xF0\x9F\x98\x80\xC3\xA9", "\xF0\x9F\x98\x80\xC3\xA9"}};
  for (const auto& [bytes, text] : cases) {
    EXPECT_EQ(ReplaceInvalidUtf8(bytes), text);
    EXPECT_EQ(IsValidUtf8(bytes), bytes == text);
  }
}

TEST(Utf8, EveryCodePointSurvivesARoundTrip) {
  for (uint32_t cp = 0; cp < 0x110000; ++cp) {
    if (cp == 0xD800) cp = 0xE000;
    std::string s;
    AppendUtf8(cp, &s);
    const CodePoint c = DecodeUtf8(s, 0);
    ASSERT_TRUE(c.valid && c.value == cp && c.size == s.size()) << cp;
    ASSERT_EQ(PreviousUtf8(s, s.size()), 0u);
  }
}

TEST(Utf8Stream, EqualsTheWholeForEveryCutOfMixedBytes) {
  const std::string bytes =
      "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\xF0\x9F\x41\xE2\x28\xED\xA0\x80z"
      "\xF4\x90\xC3";
  for (size_t i = 0; i <= bytes.size(); ++i) {
    for (size_t k = i; k <= bytes.size(); ++k) {
      Utf8Stream stream;
      std::string out;
      stream.Add(bytes.substr(0, i), &out);
      EXPECT_TRUE(IsValidUtf8(out));
      stream.Add(bytes.substr(i, k - i), &out);
      EXPECT_TRUE(IsValidUtf8(out));
      stream.Add(bytes.substr(k), &out);
      stream.Finish(&out);
      EXPECT_EQ(out, ReplaceInvalidUtf8(bytes));
    }
  }
}

TEST(Utf8, CountsCodePoints) {
  EXPECT_EQ(Utf8Length("a\xC3\xA9\xF0\x9F\x98\x80"), 3u);
}

}  // namespace
}  // namespace deepslice
