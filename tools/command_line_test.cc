#include "tools/command_line.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace deepslice {
namespace {

using Words = std::vector<std::string>;

TEST(NormalizedArguments, UnderscoresOfLongFlagsBecomeDashes) {
  const char* argv[] = {"dsrun", "a_plan", "--top_k", "4",      "--max_x=a_b",
                        "-p",    "x_y",    "--",      "--as_is"};
  EXPECT_EQ(NormalizedArguments(9, argv),
            (Words{"a_plan", "--top-k", "4", "--max-x=a_b", "-p", "x_y", "--",
                   "--as_is"}));
  EXPECT_EQ(NormalizedArguments(0, nullptr), Words{});
}

TEST(TakeFlag, TakesAllSpellingsAndKeepsTheLast) {
  Words words = {"plan", "--rank", "1", "-p", "hi", "--rank=2", "--ranks"};
  EXPECT_EQ(TakeFlag("--rank", &words), "2");
  EXPECT_EQ(words, (Words{"plan", "-p", "hi", "--ranks"}));
  EXPECT_EQ(TakeFlag("--rank", &words), std::nullopt);
}

TEST(TakeFlag, FlagWithoutAValueIsEmpty) {
  for (Words words :
       {Words{"plan", "--rank"}, Words{"--rank", "--greedy"}, Words{"--rank="},
        Words{"--rank", ""}, Words{"--rank", "-p"}}) {
    EXPECT_EQ(TakeFlag("--rank", &words), "") << words.back();
  }
  Words negative = {"--rank", "-1", "x"};
  EXPECT_EQ(TakeFlag("--rank", &negative), "-1");
  EXPECT_EQ(negative, Words{"x"});
  Words text = {"-p", "x", "--", "--rank", "3"};
  EXPECT_EQ(TakeFlag("--rank", &text), std::nullopt);
}

TEST(OneLine, EscapesWhatWouldBreakOrColourALine) {
  EXPECT_EQ(OneLine("a\nb\t\x1b[31m\xc3\xbc"), "a\\nb\\t\\x1b[31m\xc3\xbc");
}

TEST(UnknownFlag, NamesTheNearest) {
  const Words names = {"--top-k", "--top-p", "--temperature", "--greedy", "-n"};
  EXPECT_EQ(UnknownFlag("--temprature", names),
            "unknown flag --temprature; did you mean --temperature?");
  EXPECT_EQ(UnknownFlag("--gredy=1", names),
            "unknown flag --gredy; did you mean --greedy?");
  EXPECT_EQ(UnknownFlag("--temp", names),
            "unknown flag --temp; did you mean --temperature?");
  EXPECT_EQ(UnknownFlag("--quantum", names), "unknown flag --quantum");
  EXPECT_EQ(UnknownFlag("--tp", {"--stop"}), "unknown flag --tp");
  EXPECT_EQ(UnknownFlag("--port", {"--jobs"}), "unknown flag --port");
}

}  // namespace
}  // namespace deepslice
