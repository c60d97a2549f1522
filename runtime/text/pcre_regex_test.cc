// Patterns of tokenizer files: what they match, what is refused, bounds.
#include "runtime/text/pcre_regex.h"

#include <ctime>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/text/unicode_class.h"
#include "runtime/text/utf8.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

// The end of the match at the start of `text`, or -1.
int Match(const std::string& pattern, const std::string& text) {
  const auto regex = Regex::Compile(pattern);
  EXPECT_TRUE(regex.ok()) << regex.status();
  if (!regex.ok()) return -2;
  Regex::Matcher matcher(**regex, text.size());
  size_t end = 0;
  const auto found = matcher.MatchAt(text, 0, &end);
  EXPECT_TRUE(found.ok()) << found.status();
  return found.ok() && *found ? static_cast<int>(end) : -1;
}

TEST(Regex, MatchesOnlyAtThePositionAndSeesTextBefore) {
  DS_ASSERT_OK_AND_ASSIGN(const auto regex, Regex::Compile("(?<=a)b+"));
  const std::string text = "abbb";
  Regex::Matcher matcher(*regex, text.size());
  size_t end = 0;
  DS_ASSERT_OK_AND_ASSIGN(bool found, matcher.MatchAt(text, 0, &end));
  EXPECT_FALSE(found);
  DS_ASSERT_OK_AND_ASSIGN(found, matcher.MatchAt(text, 1, &end));
  EXPECT_TRUE(found);
  EXPECT_EQ(end, 4u);
}

