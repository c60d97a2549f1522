#include "tools/prompt_file.h"

#include "gtest/gtest.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

TEST(PromptFile, HasATextOnEachLine) {
  DS_ASSERT_OK_AND_ASSIGN(const auto jobs,
                          ParsePrompts("one\r\n\n  two \n\t\nthree", "p.txt"));
  ASSERT_EQ(jobs.size(), 3u);
  EXPECT_EQ(jobs[0].text, "one");
  EXPECT_EQ(jobs[1].text, "  two ");
  EXPECT_EQ(jobs[1].line, 3);
  EXPECT_EQ(jobs[2].line, 5);
}

TEST(PromptFile, OrAnObjectOnEachLine) {
  DS_ASSERT_OK_AND_ASSIGN(
      const auto jobs,
      ParsePrompts("{\"prompt\": \"a\\nb\", \"top_k\": 3}\n"
                   "{\"prompt_ids\": [5, 6]}\n{\"prompt\": [7]}\n",
                   "stdin"));
  ASSERT_EQ(jobs.size(), 3u);
  EXPECT_EQ(jobs[0].text, "a\nb");
  EXPECT_EQ(jobs[0].choice.top_k, 3);
  EXPECT_EQ(*jobs[1].ids, (std::vector<int32_t>{5, 6}));
  EXPECT_EQ(*jobs[2].ids, (std::vector<int32_t>{7}));
}

TEST(PromptFile, RefusesWithFileAndLine) {
  const auto refuses = [](absl::string_view text, absl::string_view name,
                          absl::string_view part) {
    DS_EXPECT_ERROR(ParsePrompts(text, name), kInvalidArgument, part);
  };
  refuses("\n \n", "p.txt", "p.txt: no line holds a prompt");
  refuses("{\"prompt\": \"a\"}\nb", "p", "p:2: ");
  refuses("plain", "p.jsonl", "p.jsonl:1: ");
  refuses("{}", "p", "p:1: 0 prompts; one of");
  refuses("{\"prompt\": \"a\", \"prompt_ids\": [1]}", "p", "2 prompts");
  refuses("{\"prompt\": 7}", "p",
          "p:1: \"prompt\": found an integer; a string or an array of token");
  refuses("{\"prompt_ids\": [1, -2]}", "p",
          "\"prompt_ids\": -2 is no token id");
  refuses("{\"prompt_ids\": \"a\"}", "p", "found a string; an array of token");
  refuses("{\"prompt\": \"a\", \"topk\": 1}", "p",
          "p:1: \"topk\" is no field of a request; did you mean \"top_k\"?");
}

}  // namespace
}  // namespace deepslice
