// Properties of the text form over random graphs and damaged texts.
#include <random>
#include <set>

#include "gtest/gtest.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/random_graph.h"
#include "ir/verifier.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

TEST(TextForm, RandomGraphsPrintAndParseToTheSameDigest) {
  std::set<OpKind> seen;
  for (uint32_t seed = 0; seed < 500; ++seed) {
    const Graph graph = RandomGraph(seed, 1 + seed % 40);
    const std::string text = PrintGraph(graph);
    SCOPED_TRACE(testing::Message() << "seed " << seed << "\n" << text);
    DS_ASSERT_OK(VerifyGraph(graph));
    DS_ASSERT_OK_AND_ASSIGN(const Graph parsed, ParseGraph(text));
    ASSERT_EQ(PrintGraph(parsed), text);
    ASSERT_EQ(GraphDigest(parsed), GraphDigest(graph));
    DS_ASSERT_OK(VerifyGraph(parsed));
    ASSERT_EQ(PrintGraph(graph.Clone()), text);
    for (const auto& n : graph.nodes()) seen.insert(n->op);
  }
  EXPECT_EQ(seen.size(), AllOps().size());
}

TEST(TextForm, NoSpaceIsNeededBetweenLines) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    const Graph graph = RandomGraph(seed, 12);
    std::string one_line = PrintGraph(graph);
    for (char& c : one_line) c = c == '\n' ? ' ' : c;
    DS_ASSERT_OK_AND_ASSIGN(const Graph parsed, ParseGraph(one_line));
    ASSERT_EQ(GraphDigest(parsed), GraphDigest(graph)) << "seed " << seed;
  }
}

// One to three edits: a byte changed, a span erased, copied or cut off, or a
// word of the language put in.
std::string Damage(std::string text, std::mt19937& random) {
  constexpr const char* kWords[] = {"%",
                                    "@",
                                    "%x",
                                    "{",
                                    "}",
                                    "(",
                                    ")",
                                    "[",
                                    "]",
                                    ":",
                                    ",",
                                    "=",
                                    "\"",
                                    "\\x",
                                    "#",
                                    "\n",
                                    "T",
                                    "-1",
                                    "0",
                                    "1e400",
                                    "nan",
                                    "0x10",
                                    "return",
                                    "param",
                                    "f32[",
                                    "linear",
                                    "bf16",
                                    "interleave",
                                    "18446744073709551616",
                                    "state(@",
                                    "\xff",
                                    "heads="};
  const int edits = 1 + static_cast<int>(random() % 3);
  for (int e = 0; e < edits; ++e) {
    const size_t at = random() % (text.size() + 1);
    const size_t span = random() % 40;
    switch (random() % 5) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(random());
        break;
      case 1:
        text.erase(at, span);
        break;
      case 2:
        text.insert(random() % (text.size() + 1), text.substr(at, span));
        break;
      case 3:
        text.insert(at, kWords[random() % std::size(kWords)]);
        break;
      case 4:
        if (random() % 8 == 0) text.resize(at);
        break;
    }
  }
  return text;
}

TEST(TextForm, DamagedTextGivesAStatusOrAGraphThatPrints) {
  std::mt19937 random(7);
  int read = 0, refused = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const std::string text = PrintGraph(RandomGraph(seed, 1 + seed % 12));
    for (int i = 0; i < 700; ++i) {
      const std::string damaged = Damage(text, random);
      const absl::StatusOr<Graph> graph = ParseGraph(damaged, "damaged");
      if (!graph.ok()) {
        ++refused;
        DS_EXPECT_ERROR(graph, kInvalidArgument, "damaged:");
        continue;
      }
      ++read;
      VerifyGraph(*graph).IgnoreError();
      const std::string printed = PrintGraph(*graph);
      DS_ASSERT_OK_AND_ASSIGN(const Graph again, ParseGraph(printed));
      ASSERT_EQ(PrintGraph(again), printed) << damaged;
    }
  }
  // Damage that never did harm, or always, would test one half only.
  EXPECT_GT(read, 1000);
  EXPECT_GT(refused, 10'000);
}

}  // namespace
}  // namespace deepslice
