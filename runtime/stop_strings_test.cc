#include "runtime/stop_strings.h"

#include <algorithm>

#include "gtest/gtest.h"

namespace deepslice {
namespace {

struct Result {
  std::string text;
  int found = -1;
  bool operator==(const Result& o) const {
    return text == o.text && found == o.found;
  }
};

// Adds `text` in pieces of `size` bytes, and checks that nothing is given on
// that belongs to a stop.
Result Feed(const std::vector<std::string>& stops, const std::string& text,
            size_t size) {
  StopStrings matcher(stops);
  Result r;
  for (size_t at = 0; at < text.size(); at += size) {
    r.found = matcher.Add(text.substr(at, size), true, &r.text);
    if (r.found >= 0) return r;
  }
  matcher.Finish(&r.text);
  return r;
}

// From the definition: the first place, then the longest.
Result Truth(const std::vector<std::string>& stops, const std::string& text) {
  for (size_t at = 0; at < text.size(); ++at) {
    Result r = {text.substr(0, at), -1};
    for (size_t i = 0; i < stops.size(); ++i) {
      if (text.compare(at, stops[i].size(), stops[i]) != 0) continue;
      if (r.found < 0 || stops[i].size() > stops[r.found].size()) {
        r.found = static_cast<int>(i);
      }
    }
    if (r.found >= 0) return r;
  }
  return {text, -1};
}

TEST(StopStrings, FindsThemAcrossEveryBorder) {
  const std::vector<std::string> stops = {"</s>", "END", "a\u00e9\u4e16"};
  for (const std::string text :
       {"", "plain", "on < and </s", "one</s>two", "</s>", "EEND", "ENEND",
        "EN", "xa\u00e9\u4e16y", "xa\u00e9\u4e17y</s>", "<</s></s>"}) {
    for (size_t size = 1; size < 9; ++size) {
      EXPECT_EQ(Feed(stops, text, size), Truth(stops, text))
          << text << " by " << size;
    }
  }
}

TEST(StopStrings, AgreesWithItsDefinitionOnRandomTexts) {
  uint64_t state = 99;
  const auto random = [&](int n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int>((state >> 33) % n);
  };
  const auto word = [&](int longest) {
    std::string s;
    for (int i = 1 + random(longest); i > 0; --i) s += "ab"[random(2)];
    return s;
  };
  int found = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> stops;
    for (int i = 1 + random(3); i > 0; --i) stops.push_back(word(6));
    const std::string text = word(14);
    const Result want = Truth(stops, text);
    found += want.found >= 0;
    // A byte at a time finds the one that ends first; as whole it is the one
    // that begins first. Both leave no byte of it behind.
    const Result got = Feed(stops, text, text.size());
    EXPECT_EQ(got.text, want.text);
    EXPECT_EQ(got.found >= 0, want.found >= 0);
    const Result slow = Feed(stops, text, 1);
    EXPECT_EQ(slow.found >= 0, want.found >= 0);
    EXPECT_EQ(text.compare(0, slow.text.size(), slow.text), 0);
    if (slow.found >= 0) {
      const std::string& s = stops[slow.found];
      EXPECT_EQ(text.compare(slow.text.size(), s.size(), s), 0);
    }
  }
  EXPECT_GT(found, 500);
}

TEST(StopStrings, HoldsBackNoMoreThanItMust) {
  StopStrings matcher({"</s>"});
  std::string out;
  EXPECT_EQ(matcher.Add("a<", true, &out), -1);
  EXPECT_EQ(out, "a");
  EXPECT_EQ(matcher.Add("b", true, &out), -1);
  EXPECT_EQ(out, "a<b");
  EXPECT_EQ(matcher.Add("</", true, &out), -1);
  EXPECT_EQ(out, "a<b");
  matcher.Finish(&out);
  EXPECT_EQ(out, "a<b</");
}

TEST(StopStrings, LetsThemThroughWhileNotArmed) {
  StopStrings matcher({"END"});
  std::string out;
  EXPECT_EQ(matcher.Add("an END", false, &out), -1);
  EXPECT_EQ(matcher.Add(" EN", false, &out), -1);
  EXPECT_EQ(out, "an END ");
  EXPECT_EQ(matcher.Add("D", true, &out), 0);
  EXPECT_EQ(out, "an END ");
}

TEST(StopStrings, WithoutAnyGivesEverythingOn) {
  StopStrings matcher({""});
  std::string out;
  EXPECT_EQ(matcher.Add("abc", true, &out), -1);
  EXPECT_EQ(out, "abc");
}

}  // namespace
}  // namespace deepslice
