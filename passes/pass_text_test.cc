#include "gtest/gtest.h"
#include "passes/pass.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

std::vector<std::string> Names(absl::string_view text) {
  std::vector<std::string> names;
  auto passes = ParsePasses(text);
  if (!passes.ok()) return {passes.status().ToString()};
  for (const auto& pass : *passes) names.emplace_back(pass->name());
  return names;
}

using List = std::vector<std::string>;

TEST(ParsePasses, ReadsNamesArgumentsAndSpace) {
  EXPECT_EQ(Names(""), List{});
  EXPECT_EQ(Names(" \t"), List{});
  EXPECT_EQ(Names("fuse-qkv"), List{"fuse-qkv"});
  EXPECT_EQ(Names("fuse-qkv()"), List{"fuse-qkv"});
  EXPECT_EQ(Names(" fuse-qkv , tensor-slice( tp = 3, rank=1 ) ,fuse_gate_up"),
            (List{"fuse-qkv", "tensor-slice", "fuse-gate-up"}));
}

TEST(ParsePasses, HintsAtTheNearestName) {
  DS_EXPECT_ERROR(ParsePasses("fuse-qvk"), kInvalidArgument,
                  "found pass \"fuse-qvk\"; allowed: ");
  DS_EXPECT_ERROR(ParsePasses("fuse-qvk"), kInvalidArgument,
                  "; did you mean fuse-qkv?");
  const absl::Status stranger = ParsePasses("banana").status();
  DS_EXPECT_ERROR(stranger, kInvalidArgument, "found pass \"banana\"");
  EXPECT_EQ(stranger.message().find("did you mean"), absl::string_view::npos);
}

TEST(ParsePasses, RefusesMalformedLists) {
  const std::pair<const char*, const char*> cases[] = {
      {"fuse-qkv,", "expected a pass, got end of text"},
      {",fuse-qkv", "expected a pass, got ','"},
      {"(tp=2)", "expected a pass, got '('"},
      {"tensor-slice(tp=2", "pass tensor-slice: expected ')' after the"},
      {"tensor-slice(tp)",
       "pass tensor-slice: expected name=value, got \"tp\""},
      {"tensor-slice(=2)", "expected name=value, got \"=2\""},
      {"tensor-slice(tp=2,)", "expected name=value, got \"\""},
      {"tensor-slice(tp=2,tp=3)", "argument tp is given twice"},
      {"fuse-qkv() fuse-qkv", "expected ',' after ')', got \"fuse-qkv\""},
      {"fuse-qkv(deep=1)", "pass fuse-qkv: unknown argument \"deep\""},
      {"tensor-slice(tp=2)", "pass tensor-slice: "},
  };
  for (const auto& [text, error] : cases) {
    DS_EXPECT_ERROR(ParsePasses(text), kInvalidArgument, error) << text;
  }
}

TEST(AllPasses, AreSortedAndParseByName) {
  const auto& passes = AllPasses();
  for (size_t i = 1; i < passes.size(); ++i) {
    EXPECT_LT(passes[i - 1].name, passes[i].name);
  }
  for (const PassInfo& info : passes) EXPECT_FALSE(info.summary.empty());
}

}  // namespace
}  // namespace deepslice