// Matches longer than what a match sees of a text at first.
TEST(Regex, LongMatchesAreThoseOfShortOnes) {
  for (const size_t n : {4093, 4096, 4097, 5000, 70'000, 1'200'000}) {
    const int all = static_cast<int>(n);
    const std::string a(n, 'a');
    EXPECT_EQ(Match("a+", a), all);
    EXPECT_EQ(Match("a+$", a), all);
    EXPECT_EQ(Match("a+$", a + "\nx"), all);
    EXPECT_EQ(Match("a+\\z", a + "x"), -1);
    EXPECT_EQ(Match("a+\\z", a), all);
    EXPECT_EQ(Match("a+b|a", a + "b"), all + 1);
    EXPECT_EQ(Match("a+b|a", a + "c"), 1);
    EXPECT_EQ(Match("a+(?!b)", a + "b"), all - 1);
    EXPECT_EQ(Match("(?=.*b)a", a + "b"), 1);
    EXPECT_EQ(Match("(?=.*b)a", a + "c"), -1);
    EXPECT_EQ(Match("\\S+", a + "\xE4\xBD\xA0" + a + " x"), 2 * all + 3);
    std::string wide;
    for (size_t i = 0; i < n; ++i) wide += "\xE4\xBD\xA0";
    EXPECT_EQ(Match("\\p{Han}+", wide), 3 * all);
  }
}

TEST(Regex, ReadingATextToItsEndAtEveryPlaceIsBounded) {
  const std::string text(1 << 19, 'a');
  for (const char* pattern : {"(?=.*b)a", "a*b", "[^b]*b|c", "(?=[^b]*b)a"}) {
    DS_ASSERT_OK_AND_ASSIGN(const auto regex, Regex::Compile(pattern));
    Regex::Matcher matcher(*regex, text.size());
    const std::clock_t start = std::clock();
    size_t begin = 0, end = 0;
    const absl::Status status = matcher.Find(text, 0, &begin, &end).status();
    EXPECT_TRUE(status.ok() || absl::IsResourceExhausted(status)) << status;
    EXPECT_LT(std::clock() - start, 5 * CLOCKS_PER_SEC) << pattern;
  }
}

TEST(Regex, WhiteSpaceAndWordsAreOnigurumas) {
  const std::string mongolian = "\xE1\xA0\x8E";  // U+180E, no white space
  EXPECT_EQ(Match("\\s", mongolian), -1);
  EXPECT_EQ(Match("\\S", mongolian), 3);
  EXPECT_EQ(Match("[^\\s]", mongolian), 3);
  EXPECT_EQ(Match("[a\\S]", mongolian), 3);
  EXPECT_EQ(Match("\\s", "\xE3\x80\x80"), 3);  // U+3000
  EXPECT_EQ(Match("[\\s]", "\xC2\x85"), 2);    // U+0085
  EXPECT_EQ(Match("\\w+", "e\xCC\x81x-"), 4);  // marks are in words
  EXPECT_EQ(Match("\\W", "\xCC\x81"), -1);
  for (uint32_t cp = 0; cp < 0x3100; ++cp) {
    std::string s;
    AppendUtf8(cp, &s);
    static const auto regex = *Regex::Compile("\\s");
    Regex::Matcher matcher(*regex, 4);
    size_t end;
    ASSERT_EQ(*matcher.MatchAt(s, 0, &end), IsWhiteSpace(cp)) << cp;
  }
}

TEST(Regex, TranslatesRubysSpellings) {
  EXPECT_EQ(Match("\\v", "\n"), -1);  // the one character, not PCRE2's class
  EXPECT_EQ(Match("\\v", "\x0B"), 1);
  EXPECT_EQ(Match("\\u0041\\x{42}\\x43", "ABC"), 3);
  EXPECT_EQ(Match("a$", "a\nb"), 1);  // $ ends a line
  EXPECT_EQ(Match("\\p{^L}", "1"), 1);
  EXPECT_EQ(Match("\\P{Lu}", "A"), -1);
  EXPECT_EQ(Match("(?i:'s)", "'S"), 2);
  EXPECT_EQ(Match("(?i:'s)", "'\xC5\xBF"), 3);  // long s
  EXPECT_EQ(Match("a++b|a{1,2}?", "aab"), 3);
  EXPECT_EQ(Match("[a-d&&[^c]]+", "abcd"), 2);
  EXPECT_EQ(Match("x[\\p{L}&&[^\\p{Han}]]*", "xa\xE4\xBD\xA0"), 2);
  // Script, not Script_Extensions: U+30FC is Common.
  EXPECT_EQ(Match("\\p{Katakana}", "\xE3\x83\xBC"), -1);
  EXPECT_EQ(Match("\\p{Katakana}", "\xE3\x82\xA2"), 3);
}

TEST(Regex, RefusesByNameWhatMeansSomethingElse) {
  for (const auto& [pattern, part] :
       std::vector<std::pair<std::string, std::string>>{
           {"\\h", "\"\\h\""},
           {"x\\b", "byte 1: \"\\b\""},
           {"\\R", "\"\\R\""},
           {"(a)\\1", "\"\\1\""},
           {"(?<n>a)", "\"(?<\""},
           {"a(?i)b", "(?i) after the start"},
           {"(?m:.)", "\"(?m\""},
           {"a{2}+", "\"{2}+\""},
           {"a{,2}", "no {n}"},
           {"[[:alpha:]]", "a class inside a class"},
           {"[a&&b]", "\"&&\""},
           {"[^a&&[b]]", "\"&&\""},
           {"[\\W]", "\"\\W\" in a class"},
           {"[+-\\s]", "a range that ends in a class"},
           {"\\p{Emoji}", "property \"Emoji\""},
           {"\\xFF", "hexadecimal"}}) {
    DS_EXPECT_ERROR(Regex::Compile(pattern), kUnimplemented, part) << pattern;
  }
}

TEST(Regex, RefusesPatternsThatDoNotCompile) {
  DS_EXPECT_ERROR(Regex::Compile("a(b"), kInvalidArgument, "pattern \"a(b\"");
  DS_EXPECT_ERROR(Regex::Compile("[a"), kInvalidArgument, "without \"]\"");
  DS_EXPECT_ERROR(Regex::Compile("a\\"), kInvalidArgument, "backslash");
  DS_EXPECT_ERROR(Regex::Compile(std::string(70000, 'a')), kInvalidArgument,
                  "at most 65536");
}

TEST(Regex, CatastrophicBacktrackingIsAnErrorSoon) {
  DS_ASSERT_OK_AND_ASSIGN(const auto regex, Regex::Compile("(a+)+$"));
  const std::string text = std::string(30, 'a') + "b";
  // Of the processor, not of the clock: other tests run beside this one.
  const std::clock_t start = std::clock();
  Regex::Matcher matcher(*regex, text.size());
  size_t end = 0;
  DS_EXPECT_ERROR(matcher.MatchAt(text, 0, &end), kResourceExhausted,
                  "takes too long");
  EXPECT_LT(std::clock() - start, CLOCKS_PER_SEC / 10);
}

TEST(Regex, FindTakesTheFirstMatch) {
  DS_ASSERT_OK_AND_ASSIGN(const auto regex, Regex::Compile("b+|x*$"));
  const std::string text = "\u4F60abb";
  Regex::Matcher matcher(*regex, text.size());
  size_t begin = 0, end = 0;
  DS_ASSERT_OK_AND_ASSIGN(bool found, matcher.Find(text, 0, &begin, &end));
  EXPECT_TRUE(found);
  EXPECT_EQ(begin, 4u);
  EXPECT_EQ(end, 6u);
  DS_ASSERT_OK_AND_ASSIGN(found, matcher.Find(text, 6, &begin, &end));
  EXPECT_TRUE(found);  // the empty match at the end
  EXPECT_EQ(begin, 6u);
  DS_ASSERT_OK_AND_ASSIGN(const auto none, Regex::Compile("q"));
  Regex::Matcher other(*none, text.size());
  DS_ASSERT_OK_AND_ASSIGN(found, other.Find(text, 0, &begin, &end));
  EXPECT_FALSE(found);
}

TEST(Regex, LongTextsThatDoNotBacktrackAreMatched) {
  const std::string spaces(1 << 20, ' ');
  EXPECT_EQ(Match("\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+", spaces + "x"),
            (1 << 20) - 1);
  EXPECT_EQ(Match("\\p{L}+", std::string(1 << 20, 'a')), 1 << 20);
  // More than the small stack that JIT starts with.
  EXPECT_EQ(Match("(?:ab|c)+", std::string(5000, 'c') + "x"), 5000);
}

}  // namespace
}  // namespace deepslice
