// An encoder's program on a GPU whose kernels are functions on the host.
#include <algorithm>
#include <cstring>

#include "gtest/gtest.h"
#include "runtime/backend/cuda/step_inputs.h"
#include "runtime/testing/cuda_testing.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

// GpuTestPlan's general program as an encoder that returns x and the products
// of wanted rows, and reads token types.
void MakeEncoder(GpuTestPlan* plan) {
  auto program = std::move(plan->target().programs[1]);
  ASSERT_EQ(program->bucket, 0);
  plan->target().programs.clear();
  plan->plan.states.clear();
  program->kind = fb::ProgramKind::Encode;
  program->name = "encode";
  enum { kTokens = 0, kSampled = 5, kSamplers = 6, kX = 7, kLogits = 9 };
  fb::BufferT& types = *program->buffers[kSampled];
  types.name = "types";
  types.extents = {{0, kTokens}};
  fb::BufferT& unused = *program->buffers[kSamplers];
  unused.name = "unused";
  unused.dtype = static_cast<uint8_t>(DType::kU8);
  unused.extents = {{40, -1}};
  unused.slot = 3;
  auto& inputs = program->inputs;
  inputs.erase(std::find(inputs.begin(), inputs.end(), kSamplers));
  program->steps.pop_back();
  program->steps[0]->launch->operands[3] = {fb::OperandKind::None, 0};
  program->outputs = {kX, kLogits};
  plan->target().programs.push_back(std::move(program));
  plan->plan.encoder = std::make_unique<fb::EncoderSettingsT>();
  plan->plan.encoder->types = 3;
  plan->Seal();
}

struct EncodeBatch {
  Ids ids, positions, slots, rows, types;
  StepBatch view() const {
    StepBatch b;
    b.ids = ids;
    b.positions = positions;
    b.slots = slots;
    b.rows = rows;
    b.types = types;
    return b;
  }
};

EncodeBatch TwoTexts() {
  return {{4, 7, 1, 9, 2},
          {0, 1, 2, 0, 1},
          {0, 0, 0, 1, 1},
          {0, 3},
          {0, 1, 2, 0, 0}};
}

TEST(CudaEncoder, GivesItsOutputsByName) {
  FakeGpu fake;
  GpuTestPlan plan;
  MakeEncoder(&plan);
  Prepared p = Prepare(&fake, plan);
  DS_ASSERT_OK(p.executor.status());
  EXPECT_TRUE(p->encodes());
  EXPECT_TRUE(p->reads_types());
  const EncodeBatch batch = TwoTexts();
  for (int i = 0; i < 3; ++i) {  // both parities of a step
    DS_ASSERT_OK(p->Execute(batch.view()));
    DS_ASSERT_OK_AND_ASSIGN(const std::vector<NamedOutput> outputs,
                            p->Outputs());
    ASSERT_EQ(outputs.size(), 2u);
    EXPECT_EQ(outputs[0].name, "x");
    EXPECT_EQ(outputs[0].of, NamedOutput::Of::kToken);
    ASSERT_EQ(outputs[0].rows, 5);
    ASSERT_EQ(outputs[0].cols, GpuTestPlan::kHidden);
    for (int64_t t = 0; t < 5; ++t) {
      for (int64_t c = 0; c < GpuTestPlan::kHidden; ++c) {
        EXPECT_EQ(outputs[0].data[t * GpuTestPlan::kHidden + c],
                  plan.embed[batch.ids[t] * GpuTestPlan::kHidden + c]);
      }
    }
    EXPECT_EQ(outputs[1].name, "logits");
    EXPECT_EQ(outputs[1].of, NamedOutput::Of::kRow);
    ASSERT_EQ(outputs[1].rows, 2);
    for (int64_t r = 0; r < 2; ++r) {
      const float* row = outputs[1].data + r * GpuTestPlan::kVocab;
      EXPECT_EQ(std::max_element(row, row + GpuTestPlan::kVocab) - row,
                plan.Next(batch.ids[batch.rows[r]]));
    }
  }
}

TEST(CudaEncoder, HasNoNextTokenAndChecksItsInputs) {
  FakeGpu fake;
  GpuTestPlan plan;
  MakeEncoder(&plan);
  Prepared p = Prepare(&fake, plan);
  DS_ASSERT_OK(p.executor.status());
  DS_EXPECT_ERROR(p->Logits(), kFailedPrecondition, "has no next token");
  DS_EXPECT_ERROR(p->Outputs(), kFailedPrecondition, "no step has run");
  EncodeBatch batch = TwoTexts();
  batch.types[1] = 3;
  DS_EXPECT_ERROR(p->Execute(batch.view()), kInvalidArgument, "type");
  batch = TwoTexts();
  batch.positions[3] = 3;  // a text begins at 0
  EXPECT_FALSE(p->Execute(batch.view()).ok());
}

