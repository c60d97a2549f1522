// Plans that pass the FlatBuffers verifier and make no sense: one field of a
// good plan is changed, and the error names it.
#include <cmath>
#include <functional>

#include "gtest/gtest.h"
#include "runtime/plan.h"
#include "schema/base/status_matchers.h"
#include "schema/synthetic.h"
#include "tests/support/plan_builder.h"

namespace deepslice {
namespace {

struct Case {
  const char* name;
  std::function<void(TestPlan&)> change;
  const char* wanted;  // part of the error
};

// Steps of the tiny llama.
enum : int {
  kEmbed,
  kNorm,
  kQkv,
  kAttention,
  kAttnOut,
  kMlpNorm,
  kGateUp,
  kGated,
  kMlpOut,
  kGather,
  kFinalNorm,
  kLogits
};

fb::CpuOpStepT& Op(TestPlan& p, int step) { return *p.step(step).cpu_op; }
fb::BufferT& Result(TestPlan& p, int step) {
  return *p.program().buffers[Op(p, step).output];
}
fb::SlotT& SlotOf(TestPlan& p, int step) {
  return *p.program().slots[Result(p, step).slot];
}
void SetOperand(TestPlan& p, int step, int i, fb::OperandKind kind, int index) {
  Op(p, step).operands[i] = fb::OperandRef(kind, index);
}
void SetAttr(TestPlan& p, int step, int attr, int64_t i, double f = 0) {
  Op(p, step).attrs[attr] = fb::AttrValue(i, f);
}

// Weight 0, the embedding of 131 rows, made up behind the file: two pieces.
fb::WeightT& MakeUp(TestPlan& p) {
  fb::WeightT& w = *p.plan.weights[0];
  w.origin = fb::WeightOrigin::Synthetic;
  w.offset = (p.weights.size() + 255) / 256 * 256;
  w.pieces = {fb::SyntheticPiece(1, 0, 2, 66, 0, 3),
              fb::SyntheticPiece(2, 1, 2, 65, 7, 0)};
  return w;
}

using Q = attr::QkvAttention;

const Case kCases[] = {
    // ---- mesh, groups, states, text
    {"WorldSizeZero", [](auto& p) { p.plan.world_size = 0; }, "world_size: 0"},
    {"WorldSizeHuge", [](auto& p) { p.plan.world_size = 4097; },
     "world_size: 4097; 1 to 4096"},
    {"RankBeyondWorld", [](auto& p) { p.plan.rank = 1; }, "rank: 1 of 1"},
    {"PlanSetIdEmpty", [](auto& p) { p.plan.plan_set_id = ""; },
     "plan_set_id: 0 bytes"},
    {"AxisCoordinate",
     [](auto& p) {
       p.plan.mesh.push_back(std::make_unique<fb::AxisT>());
       p.plan.mesh[0]->name = "tp";
       p.plan.mesh[0]->size = 2;
       p.plan.mesh[0]->coordinate = 2;
     },
     "mesh: axis tp: coordinate 2 of 2"},
    {"GroupWithoutOwnRank", [](auto& p) { p.plan.groups[0]->ranks = {}; },
     "groups[0]: rank 0 is not in it"},
    {"GroupRankBeyondWorld",
     [](auto& p) {
       p.plan.groups[0]->ranks = {0, 4};
     },
     "groups[0]: ranks[1]: 4"},
    {"GroupKindUnknown", [](auto& p) { p.plan.groups[0]->kind = 5; },
     "groups[0]: kind 5"},
    {"StateBlockBytes", [](auto& p) { p.plan.states[0]->bytes_per_block -= 4; },
     "states[0] (cache): bytes_per_block: 636; keys and values of a block "
     "take 640"},
    {"StateEncodingInt8", [](auto& p) { p.plan.states[0]->encoding = 3; },
     "states[0] (cache): encoding 3"},
    {"StateKindUnknown",
     [](auto& p) { p.plan.states[0]->kind = fb::StateKind(9); }, "kind 9"},
    {"StateBlockTokensZero",
     [](auto& p) { p.plan.states[0]->block_tokens = 0; }, "block_tokens 0"},
    {"VocabNegative", [](auto& p) { p.plan.vocab_size = -1; }, "vocab_size -1"},
    {"SelfTestIdBeyondVocab",
     [](auto& p) {
       p.plan.self_tests.push_back(std::make_unique<fb::SelfTestT>());
       p.plan.self_tests[0]->prompt = {130, 131};
     },
     "self_tests[0]: id 131; 0 to 130"},
    {"InputOfALongName",  // is cut where it is printed
     [](auto& p) {
       p.program().buffers[p.program().inputs[0]]->name =
           std::string(200, 'x') + "y";
     },
     "xx: no input of a step"},
    {"MoreRenderTestsThanAllowed",
     [](TestPlan& p) {
       for (int i = 0; i < 1025; ++i) {
         p.plan.render_tests.push_back(std::make_unique<fb::RenderTestT>());
       }
     },
     "render_tests: 1025; 1024 of each are allowed"},
    {"ReferenceThatIsNoStep",
     [](TestPlan& p) {
       p.plan.reference = std::make_unique<fb::ProgramT>(p.program());
       p.plan.reference->kind = fb::ProgramKind::MAX;
     },
     "reference: kind"},
    {"ReferenceOfAnOpThatIsNone",
     [](TestPlan& p) {
       p.plan.reference = std::make_unique<fb::ProgramT>(p.program());
       p.plan.reference->steps[0]->cpu_op->op = 999;
     },
     "reference: steps[0]"},
    {"ReferenceOutsideItsBuffers",
     [](TestPlan& p) {
       p.plan.reference = std::make_unique<fb::ProgramT>(p.program());
       p.plan.reference->steps[0]->cpu_op->output = 1 << 20;
     },
     "reference: steps[0]"},
    {"TopPAboveOne",
     [](auto& p) {
       p.plan.generation = std::make_unique<fb::GenerationDefaultsT>();
       p.plan.generation->top_p = 1.5f;
     },
     "generation: "},
    {"MinPBelowZero",
     [](auto& p) {
       p.plan.generation = std::make_unique<fb::GenerationDefaultsT>();
       p.plan.generation->min_p = -0.5f;
     },
     "generation: min_p -0.5"},
    {"NoBeams",
     [](auto& p) {
       p.plan.generation = std::make_unique<fb::GenerationDefaultsT>();
       p.plan.generation->num_beams = 0;
     },
     "num_beams 0"},
    {"SuppressedIdBeyondVocab",
     [](auto& p) {
       p.plan.generation = std::make_unique<fb::GenerationDefaultsT>();
       p.plan.generation->suppress_tokens = {130, 131};
     },
     "suppress_tokens: id 131; 0 to 130"},
    // ---- weights
    {"WeightBeyondFile",
     [](auto& p) { p.plan.weights[9]->offset = uint64_t{1} << 40; },
     "weights[9] (@lm_head): offset: bytes 1099511627776"},
    {"WeightOffsetWraps",
     [](auto& p) { p.plan.weights[9]->offset = ~uint64_t{255}; },
     "weights[9] (@lm_head): offset: bytes 18446744073709551360"},
    {"WeightUnaligned", [](auto& p) { p.plan.weights[1]->offset += 64; },
     "multiples of 256"},
    {"WeightsOverlap",
     [](auto& p) {
       p.plan.weights[1]->offset = p.plan.weights[0]->offset + 256;
     },
     "weights[1] (@attn_norm): offset: 256 lies inside weights[0] (@embed)"},
    {"WeightBytesUnlikeShape", [](auto& p) { p.plan.weights[0]->bytes -= 4; },
     "bytes: 10476; 2620 elements of f32 take 10480"},
    {"WeightShapeOverflows",
     [](auto& p) {
       p.plan.weights[0]->shape = {int64_t{1} << 32, int64_t{1} << 32};
     },
     "shape: dim 4294967296"},
    {"WeightShapeNegative",
     [](auto& p) {
       p.plan.weights[0]->shape = {-131, -20};
     },
     "shape: dim -131"},
    {"WeightShapeOfThree",
     [](auto& p) {
       p.plan.weights[0]->shape = {131, 4, 5};
     },
     "shape: 3 dims"},
    {"WeightEncodingUnknown", [](auto& p) { p.plan.weights[0]->encoding = 6; },
     "weights[0] (@embed): encoding 6"},
    {"MadeUpInsideTheFile", [](auto& p) { MakeUp(p).offset = 0; },
     "weights[0] (@embed): offset: 0; what is made up comes after the file's"},
    {"MadeUpUnaligned", [](auto& p) { MakeUp(p).offset += 64; },
     "multiples of 256"},
    {"MadeUpBeyondAnyMemory",
     [](auto& p) { MakeUp(p).offset = uint64_t{1} << 60; },
     "weights[0] (@embed): offset: bytes 1152921504606846976"},
    {"MadeUpQuantised",
     [](auto& p) {
       MakeUp(p).encoding = static_cast<uint8_t>(Encoding::kI8Row);
       p.plan.weights[0]->bytes /= 4;
     },
     "origin: made up, of encoding i8_row"},
    {"MadeUpWithoutPieces", [](auto& p) { MakeUp(p).pieces.clear(); },
     "pieces: absent"},
    {"MadeUpRowsMissing", [](auto& p) { MakeUp(p).pieces.pop_back(); },
     "pieces: 66 rows or more; the weight has 131"},
    {"MadeUpRowBeyondWeight",
     [](auto& p) {
       MakeUp(p).pieces[1] = fb::SyntheticPiece(2, 2, 2, 66, 7, 0);
     },
     "pieces[1]: 66 rows from 2 by 2"},
    {"MadeUpRowNegative",
     [](auto& p) {
       MakeUp(p).pieces[1] = fb::SyntheticPiece(2, -1, 2, 65, 7, 0);
     },
     "pieces[1]: 65 rows from -1"},
    {"MadeUpSourceNegative",
     [](auto& p) {
       MakeUp(p).pieces[0] = fb::SyntheticPiece(1, 0, 2, 66, 0, -3);
     },
     "of the source's 0 and -3 on"},
    {"MadeUpScaleNan", [](auto& p) { MakeUp(p).synthetic_scale = NAN; },
     "synthetic_scale nan"},
    {"WeightRoleUnknown", [](auto& p) { p.plan.weights[0]->role = 200; },
     "role 200"},
    {"ScalesMissing",
     [](auto& p) {
       p.plan.weights[0]->encoding = static_cast<uint8_t>(Encoding::kI8Row);
       p.plan.weights[0]->bytes /= 4;
     },
     "scales_bytes: 0; 131 rows take 524"},
    {"HashesMissing", [](auto& p) { p.plan.weights_xxh3.clear(); },
     "weights_xxh3: 0 entries"},
    // ---- targets and programs
    {"NoTarget", [](auto& p) { p.plan.targets.clear(); },
     "targets: there is none"},
    {"TargetTwice",
     [](auto& p) {
       p.plan.targets.push_back(std::make_unique<fb::TargetT>());
       p.plan.targets[1]->name = "cpu";
     },
     "targets[1] (cpu): there twice"},
    {"ProgramKindUnknown",
     [](auto& p) { p.program().kind = fb::ProgramKind(17); }, "kind 17"},
    {"NoSteps", [](auto& p) { p.program().steps.clear(); },
     "steps: there is none"},
    {"NoOutputs", [](auto& p) { p.program().outputs.clear(); },
     "outputs: there is none"},
    {"OutputIsAnInput", [](auto& p) { p.program().outputs = {0}; },
     "outputs: buffer 0"},
    {"OutputBeyondBuffers", [](auto& p) { p.program().outputs = {99}; },
     "outputs: buffer 99"},
    {"OutputNeverWritten", [](auto& p) { p.program().steps.pop_back(); },
     "outputs: no step writes"},
    {"DimMaximumZero", [](auto& p) { p.program().dims[0]->maximum = 0; },
     "dims[0] (T): maximum 0"},
    {"DimMaximumHuge",
     [](auto& p) { p.program().dims[3]->maximum = int64_t{1} << 62; },
     "dims[3] (B): maximum 4611686018427387904"},
    {"DimTwice", [](auto& p) { p.program().dims[1]->name = "T"; },
     "dims[1] (T): there twice"},
    {"InputOfAnotherShape",
     [](auto& p) { p.program().buffers[0]->extents = {fb::Extent(0, 1)}; },
     "inputs: ids: i32[R]; wanted i32[T]"},
    {"InputOfAnotherName",
     [](auto& p) { p.program().buffers[0]->name = "ids2"; },
     "inputs: ids2: no input of a step"},
    {"InputTwice", [](auto& p) { p.program().inputs.push_back(0); },
     "inputs: ids: there twice"},
    {"InputInASlot", [](auto& p) { p.program().buffers[0]->slot = 0; },
     "steps on the CPU make f32 with 2 dims"},
    {"BufferNowhere", [](auto& p) { Result(p, kNorm).slot = -1; },
     "neither an input nor in a slot"},
    {"BufferSlotBeyond", [](auto& p) { Result(p, kNorm).slot = 50; },
     "slot 50 of 12"},
    {"BufferExtentBeyondDims",
     [](auto& p) { Result(p, kNorm).extents[0] = fb::Extent(0, 4); },
     "extents: dim 4 of 4"},
    {"BufferExtentNegative",
     [](auto& p) { Result(p, kNorm).extents[1] = fb::Extent(-20, -1); },
     "extents: size -20"},
    {"BufferInt8", [](auto& p) { Result(p, kNorm).dtype = 4; }, "i8 with 2"},
    {"BufferTwoNamedDims",
     [](auto& p) { Result(p, kNorm).extents[1] = fb::Extent(0, 0); },
     "the second fixed"},
    {"SlotTooSmall", [](auto& p) { SlotOf(p, kQkv).bytes_per_unit -= 1; },
     "needs 400 bytes for each T; slots[2] has 0 and 399 for each of dim 0"},
    {"SlotOfAnotherDim", [](auto& p) { SlotOf(p, kQkv).dim = 2; },
     "slots[2] has 0 and 400 for each of dim 2"},
    {"SlotDimBeyond", [](auto& p) { SlotOf(p, kQkv).dim = 4; },
     "slots[2]: dim 4 of 4"},
    {"SlotNegative", [](auto& p) { SlotOf(p, kQkv).bytes = -1; },
     "slots[2]: bytes -1"},
    {"SlotOverflows",
     [](auto& p) { SlotOf(p, kQkv).bytes_per_unit = int64_t{1} << 61; },
     "slots[2]: "},
    // ---- steps
    {"StepWithoutTable", [](auto& p) { p.step(kNorm).cpu_op.reset(); },
     "steps[1] (normed): cpu_op: the step's table is missing"},
    {"StepKindUnknown", [](auto& p) { p.step(kNorm).kind = fb::StepKind(7); },
     "steps[1] (normed): kind 7"},
    {"LaunchOnTheCpu",
     [](auto& p) {
       p.step(kNorm).kind = fb::StepKind::Launch;
       p.step(kNorm).launch = std::make_unique<fb::LaunchStepT>();
     },
     "launch: target cpu has no kernels"},
    {"WaitsForALaterStep", [](auto& p) { p.step(kNorm).waits = {1}; },
     "waits: step 1"},
    {"StreamNegative", [](auto& p) { p.step(kNorm).stream = -1; }, "stream -1"},
    {"OpUnknown", [](auto& p) { Op(p, kNorm).op = 999; }, "op 999"},
    {"OpIsACollective",
     [](auto& p) {
       Op(p, kNorm).op = static_cast<uint16_t>(OpKind::kAllReduce);
     },
     "op 14: no op of the CPU back end"},
    {"OperandKindUnknown",
     [](auto& p) { SetOperand(p, kNorm, 0, fb::OperandKind(3), 0); },
     "operands[0]: kind 3"},
    {"OperandBufferBeyond",
     [](auto& p) { SetOperand(p, kNorm, 0, fb::OperandKind::Buffer, 17); },
     "operands[0]: buffer 17 of 17"},
    {"OperandWeightNegative",
     [](auto& p) { SetOperand(p, kNorm, 1, fb::OperandKind::Weight, -1); },
     "operands[1]: weight -1 of 10"},
    {"OperandMissing",
     [](auto& p) { SetOperand(p, kNorm, 1, fb::OperandKind::None, -1); },
     "rms_norm: operand scale: is missing"},
    {"OperandsCut", [](auto& p) { Op(p, kNorm).operands.clear(); },
     "rms_norm: operand x: is missing"},
    {"OperandsTooMany", [](auto& p) { Op(p, kNorm).operands.resize(9); },
     "rms_norm: operands: 9; 2 are allowed"},
    {"WeightForABuffer",
     [](auto& p) { SetOperand(p, kNorm, 0, fb::OperandKind::Weight, 0); },
     "operand x: wanted a buffer"},
    {"BufferForAWeight",
     [](auto& p) { SetOperand(p, kQkv, 1, fb::OperandKind::Buffer, 5); },
     "operand w: wanted a weight"},
    {"IntegersForFloats",
     [](auto& p) { SetOperand(p, kNorm, 0, fb::OperandKind::Buffer, 3); },
     "operand x: i32[S, B]; f32 with a fixed second dim"},
    {"FloatsForIntegers",
     [](auto& p) { SetOperand(p, kGather, 1, fb::OperandKind::Buffer, 5); },
     "operand rows: f32[T, 20] embedded"},
    {"SlotsForRows",
     [](auto& p) { SetOperand(p, kGather, 1, fb::OperandKind::Buffer, 2); },
     "operand rows: i32[T] slots; the program's input of that name"},
    {"AttrsCut", [](auto& p) { Op(p, kNorm).attrs.clear(); },
     "attrs: 0; wanted 1"},
    {"EpsNotANumber", [](auto& p) { SetAttr(p, kNorm, 0, 0, NAN); },
     "eps: nan"},
    {"EpsNegative", [](auto& p) { SetAttr(p, kNorm, 0, 0, -1); }, "eps: -1"},
    {"ActUnknown", [](auto& p) { SetAttr(p, kGated, 0, 7); },
     "kind: 7; 0 to 6"},
    {"EnumNegative", [](auto& p) { SetAttr(p, kGated, 0, -1); }, "kind: -1"},
    {"EmbedBegin", [](auto& p) { SetAttr(p, kEmbed, 0, int64_t{1} << 60); },
     "begin: "},
    {"LinearShape",
     [](auto& p) { SetOperand(p, kQkv, 1, fb::OperandKind::Weight, 4); },
     "linear: w: [20, 60]; wanted [20, 20]"},
    {"LinearResult",
     [](auto& p) { SetOperand(p, kQkv, 1, fb::OperandKind::Weight, 0); },
     "linear: result: [T, 100]; wanted [T, 131]"},
    {"LinearBias",
     [](auto& p) { SetOperand(p, kQkv, 2, fb::OperandKind::Weight, 1); },
     "linear: bias: [20]; wanted [100]"},
    {"LinearResidual",
     [](auto& p) { SetOperand(p, kQkv, 3, fb::OperandKind::Buffer, 5); },
     "linear: residual: [T, 20]; wanted [T, 100]"},
    {"LinearVector",
     [](auto& p) { SetOperand(p, kQkv, 1, fb::OperandKind::Weight, 1); },
     "linear: w: [20]; wanted 2 dims"},
    {"NormScale",
     [](auto& p) { SetOperand(p, kNorm, 1, fb::OperandKind::Weight, 3); },
     "rms_norm: scale: [5]; wanted [20]"},
    {"NormRows",
     [](auto& p) { SetOperand(p, kFinalNorm, 0, fb::OperandKind::Buffer, 5); },
     "rms_norm: result: [R, 20]; wanted [T, 20]"},
    {"GatherResult",
     [](auto& p) {
       Result(p, kGather).extents[0] = fb::Extent(0, 0);
       SlotOf(p, kGather).dim = 0;
     },
     "gather_rows: result: [T, 20]; wanted [R, 20]"},
    {"HeadsBeyondTheRow", [](auto& p) { SetAttr(p, kAttention, Q::heads, 7); },
     "group 3, head_offset 0: the last of 7 heads reads no KV head of 2"},
    {"HeadsUnlikeTheRow", [](auto& p) { SetAttr(p, kAttention, Q::heads, 5); },
     "qkv: [T, 100]; wanted [T, 90]"},
    {"GroupZero", [](auto& p) { SetAttr(p, kAttention, Q::group, 0); },
     "group 0"},
    {"HeadOffset", [](auto& p) { SetAttr(p, kAttention, Q::head_offset, 1); },
     "head_offset 1: the last of 6 heads reads no KV head of 2"},
    {"KvHeadsUnlikeTheState",
     [](auto& p) { SetAttr(p, kAttention, Q::kv_heads, 3); },
     "kv_heads 3, head_dim 10; states[0] has 2 and 10"},
    {"HeadDimNegative",
     [](auto& p) { SetAttr(p, kAttention, Q::head_dim, -10); },
     "head_dim: -10"},
    {"RotaryOdd", [](auto& p) { SetAttr(p, kAttention, Q::rotary_dim, 9); },
     "rotary_dim: 9; even numbers up to 10"},
    {"RotaryBeyondHead",
     [](auto& p) { SetAttr(p, kAttention, Q::rotary_dim, 12); },
     "rotary_dim: 12"},
    {"FreqsCut", [](auto& p) { SetAttr(p, kAttention, Q::rotary_dim, 8); },
     "freqs: [5]; wanted [4]"},
    {"WindowNegative", [](auto& p) { SetAttr(p, kAttention, Q::window, -1); },
     "window: -1"},
    {"StateMissing", [](auto& p) { Op(p, kAttention).state = -1; },
     "qkv_attention: state -1 of 1"},
    {"StateBeyond", [](auto& p) { Op(p, kAttention).state = 1; },
     "qkv_attention: state 1 of 1"},
    {"StateOfAPureOp", [](auto& p) { Op(p, kNorm).state = 0; },
     "state 0: the op has none"},
    // ---- lives
    {"ReadBeforeWrite",
     [](auto& p) { std::swap(p.program().steps[0], p.program().steps[1]); },
     "steps[0] (normed): reads buffers[5] (embedded) before any step"},
    {"ReadsItsOwnResult",
     [](auto& p) {
       SetOperand(p, kNorm, 0, fb::OperandKind::Buffer, Op(p, kNorm).output);
     },
     "steps[1] (normed): reads buffers[6] (normed) before any step"},
    {"WrittenTwice",
     [](auto& p) { Op(p, kMlpNorm).output = Op(p, kNorm).output; },
     "steps[5] (mlp_in): writes buffers[6] (normed), which has its value"},
    {"OutputIsAnInputOfTheProgram", [](auto& p) { Op(p, kNorm).output = 1; },
     "output: an input of the program"},
    {"LiveBuffersShareASlot",
     [](auto& p) { Result(p, kNorm).slot = Result(p, kEmbed).slot; },
     "steps[1] (normed): writes buffers[6] (normed) over buffers[5] "
     "(embedded) in slots[0], which is still needed"},
    {"OutputOverwritten",
     [](auto& p) {
       auto copy = std::make_unique<fb::StepT>();
       copy->name = "again";
       copy->kind = fb::StepKind::Copy;
       copy->copy = std::make_unique<fb::CopyStepT>();
       copy->copy->input = Op(p, kLogits).output;
       copy->copy->output = static_cast<int>(p.program().buffers.size());
       p.program().buffers.push_back(
           std::make_unique<fb::BufferT>(Result(p, kLogits)));
       p.program().steps.push_back(std::move(copy));
     },
     "steps[12] (again): writes buffers[17] (logits) over buffers[16]"},
    {"InputOfALinearOverwritten",
     [](auto& p) {
       Result(p, kGateUp).slot = Result(p, kMlpNorm).slot;
       SlotOf(p, kMlpNorm).bytes_per_unit = 224;
     },
     "steps[6] (gate_up_rows): writes"},
};

class PlanCheck : public testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(All, PlanCheck, testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST_P(PlanCheck, RejectsSenselessPlan) {
  TestPlan plan = TinyLlama().Build();
  DS_ASSERT_OK(plan.Load());
  GetParam().change(plan);
  DS_EXPECT_ERROR(plan.Load(), kDataLoss, GetParam().wanted);
  DS_EXPECT_ERROR(plan.Load(), kDataLoss, "test: ");
}

TEST(PlanCheckEncodings, NamesWhatTheKernelLacks) {
  TestPlan plan = TinyLlama().Build();
  fb::WeightT& embed = *plan.plan.weights[0];
  embed.encoding = static_cast<uint8_t>(Encoding::kI8Group);
  embed.bytes /= 4;
  DS_EXPECT_ERROR(plan.Load(), kUnimplemented, "embed: table: i8_group");
}

TEST(PlanCheckLives, DeadBuffersMayShareASlot) {
  TestPlan plan = TinyLlama().Build();
  Result(plan, kAttention).slot = Result(plan, kNorm).slot;
  SlotOf(plan, kNorm).bytes_per_unit = 240;
  Result(plan, kMlpNorm).slot = Result(plan, kNorm).slot;
  DS_ASSERT_OK(plan.Load());
}

TEST(PlanCheckLives, ElementwiseResultMayTakeItsOperandsSlot) {
  TestPlan plan = TinyLlama{.rank = 0, .world = 2}.Build();
  fb::ProgramT& program = plan.program();
  for (const auto& step : program.steps) {
    if (step->kind != fb::StepKind::Collective ||
        step->collective->kind != fb::CollectiveKind::AllReduce) {
      continue;
    }
    program.buffers[step->collective->output]->slot =
        program.buffers[step->collective->input]->slot;
  }
  DS_ASSERT_OK(plan.Load());
}

TEST(PlanCheckWeights, TiedWeightsMayShareTheirBytes) {
  TestPlan plan = TinyLlama().Build();
  plan.plan.weights[9]->offset = plan.plan.weights[0]->offset;
  DS_ASSERT_OK(plan.Load());
}

TEST(PlanCheckWeights, MadeUpOnesAreFilledByTheirPieces) {
  TestPlan test = TinyLlama().Build();
  fb::WeightT& w = MakeUp(test);
  w.synthetic_mean = 1;
  w.synthetic_scale = 0.5f;
  // Tied: the same place, filled once.
  *test.plan.weights[9] = w;
  test.plan.weights[9]->name = "lm_head";
  DS_ASSERT_OK_AND_ASSIGN(const Plan plan, test.Load());
  EXPECT_EQ(plan.weight_data(0), nullptr);
  const Plan copy = plan;
  DS_ASSERT_OK(copy.FillSynthetic(3));
  DS_ASSERT_OK(plan.FillSynthetic(1));
  ASSERT_NE(plan.weight_data(0), nullptr);
  EXPECT_EQ(plan.weight_data(0), plan.weight_data(9));
  EXPECT_EQ(plan.weight_data(0), copy.weight_data(0));
  const float* data = static_cast<const float*>(plan.weight_data(0));
  for (int64_t row = 0; row < 131; ++row) {
    for (int64_t col = 0; col < 20; ++col) {
      const float unit = row % 2 == 0 ? SyntheticUnit(1, row / 2, 3 + col)
                                      : SyntheticUnit(2, 7 + row / 2, col);
      ASSERT_EQ(data[row * 20 + col], 1 + 0.5f * unit) << row << ", " << col;
    }
  }
}

TEST(PlanCheckCollectives, RejectsSenselessOnes) {
  using C = fb::CollectiveStepT;
  const auto check = [](int which, const std::function<void(C&)>& change,
                        const char* wanted) {
    TestPlan plan = TinyLlama{.rank = 1, .world = 2}.Build();
    DS_ASSERT_OK(plan.Load());
    for (const auto& step : plan.program().steps) {
      if (step->kind == fb::StepKind::Collective && which-- == 0) {
        change(*step->collective);
      }
    }
    DS_EXPECT_ERROR(plan.Load(), kDataLoss, wanted);
  };
  check(
      0, [](C& c) { c.sequence = 1; }, "collective: sequence 1; 0 comes next");
  check(
      1, [](C& c) { c.sequence = 0; }, "collective: sequence 0; 1 comes next");
  check(
      0, [](C& c) { c.group = 1; }, "collective: group 1 of 1");
  check(
      0, [](C& c) { c.kind = fb::CollectiveKind(9); }, "collective: kind 9");
  check(
      0, [](C& c) { c.dtype = 1; }, "not two equal types");
  check(
      0, [](C& c) { c.columns = 21; }, "all three must agree");
  check(
      0, [](C& c) { c.input = 999; }, "reads buffer 999");
  check(
      3, [](C& c) { c.columns = 132; },
      "f32[R, 66] to f32[R, 131] of 132 columns: part 1 of 2 has 66");
  check(
      3, [](C& c) { c.columns = 130; }, "part 1 of 2 has 65");
}

}  // namespace
}  // namespace deepslice
