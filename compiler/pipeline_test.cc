#include "compiler/pipeline.h"

#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "schema/base/file.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

constexpr char kMlp[] = R"(
graph @mlp {
  param  %h : f32[T, 64]
  weight @mlp_gate : f32[172, 64] role(mlp_gate) = "gate"[0:172, 0:64]
  weight @mlp_up   : f32[172, 64] role(mlp_up) = "up"[0:172, 0:64]
  weight @mlp_out  : f32[64, 172] role(mlp_out) = "down"[0:64, 0:172]
  %gate = linear(%h, @mlp_gate)
  %gate_act = activation(%gate) {kind=silu}
  %up = linear(%h, @mlp_up)
  %act = mul(%gate_act, %up)
  %y = linear(%act, @mlp_out)
  %out = add(%h, %y)
  return %out
})";

class PipelineTest : public testing::Test {
 protected:
  void SetUp() override {
    options_.tp = 2;
    options_.storage.weights = Encoding::kI8Row;
    options_.dump_dir = JoinPath(testing::TempDir(), "pipeline_test.XXXXXX");
    ASSERT_NE(mkdtemp(options_.dump_dir.data()), nullptr);
  }
  void TearDown() override {
    const std::string command = "rm -rf '" + options_.dump_dir + "'";
    ASSERT_EQ(system(command.c_str()), 0);
  }
  absl::StatusOr<CompiledGraphs> Run() {
    DS_ASSIGN_OR_RETURN(Graph g, ParseGraph(kMlp));
    return RunPipeline(std::move(g), options_);
  }
  std::vector<std::string> Files(const std::string& sub = "") {
    return *ListDirectory(JoinPath(options_.dump_dir, sub));
  }
  PipelineOptions options_;
};

TEST_F(PipelineTest, DumpsOneFilePerPassThatChangedTheGraph) {
  DS_ASSERT_OK(Run());
  EXPECT_EQ(Files(), (std::vector<std::string>{
                         "00.import.ir", "02.fuse.fuse-gate-up.ir",
                         "03.quantize.quantize-weights.ir", "rank0", "rank1"}));
  EXPECT_EQ(Files("rank1"),
            (std::vector<std::string>{"04.slice.tensor-slice.ir"}));
}

TEST_F(PipelineTest, FilterAndStopAfter) {
  options_.dump_filter = "fuse";
  options_.stop_after = "fuse";
  DS_ASSERT_OK_AND_ASSIGN(const CompiledGraphs g, Run());
  EXPECT_TRUE(g.stopped);
  EXPECT_EQ(Files(), (std::vector<std::string>{"02.fuse.fuse-gate-up.ir",
                                               "rank0", "rank1"}));
  options_.stop_after = "fusion";
  DS_EXPECT_ERROR(Run(), kInvalidArgument, "allowed are import, fuse");
}

TEST_F(PipelineTest, GoesOnFromAnEditedDump) {
  DS_ASSERT_OK_AND_ASSIGN(const CompiledGraphs before, Run());
  const std::string path =
      JoinPath(options_.dump_dir, "rank1/04.slice.tensor-slice.ir");
  DS_ASSERT_OK_AND_ASSIGN(std::string text, ReadFile(path, 1 << 20));
  ASSERT_TRUE(absl::StrContains(text, "after tensor-slice, rank 1"));
  DS_ASSERT_OK(WriteFile(path, absl::StrReplaceAll(text, {{"silu", "gelu"}})));
  options_.start_from = {path};
  DS_ASSERT_OK_AND_ASSIGN(const CompiledGraphs after, Run());
  EXPECT_EQ(GraphDigest(before.ranks[0]), GraphDigest(after.ranks[0]));
  EXPECT_TRUE(absl::StrContains(PrintGraph(after.ranks[1]), "kind=gelu"));
  EXPECT_FALSE(absl::StrContains(PrintGraph(before.ranks[1]), "kind=gelu"));
}

TEST_F(PipelineTest, RefusesAFileThatIsNoDumpOrNamesNoPass) {
  const std::string path = JoinPath(options_.dump_dir, "x.ir");
  DS_ASSERT_OK(WriteFile(path, kMlp));
  options_.start_from = {path};
  DS_EXPECT_ERROR(Run(), kInvalidArgument, "x.ir:1:1: expected");
  DS_ASSERT_OK(
      WriteFile(path, std::string("# dscompile: after no-pass\n") + kMlp));
  DS_EXPECT_ERROR(Run(), kInvalidArgument, "names pass \"no-pass\"");
}

}  // namespace
}  // namespace deepslice
