// Plans with GPU targets, from checkpoint to the reader's checks. The kernels'
// images are made up here: what they hold is other tests' subject.
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/gpu/gpu_plan.h"
#include "compiler/plan_writer.h"
#include "compiler/test_graphs.h"
#include "gtest/gtest.h"
#include "runtime/plan.h"
#include "schema/base/digest.h"
#include "schema/base/file.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

// An image is its kernel's name, so that equal kernels give equal images.
class NamingCompiler : public KernelCompiler {
 public:
  absl::StatusOr<std::vector<CompiledKernel>> CompileAll(
      absl::Span<const KernelSpec> specs, const GpuTarget& target) override {
    std::vector<CompiledKernel> out;
    for (const KernelSpec& k : specs) {
      EXPECT_TRUE(
          seen_.insert(absl::StrCat(target.name, " ", k.source, " ", k.entry))
              .second)
          << "compiled twice: " << k.entry;
      CompiledKernel& kernel = out.emplace_back();
      kernel.image = absl::StrCat(target.name, " ", k.entry);
      kernel.entry = "_Z1k";
    }
    return out;
  }
  const std::string& version() const override { return version_; }
  int cached() const override { return 0; }
  int compiled() const override { return 0; }

 private:
  const std::string version_ = "0.0";
  std::set<std::string> seen_;
};

std::vector<CompileTarget> Targets(const std::vector<const char*>& names) {
  std::vector<CompileTarget> out;
  for (const char* n : names) out.push_back(*ParseTarget(n));
  return out;
}

std::vector<const Graph*> Pointers(const std::vector<Graph>& graphs) {
  std::vector<const Graph*> out;
  for (const Graph& g : graphs) out.push_back(&g);
  return out;
}

StepCeilings Ceilings() {
  StepCeilings c;
  c.max_seq_len = 100;
  c.max_batch = 3;
  c.max_step_tokens = 50;
  c.kv_block = 16;
  return c;
}

struct Case {
  const char* model;
  int tp;
  const char* dtype;
  std::vector<const char*> targets;
};

class GpuPlansTest : public testing::TestWithParam<Case> {
 protected:
  // Writes the plan of the case to `folder`.
  absl::Status Write(const std::string& folder) {
    const Case& c = GetParam();
    DS_ASSIGN_OR_RETURN(const auto checkpoint,
                        OpenCheckpoint(GoldenCasePath(c.model)));
    const std::vector<Graph> graphs = SlicedGraphs(*checkpoint, c.tp, c.dtype);
    const std::vector<CompileTarget> targets = Targets(c.targets);
    PlanContents contents;
    contents.family = "test";
    contents.vocab_size = graphs[0].returns()[0]->type.dims[1].size;
    contents.max_positions = 100;
    contents.ceilings = Ceilings();
    if (c.model == absl::string_view("clip")) {
      contents.ceilings.max_images = 4;
      contents.ceilings.image_tokens = 10;
    }
    if (absl::StrContains(c.model, "t5")) {
      contents.ceilings.max_source_tokens = 40;
    }
    contents.options = json::Value::Object();
    contents.coverage = json::Value::Object();
    contents.cpu = targets[0].cpu;
    contents.encodes = graphs[0].states().empty();
    DS_ASSIGN_OR_RETURN(
        GpuPlans gpu,
        LowerForTargets(Pointers(graphs), contents.ceilings, targets));
    DS_RETURN_IF_ERROR(CheckGpuCollectives(gpu));
    NamingCompiler compiler;
    DS_RETURN_IF_ERROR(CompileKernels(compiler, nullptr, &gpu));
    contents.gpu = &gpu;
    WriteOptions options;
    options.output = folder;
    return WritePlan(CheckpointSupply(*checkpoint), Pointers(graphs), contents,
                     options)
        .status();
  }
};

