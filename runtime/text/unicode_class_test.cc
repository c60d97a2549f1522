// Every code point: the classes of our tables and of translated patterns are
// those of the published library, whatever Unicode PCRE2 and utf8proc know.
#include "runtime/text/unicode_class.h"

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "runtime/text/char_filters.h"
#include "runtime/text/normalize.h"
#include "runtime/text/pcre_regex.h"
#include "runtime/text/utf8.h"
#include "schema/base/file.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

constexpr uint32_t kEnd = 0x110000;
using Members = std::vector<bool>;  // by code point

class UnicodeClasses : public testing::Test {
 protected:
  void SetUp() override {
    DS_ASSERT_OK_AND_ASSIGN(
        const std::string text,
        ReadFile(JoinPath(DS_TEXT_TESTDATA, "unicode_classes.golden"),
                 1 << 24));
    for (absl::string_view line : absl::StrSplit(text, '\n')) {
      const std::vector<std::string> parts =
          absl::StrSplit(line, absl::MaxSplits(':', 1));
      if (parts.size() == 2) lines_[parts[0]] = parts[1];
    }
    ASSERT_GE(lines_.size(), 40u);
  }

  Members Golden(const std::string& name) const {
    Members out(kEnd);
    const auto it = lines_.find(name);
    EXPECT_NE(it, lines_.end()) << name;
    for (absl::string_view range :
         absl::StrSplit(it->second, ',', absl::SkipEmpty())) {
      const std::string text(range);
      char* end = nullptr;
      const uint32_t first = std::strtoul(text.c_str(), &end, 16);
      const uint32_t last =
          *end == '-' ? std::strtoul(end + 1, nullptr, 16) : first;
      for (uint32_t cp = first; cp <= last; ++cp) out[cp] = true;
    }
    return out;
  }

  // "41=61,130=69+307"
  std::map<uint32_t, std::string> GoldenMap(const std::string& name) const {
    std::map<uint32_t, std::string> out;
    for (absl::string_view pair :
         absl::StrSplit(lines_.at(name), ',', absl::SkipEmpty())) {
      const std::vector<std::string> sides = absl::StrSplit(pair, '=');
      std::string& text = out[std::strtoul(sides[0].c_str(), nullptr, 16)];
      const std::vector<std::string> cps = absl::StrSplit(sides[1], '+');
      for (const std::string& cp : cps) {
        AppendUtf8(std::strtoul(cp.c_str(), nullptr, 16), &text);
      }
    }
    return out;
  }

  template <typename Is>
  static void Compare(const std::string& name, const Members& want, Is is) {
    int wrong = 0;
    for (uint32_t cp = 0; cp < kEnd; ++cp) {
      if (cp >= 0xD800 && cp < 0xE000) continue;
      if (is(cp) == want[cp]) continue;
      if (++wrong <= 5) {
        ADD_FAILURE() << name << absl::StrFormat(": U+%04X", cp) << " must be "
                      << (want[cp] ? "in" : "out");
      }
    }
    EXPECT_EQ(wrong, 0) << name;
  }

  std::map<std::string, std::string> lines_;
};

TEST_F(UnicodeClasses, TablesAreThePublishedClasses) {
  const CharTable& chars = CharTable::Get();
  const auto bit = [&](uint16_t mask) {
    return [&chars, mask](uint32_t cp) { return (chars[cp] & mask) != 0; };
  };
  Compare("punctuation", Golden("punctuation"), bit(kCharPunctuation));
  Compare("numeric", Golden("numeric"), bit(kCharNumeric));
  Compare("word", Golden("word"), bit(kCharWord));
  Compare("space", Golden("space"), bit(kCharSpace));
  Compare("accents", Golden("accents"), bit(kCharAccent));
  Compare("bert control", Golden("bert control"), bit(kCharControl));
  Compare("bert nonspacing", Golden("bert nonspacing"), bit(kCharNonspacing));
  Compare("L", Golden("regex p L"), bit(kCharLetter));
  Compare("Ll", Golden("regex p Ll"), bit(kCharLower));
  Compare("M", Golden("regex p M"), bit(kCharMark));
  Compare("N", Golden("regex p N"), bit(kCharNumber));
}

// The table of code points where regular expression engines differ: \s, \w and
// properties of PCRE2 itself are not these classes.
TEST_F(UnicodeClasses, PatternsMatchThePublishedClasses) {
  for (const auto& [name, line] : lines_) {
    if (!absl::StartsWith(name, "regex ")) continue;
    const bool property = absl::StartsWith(name, "regex p ");
    const std::string body = property
                                 ? absl::StrCat("\\p{", name.substr(8), "}")
                                 : absl::StrCat("\\", name.substr(6));
    DS_ASSERT_OK_AND_ASSIGN(const auto regex, Regex::Compile(body));
    Regex::Matcher matcher(*regex, 1 << 24);
    std::string text;
    Members want = Golden(name);
    // It moved from Mn to Mc after Unicode 14; a class can only be added to.
    if (name == "regex p Mn") want[0x1171E] = true;
    Compare(body, want, [&](uint32_t cp) {
      text.clear();
      AppendUtf8(cp, &text);
      size_t end = 0;
      const auto found = matcher.MatchAt(text, 0, &end);
      EXPECT_TRUE(found.ok());
      return found.ok() && *found;
    });
  }
}

TEST_F(UnicodeClasses, MappingsAreThePublishedOnes) {
  struct Mapping {
    std::string name;
    bool (*map)(absl::string_view, std::string*);
  };
  const Mapping mappings[] = {
      {"map lower", Lowercase},
      {"map nfd",
       [](absl::string_view s, std::string* out) {
         return NormalizeUnicode(s, NormalizerKind::kNfd, out);
       }},
      {"map nfkd", [](absl::string_view s, std::string* out) {
         return NormalizeUnicode(s, NormalizerKind::kNfkd, out);
       }}};
  for (const Mapping& m : mappings) {
    const auto golden = GoldenMap(m.name);
    int wrong = 0;
    for (uint32_t cp = 0; cp < kEnd; ++cp) {
      if (cp >= 0xD800 && cp < 0xE000) continue;
      if (cp >= 0xAC00 && cp <= 0xD7A3) continue;  // by arithmetic
      std::string text, out;
      AppendUtf8(cp, &text);
      const auto it = golden.find(cp);
      const std::string& want = it == golden.end() ? text : it->second;
      if (!m.map(text, &out)) out = text;
      if (out != want && ++wrong <= 5) {
        ADD_FAILURE() << m.name << absl::StrFormat(": U+%04X", cp);
      }
    }
    EXPECT_EQ(wrong, 0) << m.name;
  }
}

TEST(UnicodeClass, HangulIsDecomposedByArithmetic) {
  std::string out;
  ASSERT_TRUE(NormalizeUnicode("\uAC00\uD7A3", NormalizerKind::kNfd, &out));
  EXPECT_EQ(out, "\u1100\u1161\u1112\u1175\u11C2");
  std::string back;
  ASSERT_TRUE(NormalizeUnicode(out, NormalizerKind::kNfc, &back));
  EXPECT_EQ(back, "\uAC00\uD7A3");
}

}  // namespace
}  // namespace deepslice
