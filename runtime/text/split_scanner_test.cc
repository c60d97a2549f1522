// The scanners cut as their patterns do in PCRE2, on texts made of the
// characters that tell the alternatives apart.
#include "runtime/text/split_scanner.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "runtime/text/pcre_regex.h"
#include "runtime/text/regex_matches.h"
#include "runtime/text/utf8.h"
#include "schema/base/json.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

uint32_t Next(uint64_t* state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return static_cast<uint32_t>(*state >> 33);
}

// Letters of every case, contractions, digits, marks, white space, others.
constexpr absl::string_view kAtoms[] = {
    "a",          "s",      "t",       "re",     "ve",     "m",
    "ll",         "d",      "S",       "LL",     "Re",     "A",
    "'",          "'",      "'s",      "'S",     "'ll",    "'Ve",
    "'d",         "\u017F", "'\u017F", "1",      "\u0661", "\u00BD",
    " ",          " ",      "  ",      "\t",     "\n",     "\r",
    "\r\n",       "\u00A0", "\u3000",  "\u0085", "\u2028", "!",
    "/",          "//",     ".",       "\u4E2D", "\u3042", "\u0E01",
    "\u0301",     "\u0903", "\u01C5",  "\u02B0", "\u00DF", "\U00010D50",
    "\U0001F600", "\u200D", "\uFE0F",  "\u0378", "_",      "-"};

std::vector<size_t> EndsByRegex(const Regex& regex, absl::string_view text) {
  std::vector<size_t> ends;
  Regex::Matcher matcher(regex, text.size());
  const absl::Status status =
      ForEachMatch(matcher, text, [&](size_t begin, size_t end) {
        // Everything is matched: that is what scanners take for granted.
        EXPECT_EQ(begin, ends.empty() ? 0 : ends.back());
        ends.push_back(end);
        return true;
      });
  EXPECT_TRUE(status.ok()) << status;
  return ends;
}

TEST(SplitScanner, CutsAsThePatternDoes) {
  const absl::string_view patterns[] = {
      kGpt2Pattern,
      kLlama3Pattern,
      kQwen2Pattern,
      kCl100kPattern,
      kO200kPattern,
      "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}|"
      " ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"};
  const CharTable& chars = CharTable::Get();
  uint64_t state = 4711;
  for (absl::string_view pattern : patterns) {
    const SplitScanner scanner = FindSplitScanner(pattern);
    ASSERT_NE(scanner, nullptr) << pattern;
    DS_ASSERT_OK_AND_ASSIGN(const auto regex, Regex::Compile(pattern));
    int wrong = 0;
    for (int i = 0; i < 20000; ++i) {
      std::string text;
      for (uint32_t n = 1 + Next(&state) % 12; n > 0; --n) {
        if (Next(&state) % 16 == 0) {
          AppendUtf8(Next(&state) % 0x3000 + 1, &text);
        } else {
          absl::StrAppend(&text, kAtoms[Next(&state) % std::size(kAtoms)]);
        }
      }
      std::vector<size_t> ends;
      for (size_t pos = 0; pos < text.size();) {
        pos = scanner(chars, text, pos);
        ends.push_back(pos);
      }
      if (ends != EndsByRegex(*regex, text) && ++wrong <= 3) {
        ADD_FAILURE() << pattern << "\non " << json::Write(text);
      }
    }
    EXPECT_EQ(wrong, 0);
  }
}

TEST(SplitScanner, SeesEveryCodePointAsThePatternDoes) {
  const CharTable& chars = CharTable::Get();
  for (absl::string_view pattern : {kGpt2Pattern, kO200kPattern}) {
    const SplitScanner scanner = FindSplitScanner(pattern);
    DS_ASSERT_OK_AND_ASSIGN(const auto regex, Regex::Compile(pattern));
    int wrong = 0;
    for (uint32_t cp = 1; cp < 0x110000; ++cp) {
      if (cp == 0xD800) cp = 0xE000;
      if (cp >= 0x33480 && cp < 0xE0000 && cp % 64 != 0) continue;
      std::string text = "a";
      AppendUtf8(cp, &text);
      text += "B";
      std::vector<size_t> ends;
      for (size_t pos = 0; pos < text.size();) {
        pos = scanner(chars, text, pos);
        ends.push_back(pos);
      }
      wrong += ends != EndsByRegex(*regex, text);
    }
    EXPECT_EQ(wrong, 0) << pattern;
  }
}

TEST(SplitScanner, OtherPatternsHaveNone) {
  EXPECT_EQ(FindSplitScanner("\\s+"), nullptr);
  EXPECT_EQ(FindSplitScanner(absl::StrCat(kGpt2Pattern, " ")), nullptr);
}

}  // namespace
}  // namespace deepslice