TEST_P(GpuPlansTest, TheReaderTakesWhatTheWriterWrites) {
  const Case& c = GetParam();
  const TempFolder temp;
  const std::string folder = JoinPath(temp.path(), "plan");
  DS_ASSERT_OK(Write(folder));
  DS_ASSERT_OK_AND_ASSIGN(const std::string images,
                          ReadFile(JoinPath(folder, "kernels.bin"), 1 << 24));
  const bool cpu = std::string(c.targets[0]) == "cpu";
  for (int rank = 0; rank < c.tp; ++rank) {
    DS_ASSERT_OK_AND_ASSIGN(const Plan plan, Plan::Load(folder, rank));
    ASSERT_EQ(plan.fb().targets()->size(), c.targets.size());
    // Encoders have no buckets; others those of 1, 2 and 3.
    const bool encodes = plan.fb().states()->size() == 0;
    const auto kind = encodes ? fb::ProgramKind::Encode : fb::ProgramKind::Step;
    EXPECT_EQ(plan.FindProgram("cpu", kind) != nullptr, cpu);
    EXPECT_NE(plan.FindProgram("sm_90a", kind), nullptr);
    for (const fb::Weight* w : *plan.fb().weights()) {
      EXPECT_EQ(w->residency(),
                cpu ? fb::Residency::Host : fb::Residency::Device);
    }
    for (const fb::Target* t : *plan.fb().targets()) {
      if (t->name()->str() == "cpu") continue;
      ASSERT_EQ(t->programs()->size(), encodes ? 1u : 4u);
      EXPECT_GT(t->service()->size(), 0u);
      for (const fb::Kernel* k : *t->kernels()) {
        ASSERT_LE(k->offset() + k->bytes(), images.size());
        EXPECT_EQ(k->offset() % 256, 0u);
        EXPECT_EQ(k->xxh3(), Xxh3(absl::string_view(images).substr(
                                 k->offset(), k->bytes())));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, GpuPlansTest, testing::ValuesIn([] {
      std::vector<Case> cases;
      for (const char* model :
           {"llama-gqa-tied", "gpt2", "qwen2", "mistral-window"}) {
        for (const int tp : {1, 2, 3}) {
          for (const char* dtype : {"fp32", "fp16", "bf16"}) {
            cases.push_back({model, tp, dtype, {"sm_90a"}});
          }
        }
      }
      // What each of these alone has: slopes, norms of heads, softcaps, factors,
      // sums of squares, two rotary tables, one that is stretched.
      for (const char* model : {"bloom", "cohere-qk-norm", "gemma2", "granite",
                                "llama-dynamic", "olmo2", "phi3-longrope"}) {
        cases.push_back({model, 1, "fp32", {"sm_90a"}});
        cases.push_back({model, 2, "bf16", {"sm_90a"}});
      }
      for (const char* model : {"bert-tokens", "distilbert-mlm", "clip"}) {
        cases.push_back({model, 1, "fp32", {"sm_90a"}});
        cases.push_back({model, 3, "bf16", {"cpu", "sm_90a"}});
      }
      for (const char* model : {"t5", "mt5-silu"}) {
        cases.push_back({model, 1, "fp32", {"sm_90a"}});
        cases.push_back({model, 3, "bf16", {"cpu", "sm_90a"}});
      }
      cases.push_back({"gpt2", 2, "bf16", {"cpu", "sm_90a", "compute_80"}});
      return cases;
    }()),
    [](const auto& info) {
      std::string name =
          absl::StrCat(info.param.model, "_tp", info.param.tp, "_",
                       info.param.dtype, "_", info.param.targets.size());
      for (char& c : name) c = c == '-' ? '_' : c;
      return name;
    });

TEST(GpuPlans, RefusesWhatTheNamedCardCannotHold) {
  const std::vector<Graph> graphs = GoldenGraphs("llama-gqa-tied", 1, "bf16");
  std::vector<CompileTarget> targets = Targets({"sm_90a"});
  StepCeilings ceilings = Ceilings();
  DS_ASSERT_OK_AND_ASSIGN(GpuPlans gpu,
                          LowerForTargets(Pointers(graphs), ceilings, targets));
  const std::vector<uint64_t> weights = {3'000'000'000};
  // A card that nobody named has any size.
  DS_ASSERT_OK(CheckDeviceMemory(gpu, Pointers(graphs), weights, ceilings));
  gpu.targets[0].target.device_memory = 3'100'000'000;
  DS_ASSERT_OK(CheckDeviceMemory(gpu, Pointers(graphs), weights, ceilings));
  gpu.targets[0].target.device_memory = 2'990'000'000;
  DS_EXPECT_ERROR(
      CheckDeviceMemory(gpu, Pointers(graphs), weights, ceilings),
      kFailedPrecondition,
      "target sm_90a: rank 0 needs 3.00 GB (weights 3.00, arena 0.00, cache "
      "0.00), the GPU (--target, --device-memory) has 2.99; use more ranks");
}

}  // namespace
}  // namespace deepslice