TEST(WriteStepInputs, BringsImagesBesideNoText) {
  ProgramSizes program;
  program.inputs.ids = 64;
  program.inputs.image_positions = 128;
  program.inputs.image_slots = 192;
  program.inputs.image_rows = 256;
  program.inputs.pixels = 320;
  const Ids positions = {0, 1, 0, 1}, slots = {0, 0, 1, 1}, rows = {0, 2};
  const std::vector<float> pixels = {0, 0, 1.5f, -2, 0, 0, 3, 4};
  StepBatch batch;
  batch.image_positions = positions;
  batch.image_slots = slots;
  batch.image_rows = rows;
  batch.pixels = pixels;
  std::vector<char> block(512, 1);
  DS_ASSERT_OK_AND_ASSIGN(const StepInfo info,
                          WriteStepInputs(program, 1, batch, block.data()));
  EXPECT_EQ(info.tokens, 0);
  EXPECT_EQ(info.image_tokens, 4);
  EXPECT_EQ(info.images, 2);
  StepInfo written;
  std::memcpy(&written, block.data(), sizeof(written));
  EXPECT_EQ(written.images, 2);
  const auto holds = [&](int64_t at, const Ids& wanted) {
    return std::memcmp(block.data() + at, wanted.data(), 4 * wanted.size()) ==
           0;
  };
  EXPECT_TRUE(holds(128, positions) && holds(192, slots) && holds(256, rows));
  EXPECT_EQ(std::memcmp(block.data() + 320, pixels.data(), 32), 0);
  EXPECT_EQ(block[64], 1);  // no ids
}

TEST(WriteStepInputs, BringsSourcesAndWhoseTheyAre) {
  ProgramSizes program;
  program.inputs.source_ids = 64;
  program.inputs.source_positions = 128;
  program.inputs.source_slots = 192;
  program.inputs.sources = 256;
  const Ids ids = {5, 6, 7}, positions = {0, 1, 0}, slots = {1, 1, 0},
            sources = {0, 1, 1, 2};
  StepBatch batch;
  batch.source_ids = ids;
  batch.source_positions = positions;
  batch.source_slots = slots;
  batch.sources = sources;
  std::vector<char> block(512, 1);
  DS_ASSERT_OK_AND_ASSIGN(const StepInfo info,
                          WriteStepInputs(program, 1, batch, block.data()));
  EXPECT_EQ(info.source_tokens, 3);
  const auto holds = [&](int64_t at, const Ids& wanted) {
    return std::memcmp(block.data() + at, wanted.data(), 4 * wanted.size()) ==
           0;
  };
  EXPECT_TRUE(holds(64, ids) && holds(128, positions) && holds(192, slots) &&
              holds(256, sources));
}

TEST(ChooseProgram, SendsSourcesToTheGeneralOne) {
  fb::ProgramT general, two;
  two.bucket = 2;
  const auto pack = [](const fb::ProgramT& p) {
    flatbuffers::FlatBufferBuilder b;
    b.Finish(fb::Program::Pack(b, &p));
    return b.Release();
  };
  const auto packed_general = pack(general), packed_two = pack(two);
  GpuSizes sizes;
  for (const auto* p : {&packed_general, &packed_two}) {
    sizes.programs.emplace_back();
    sizes.programs.back().program =
        flatbuffers::GetRoot<fb::Program>(p->data());
  }
  const Ids ids = {5, 6}, positions = {3, 4}, slots = {0, 1}, rows = {0, 1};
  StepBatch batch;
  batch.ids = ids;
  batch.positions = positions;
  batch.slots = slots;
  batch.rows = rows;
  EXPECT_EQ(ChooseProgram(sizes, batch), 1);
  const Ids source_ids = {1};
  batch.source_ids = source_ids;
  EXPECT_EQ(ChooseProgram(sizes, batch), 0);
}

TEST(CudaEncoder, DecodersHaveNoOutputs) {
  FakeGpu fake;
  const GpuTestPlan plan;
  Prepared p = Prepare(&fake, plan);
  DS_ASSERT_OK(p.executor.status());
  EXPECT_FALSE(p->encodes());
  DS_EXPECT_ERROR(p->Outputs(), kFailedPrecondition, "the plan is no encoder");
}

}  // namespace
}  // namespace deepslice
