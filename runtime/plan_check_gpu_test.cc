// GPU targets that pass the FlatBuffers verifier and make no sense: one field
// of a good plan is changed, and the error names it.
#include <functional>

#include "gtest/gtest.h"
#include "runtime/plan.h"
#include "schema/base/dtype.h"
#include "schema/base/status_matchers.h"
#include "tests/support/gpu_plan_builder.h"

namespace deepslice {
namespace {

using Tiny = TinyGpuPlan;

struct Case {
  const char* name;
  std::function<void(TestPlan&)> change;
  const char* wanted;  // part of the error
};

fb::ProgramT& Step(TestPlan& p) { return Tiny::Step(p); }
fb::ProgramT& Decode(TestPlan& p) { return Tiny::Decode(p); }
fb::LaunchStepT& Launch(TestPlan& p, int step) {
  return *Step(p).steps[step]->launch;
}
fb::GemmStepT& Gemm(TestPlan& p, int step) {
  return *Step(p).steps[step]->gemm;
}
fb::CollectiveStepT& Collective(TestPlan& p, int step) {
  return *Step(p).steps[step]->collective;
}
fb::BufferT& Buffer(TestPlan& p, const std::string& name) {
  for (auto& b : Step(p).buffers) {
    if (b->name == name) return *b;
  }
  ADD_FAILURE() << name;
  return *Step(p).buffers[0];
}
int32_t Index(TestPlan& p, const std::string& name) {
  for (size_t i = 0; i < Step(p).buffers.size(); ++i) {
    if (Step(p).buffers[i]->name == name) return static_cast<int32_t>(i);
  }
  ADD_FAILURE() << name;
  return 0;
}

const Case kCases[] = {
    // ---- kernels, sync words, programs
    {"KernelWithoutBytes",
     [](auto& p) { Tiny::Target(p).kernels[2]->bytes = 0; },
     "targets[1] (sm_90a): kernels[2] (_Z1k): offset 512 and 0 bytes more"},
    {"KernelPastTheEndOfNumbers",
     [](auto& p) { Tiny::Target(p).kernels[2]->offset = ~uint64_t{0}; },
     "kernels[2]"},
    {"KernelWithoutEntry",
     [](auto& p) { Tiny::Target(p).kernels[1]->entry = ""; }, "kernels[1]"},
    {"ServiceBeyondKernels", [](auto& p) { Tiny::Target(p).service = {8}; },
     "service: kernel 8 of 8"},
    {"ServiceBelowZero", [](auto& p) { Tiny::Target(p).service = {-1}; },
     "service: kernel -1"},
    {"SyncWordsBelowZero", [](auto& p) { Tiny::Target(p).sync_words = -1; },
     "sync_words: -1"},
    {"SyncWordsHuge",
     [](auto& p) { Tiny::Target(p).sync_words = int64_t{1} << 40; },
     "sync_words: 1099511627776; 0 to 268435456"},
    {"NoGeneralProgram",
     [](auto& p) {
       auto& programs = Tiny::Target(p).programs;
       programs.erase(programs.begin());
     },
     "no step program without a bucket"},
    {"BucketTwice", [](auto& p) { Decode(p).bucket = 0; },
     "programs: two of bucket 0"},
    {"BucketBelowZero", [](auto& p) { Decode(p).bucket = -2; }, "bucket -2"},
    {"BucketOtherThanTokens", [](auto& p) { Decode(p).dims[0]->maximum = 3; },
     "dims: T: maximum 3 in a program of bucket 2"},
    {"BucketOtherThanRows", [](auto& p) { Decode(p).dims[1]->maximum = 1; },
     "dims: R: maximum 1 in a program of bucket 2"},
    {"DimMissing", [](auto& p) { Decode(p).dims[2]->name = "Z"; },
     "inputs: blocks: i32[Z, B]; wanted i32[S, B]"},
    {"TilesWithoutTokens", [](auto& p) { Step(p).tile_tokens = 0; },
     "tile_tokens 0"},
    {"TileTokensInABucket", [](auto& p) { Decode(p).tile_tokens = 4; },
     "tile_tokens 4, bucket 2"},
    {"LogitsOfAnotherWidth", [](auto& p) { p.plan.vocab_size = 130; },
     "outputs: 1 of them, the first f32[R, 131]; wanted f32[R, 130] alone"},
    {"UnknownInput", [](auto& p) { Buffer(p, "tiles").name = "tales"; },
     "inputs: tales: no input of a step"},
    {"SamplersOfAnotherSize",
     [](auto& p) { Buffer(p, "samplers").extents[1] = fb::Extent(7, -1); },
     "inputs: samplers: u32[R, 7]; wanted u32[R, 8]"},
    {"TilesOfAnotherType",
     [](auto& p) {
       Buffer(p, "tiles").dtype = static_cast<uint8_t>(DType::kF32);
     },
     "inputs: tiles: f32[Q, 4]; wanted i32[Q, 4]"},

    // ---- launches
    {"LaunchTableMissing",
     [](auto& p) { Step(p).steps[Tiny::kNorm]->launch.reset(); },
     "steps[1] (normed): launch: the step's table is missing"},
    {"KernelBeyondTable", [](auto& p) { Launch(p, Tiny::kNorm).kernel = 8; },
     "steps[1] (normed): launch: kernel 8 of 8"},
    {"KernelBelowZero", [](auto& p) { Launch(p, Tiny::kNorm).kernel = -1; },
     "launch: kernel -1"},
    {"BufferBeyondTable",
     [](auto& p) {
       Launch(p, Tiny::kNorm).operands[0] =
           fb::OperandRef(fb::OperandKind::Buffer, 999);
     },
     "operands[0]: buffer 999 of"},
    {"WeightBeyondTable",
     [](auto& p) {
       Launch(p, Tiny::kNorm).operands[1] =
           fb::OperandRef(fb::OperandKind::Weight, -1);
     },
     "operands[1]: weight -1 of 10"},
    {"StateBeyondTable",
     [](auto& p) {
       Launch(p, Tiny::kAppend).operands[7] =
           fb::OperandRef(fb::OperandKind::State, 1);
     },
     "operands[7]: state 1 of 1"},
    {"SyncBeyondWords",
     [](auto& p) {
       Launch(p, Tiny::kSample).operands[3] =
           fb::OperandRef(fb::OperandKind::Sync, 64);
     },
     "operands[3]: sync word 64 of 64"},
    {"ScalesOfAFloatWeight",
     [](auto& p) {
       Launch(p, Tiny::kNorm).operands[2] =
           fb::OperandRef(fb::OperandKind::Scales, 2);
     },
     "operands[2]: weight 2 has no scales"},
    {"OperandKindUnknown",
     [](auto& p) {
       Launch(p, Tiny::kNorm).operands[2] =
           fb::OperandRef(static_cast<fb::OperandKind>(6), 0);
     },
     "operands[2]: kind 6"},
    {"TooManyParameters",
     [](auto& p) {
       Launch(p, Tiny::kNorm)
           .operands.resize(64, fb::OperandRef(fb::OperandKind::None, -1));
     },
     "launch: 64 operands and 1 outputs"},
    {"NoOutput", [](auto& p) { Launch(p, Tiny::kNorm).outputs = {}; },
     "outputs: there is none"},
    {"OutputBeyondTable",
     [](auto& p) { Launch(p, Tiny::kNorm).outputs = {999}; },
     "output: buffer 999"},
    {"OutputIsAnInput",
     [](auto& p) { Launch(p, Tiny::kNorm).outputs = {Index(p, "slots")}; },
     "output: an input of the program"},
    {"GridOfTwo", [](auto& p) { Launch(p, Tiny::kNorm).grid.pop_back(); },
     "launch: grid: 2 axes"},
    {"GridWithoutBlocks",
     [](auto& p) { Launch(p, Tiny::kNorm).grid[1] = fb::GridDim(0, 1, -1); },
     "launch: grid[1]: 0 times"},
    {"GridDimUnknown",
     [](auto& p) { Launch(p, Tiny::kNorm).grid[0] = fb::GridDim(1, 1, 5); },
     "launch: grid[0]: dim 5 of 5"},
    {"GridPerBlockZero",
     [](auto& p) { Launch(p, Tiny::kNorm).grid[0] = fb::GridDim(1, 0, 0); },
     "launch: grid[0]: per_block 0"},
    {"GridTooHigh",
     [](auto& p) {
       Launch(p, Tiny::kNorm).grid[1] = fb::GridDim(65536, 1, -1);
     },
     "launch: grid[1]: 65536 times: not 1 to 65535 blocks"},
    {"GridTooWide",
     [](auto& p) {
       Launch(p, Tiny::kNorm).grid[0] = fb::GridDim(int64_t{1} << 60, 1, 0);
     },
     "launch: grid[0]"},
    {"BlockOfTwo", [](auto& p) { Launch(p, Tiny::kNorm).block.pop_back(); },
     "launch: block: 2 axes"},
    {"BlockAxisTooLong",
     [](auto& p) {
       Launch(p, Tiny::kNorm).block = {1, 1, 65};
     },
     "launch: block[2]: 65 threads; 1 to 64"},
    {"BlockTooLarge",
     [](auto& p) {
       Launch(p, Tiny::kNorm).block = {64, 17, 1};
     },
     "launch: block: 1088 threads; up to 1024"},
    {"BlockEmpty",
     [](auto& p) {
       Launch(p, Tiny::kNorm).block = {0, 1, 1};
     },
     "launch: block[0]: 0 threads"},
    {"SharedTooLarge",
     [](auto& p) { Launch(p, Tiny::kNorm).shared_bytes = 232449; },
     "launch: shared_bytes 232449; up to 232448"},
    {"CpuStepOnAGpu",
     [](auto& p) {
       Step(p).steps[Tiny::kNorm]->kind = fb::StepKind::CpuOp;
       Step(p).steps[Tiny::kNorm]->cpu_op = std::make_unique<fb::CpuOpStepT>();
     },
     "cpu_op: only target cpu has them"},
    {"LaunchOnTheCpu",
     [](auto& p) {
       auto& step = *p.program().steps[0];
       step.kind = fb::StepKind::Launch;
       step.launch = std::make_unique<fb::LaunchStepT>();
     },
     "launch: target cpu has no kernels"},

    // ---- matrix products
    {"GemmTableMissing",
     [](auto& p) { Step(p).steps[Tiny::kQkv]->gemm.reset(); },
     "gemm: the step's table is missing"},
    {"GemmWeightUnknown", [](auto& p) { Gemm(p, Tiny::kQkv).weight = 10; },
     "gemm: weight 10 of 10"},
    {"GemmOfAVector", [](auto& p) { Gemm(p, Tiny::kQkv).weight = 1; },
     "weight 1: not two dims"},
    {"GemmOfOtherSizes", [](auto& p) { Gemm(p, Tiny::kQkv).weight = 0; },
     "gemm: f32[T, 20] to f32[T, 100]: weight 0 is f32[131, 20]"},
    {"GemmOfAnotherType",
     [](auto& p) {
       p.plan.weights[2]->encoding = static_cast<uint8_t>(Encoding::kBF16);
       p.plan.weights[2]->bytes /= 2;
     },
     "gemm: f32[T, 20] to f32[T, 100]: weight 2 is bf16[100, 20]"},
    {"GemmReadsInts",
     [](auto& p) { Gemm(p, Tiny::kQkv).a = Index(p, "blocks"); },
     "wanted f32, f16 or bf16 with two dims"},
    {"GemmOfOtherRows",
     [](auto& p) {
       Buffer(p, "qkv_rows").extents[0] = fb::Extent(0, 1);
       Step(p).slots[Buffer(p, "qkv_rows").slot]->dim = 1;
     },
     "gemm: f32[T, 20] to f32[R, 100]"},
    {"GemmResidualTooNarrow",
     [](auto& p) { Gemm(p, Tiny::kHead).residual = Index(p, "final"); },
     "residual f32[R, 20]"},
    {"GemmResidualUnknown", [](auto& p) { Gemm(p, Tiny::kHead).residual = -2; },
     "reads buffer -2"},
    {"GemmOutputTooLow",
     [](auto& p) {
       Buffer(p, "logits_part").extents[0] = fb::Extent(15, -1);
       Buffer(p, "gathered").extents[0] = fb::Extent(15, -1);
     },
     "gemm: f32[R, 20] to f32[15, 131]"},

    // ---- collectives
    {"SequenceOutOfOrder",
     [](auto& p) { Collective(p, Tiny::kGather).sequence = 2; },
     "collective: sequence 2; 1 comes next"},
    {"GatherOfNamedRows",
     [](auto& p) {
       Collective(p, Tiny::kGather).input = Index(p, "logits_part");
       Buffer(p, "logits_part").extents[0] = fb::Extent(0, 1);
       Buffer(p, "gathered").extents[0] = fb::Extent(0, 1);
       for (const char* name : {"logits_part", "gathered"}) {
         fb::SlotT& slot = *Step(p).slots[Buffer(p, name).slot];
         slot.dim = 1;
         slot.bytes_per_unit = 4 * 131;
       }
     },
     "wanted 1 equal parts with a fixed number of rows"},
    {"GatherOfUnequalParts",
     [](auto& p) { Collective(p, Tiny::kGather).columns = 130; },
     "of 130 columns: wanted 1 equal parts"},
    {"BroadcastOfTwoColumns",
     [](auto& p) { Collective(p, Tiny::kBroadcast).columns = 2; },
     "i32[R] to i32[R] of 2 columns: all three must agree"},
    {"BroadcastIntoAnInput",
     [](auto& p) { Collective(p, Tiny::kBroadcast).output = Index(p, "ids"); },
     "output: an input of the program"},

    // ---- copies
    {"CopyOfColumnsByName",
     [](auto& p) {
       fb::StepT& step = *Step(p).steps[Tiny::kNorm];
       step.kind = fb::StepKind::Copy;
       step.copy = std::make_unique<fb::CopyStepT>();
       step.copy->input = Index(p, "embedded");
       step.copy->output = Index(p, "normed");
       for (const char* name : {"embedded", "normed"}) {
         Buffer(p, name).extents = {fb::Extent(20, -1),
                                    fb::Extent(int64_t{1} << 40, 0)};
       }
     },
     "copy: f32[20, T]: only the first extent may be named"},

    // ---- lives
    {"ReadBeforeWritten",
     [](auto& p) {
       Launch(p, Tiny::kNorm).operands[0] =
           fb::OperandRef(fb::OperandKind::Buffer, Index(p, "rotated"));
     },
     "reads buffers[11] (rotated) before any step writes it"},
    {"WrittenTwice",
     [](auto& p) {
       Launch(p, Tiny::kAppend).outputs = {Index(p, "qkv_rows")};
       Launch(p, Tiny::kAttention).operands[0] =
           fb::OperandRef(fb::OperandKind::Buffer, Index(p, "qkv_rows"));
     },
     "which has its value already"},
    {"OperandOverwritten",
     [](auto& p) { Buffer(p, "normed").slot = Buffer(p, "embedded").slot; },
     "writes buffers[9] (normed) over buffers[8] (embedded) in slots[0], which "
     "is still needed"},
    {"ProductOverItsOperand",
     [](auto& p) {
       Buffer(p, "logits_part").slot = Buffer(p, "final").slot;
       Step(p).slots[Buffer(p, "final").slot]->bytes = 16 * 4 * 131;
     },
     "writes buffers[16] (logits_part) over buffers[15] (final)"},
    {"OtherTypeInAnOperandsPlace",
     [](auto& p) { Buffer(p, "logits").slot = Buffer(p, "gathered").slot; },
     "writes buffers[18] (logits) over buffers[17] (gathered)"},
    {"ScratchOverAnOperand",
     [](auto& p) {
       Buffer(p, "scratch").slot = Buffer(p, "logits").slot;
       Step(p).slots[Buffer(p, "logits").slot]->bytes = 512;
     },
     "writes buffers[19] (scratch) over buffers[18] (logits)"},
    {"TwoResultsInOneSlot",
     [](auto& p) {
       Buffer(p, "rotated").slot = Buffer(p, "attended").slot;
       Launch(p, Tiny::kAppend).outputs = {Index(p, "rotated"),
                                           Index(p, "attended")};
       auto& steps = Step(p).steps;
       steps[Tiny::kAttention]->launch->outputs = {Index(p, "sampled")};
     },
     "writes buffers[12] (attended) over buffers[11] (rotated)"},
    {"SlotTooSmall",
     [](auto& p) {
       Step(p).slots[Buffer(p, "attended").slot]->bytes_per_unit -= 4;
     },
     "buffers[12] (attended): needs 240 bytes for each T"},
    {"SecondStream", [](auto& p) { Step(p).steps[1]->stream = 1; },
     "steps[1] (normed): stream 1; 0 is allowed"},
};

class PlanCheckGpu : public testing::TestWithParam<Case> {};

TEST(PlanCheckGpu, TakesTheGoodPlan) {
  DS_ASSERT_OK(TinyGpuPlan().Build().Load());
}

TEST(PlanCheckGpu, TakesAPlanWithoutTheCpu) {
  TestPlan plan = TinyGpuPlan().Build();
  plan.plan.targets.erase(plan.plan.targets.begin());
  DS_ASSERT_OK_AND_ASSIGN(const Plan loaded, plan.Load());
  EXPECT_EQ(loaded.FindProgram("cpu", fb::ProgramKind::Step), nullptr);
  EXPECT_EQ(loaded.FindProgram("sm_90a", fb::ProgramKind::Step)->bucket(), 0);
}

TEST_P(PlanCheckGpu, RejectsSenselessPlan) {
  TestPlan plan = TinyGpuPlan().Build();
  GetParam().change(plan);
  DS_EXPECT_ERROR(plan.Load(), kDataLoss, GetParam().wanted);
}

INSTANTIATE_TEST_SUITE_P(All, PlanCheckGpu, testing::ValuesIn(kCases),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

}  // namespace
}  // namespace deepslice
