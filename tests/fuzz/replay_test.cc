// Every input of the corpora through its target, in the ordinary build: what
// once was found stays mended.
#include <chrono>
#include <cstdlib>
#include <string>

#include "gtest/gtest.h"
#include "runtime/executor.h"
#include "schema/base/file.h"
#include "tests/fuzz/corpus.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/plan_seeds.h"

namespace deepslice {
namespace {

class Replay : public testing::TestWithParam<FuzzTarget> {};

INSTANTIATE_TEST_SUITE_P(Corpus, Replay, testing::ValuesIn(FuzzTargets()),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

TEST_P(Replay, EveryInputReturns) {
  const char* root = std::getenv("DS_FUZZ_CORPUS");
  ASSERT_NE(root, nullptr);
  const auto inputs = ReadCorpus(JoinPath(root, GetParam().name));
  ASSERT_TRUE(inputs.ok()) << inputs.status();
  ASSERT_FALSE(inputs->empty());
  for (const CorpusInput& input : *inputs) {
    SCOPED_TRACE(input.name);
    const auto start = std::chrono::steady_clock::now();
    // Of the very size: a byte too far is a sanitizer's finding.
    const std::vector<char> bytes(input.bytes.begin(), input.bytes.end());
    GetParam().run(absl::string_view(bytes.data(), bytes.size()));
    const auto took = std::chrono::steady_clock::now() - start;
    EXPECT_LT(took, std::chrono::seconds(5));
  }
}

TEST(PlanSeeds, LoadAndRun) {
  ThreadPool pool(1);
  for (const PlanSeed& seed : PlanSeeds()) {
    SCOPED_TRACE(seed.name);
    const auto plan = Plan::FromBytes(seed.bytes, SeedWeights(), seed.name,
                                      {.check_weights = false});
    ASSERT_TRUE(plan.ok()) << plan.status();
    if (seed.name == "gpu" || seed.name == "rank_of_two") continue;
    const auto executor = Executor::Prepare(*plan, {}, nullptr, &pool);
    ASSERT_TRUE(executor.ok()) << executor.status();
  }
}

}  // namespace
}  // namespace deepslice
