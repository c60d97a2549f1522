#include "runtime/testing/gpu_test_plan.h"

#include <algorithm>
#include <cstring>

#include "runtime/sampler.h"
#include "schema/base/check.h"
#include "schema/base/checked_math.h"
#include "schema/base/digest.h"
#include "schema/base/dtype.h"
#include "schema/ops.h"
#include "schema/plan_format.h"
#include "schema/synthetic.h"

namespace deepslice {
namespace {

enum Dim { kT, kR, kS, kB, kQ };
enum KernelIndex { kEmbed, kEmbedTiles, kGather, kSample, kFill, kRead };
// Buffers of each program, inputs first.
enum BufferIndex {
  kIds,
  kPositions,
  kSlots,
  kBlocks,
  kRows,
  kSampled,
  kSamplers,
  kX,
  kPicked,
  kLogits,
  kScratch,
  kTiles
};
constexpr int64_t kHidden = GpuTestPlan::kHidden;

void AddProgram(GpuTestPlan* out, int bucket) {
  out->target().programs.push_back(std::make_unique<fb::ProgramT>());
  fb::ProgramT& p = *out->target().programs.back();
  p.name = bucket == 0 ? "step" : "decode_" + std::to_string(bucket);
  p.bucket = bucket;
  p.tile_tokens = bucket == 0 ? 4 : 0;
  const auto dim = [&](const char* name, int64_t most) {
    p.dims.push_back(std::make_unique<fb::NamedDimT>());
    p.dims.back()->name = name;
    p.dims.back()->maximum = most;
  };
  dim("T", bucket == 0 ? 16 : bucket);
  dim("R", bucket == 0 ? 16 : bucket);
  dim("S", 5);
  dim("B", 4);
  if (bucket == 0) dim("Q", 16 / 4 + 5);
  const auto buffer = [&](const char* name, DType type,
                          std::vector<fb::Extent> extents, int slot) {
    auto b = std::make_unique<fb::BufferT>();
    b->name = name;
    b->dtype = static_cast<uint8_t>(type);
    b->extents = std::move(extents);
    b->slot = slot;
    if (slot < 0) p.inputs.push_back(p.buffers.size());
    p.buffers.push_back(std::move(b));
  };
  const auto slot = [&](int d, int64_t per_unit, int64_t bytes) {
    p.slots.push_back(std::make_unique<fb::SlotT>());
    p.slots.back()->dim = d;
    p.slots.back()->bytes_per_unit = per_unit;
    p.slots.back()->bytes = bytes;
  };
  buffer("ids", DType::kI32, {{0, kT}}, -1);
  buffer("positions", DType::kI32, {{0, kT}}, -1);
  buffer("slots", DType::kI32, {{0, kT}}, -1);
  buffer("blocks", DType::kI32, {{0, kS}, {0, kB}}, -1);
  buffer("rows", DType::kI32, {{0, kR}}, -1);
  buffer("sampled", DType::kI32, {{0, kR}}, -1);
  buffer("samplers", DType::kU32, {{0, kR}, {8, -1}}, -1);
  buffer("x", DType::kF32, {{0, kT}, {kHidden, -1}}, 0);
  buffer("picked", DType::kF32, {{0, kR}, {kHidden, -1}}, 1);
  buffer("logits", DType::kF32, {{0, kR}, {GpuTestPlan::kVocab, -1}}, 2);
  buffer("scratch", DType::kU8, {{40, -1}}, 3);
  if (bucket == 0) buffer("tiles", DType::kI32, {{0, kQ}, {4, -1}}, -1);
  slot(kT, 4 * kHidden, 0);
  slot(kR, 4 * kHidden, 0);
  slot(kR, 4 * GpuTestPlan::kVocab, 0);
  slot(-1, 0, 40);

  using Kind = fb::OperandKind;
  const auto launch = [&](const char* name, int kernel,
                          std::vector<fb::OperandRef> operands, int output,
                          int grid_dim, int64_t per_block) {
    auto step = std::make_unique<fb::StepT>();
    step->kind = fb::StepKind::Launch;
    step->name = name;
    step->launch = std::make_unique<fb::LaunchStepT>();
    step->launch->kernel = kernel;
    step->launch->operands = std::move(operands);
    step->launch->outputs = {output};
    step->launch->grid = {fb::GridDim(3, per_block, grid_dim),
                          fb::GridDim(2, 1, -1), fb::GridDim(1, 1, -1)};
    step->launch->block = {64, 2, 1};
    step->launch->programmatic = true;
    p.steps.push_back(std::move(step));
  };
  const auto read = [](int b) { return fb::OperandRef(Kind::Buffer, b); };
  std::vector<fb::OperandRef> operands = {read(kIds),
                                          {Kind::Weight, 0},
                                          read(kSampled),
                                          {Kind::State, 1},
                                          {Kind::None, 0}};
  if (bucket == 0) operands.push_back(read(kTiles));
  launch("x", bucket == 0 ? kEmbedTiles : kEmbed, operands, kX, kT, 2);
  p.steps.back()->layer = 0;
  launch("picked", kGather, {read(kX), read(kRows)}, kPicked, kR, 1);
  auto gemm = std::make_unique<fb::StepT>();
  gemm->kind = fb::StepKind::Gemm;
  gemm->name = "logits";
  gemm->gemm = std::make_unique<fb::GemmStepT>();
  gemm->gemm->a = kPicked;
  gemm->gemm->weight = 1;
  gemm->gemm->output = kLogits;
  p.steps.push_back(std::move(gemm));
  launch("sampled", kSample,
         {read(kLogits), read(kSamplers), read(kScratch), {Kind::Sync, 3}},
         kSampled, kR, 1);
  p.steps.back()->launch->shared_bytes = 60'000;
  p.outputs = {kLogits};
}

}  // namespace

GpuTestPlan::GpuTestPlan(int64_t ballast) {
  plan.format_version = kPlanFormatVersion;
  plan.plan_set_id = "test set";
  plan.world_size = 1;
  plan.family = "test";
  plan.vocab_size = kVocab;
  plan.max_positions = 16;
  plan.groups.push_back(std::make_unique<fb::RankGroupT>());
  plan.groups[0]->kind = static_cast<uint8_t>(Group::kTp);
  plan.groups[0]->ranks = {0};
  uint64_t at = 1;
  const auto weight = [&](const char* name, std::vector<int64_t> shape,
                          std::vector<float>* values) {
    auto w = std::make_unique<fb::WeightT>();
    w->name = name;
    w->shape = shape;
    int64_t count = 1;
    for (const int64_t d : shape) count *= d;
    for (int64_t i = 0; i < count; ++i) {
      at = SyntheticMix(at);
      values->push_back(static_cast<float>(at >> 44) * 0x1p-19f - 1);
    }
    weights.resize(RoundUp(weights.size(), kBlobAlignment));
    w->offset = weights.size();
    w->bytes = 4 * count;
    weights.append(reinterpret_cast<const char*>(values->data()), w->bytes);
    plan.weights.push_back(std::move(w));
  };
  std::vector<float> rest;
  weight("embed", {kVocab, kHidden}, &embed);
  weight("head", {kVocab, kHidden}, &head);
  if (ballast > 0) weight("ballast", {ballast / 4}, &rest);
  for (int s = 0; s < 2; ++s) {
    plan.states.push_back(std::make_unique<fb::StateT>());
    fb::StateT& state = *plan.states.back();
    state.name = "cache" + std::to_string(s);
    state.kv_heads = 2;
    state.head_dim = 3;
    state.block_tokens = kBlockTokens;
    state.bytes_per_block = 2 * 2 * 3 * kBlockTokens * 4;
  }
  plan.targets.push_back(std::make_unique<fb::TargetT>());
  target().name = "sm_90a";
  target().sync_words = 9;
  const auto kernel = [&](const char* entry, const char* label,
                          std::vector<int> params) {
    target().kernels.push_back(std::make_unique<fb::KernelT>());
    fb::KernelT& k = *target().kernels.back();
    const std::string image = FakeImage({{entry, params}});
    k.entry = entry;
    k.label = label;
    k.offset = kernels.size();
    k.bytes = image.size();
    kernels += image;
  };
  kernel("embed", "embed 11x6", std::vector<int>(7, 8));
  kernel("embed_tiles", "embed 11x6 tiles", std::vector<int>(8, 8));
  kernel("gather", "gather 6", std::vector<int>(4, 8));
  kernel("sample", "sample 11", std::vector<int>(6, 8));
  kernel("fill", "fill_random f32", {8, 8, 8, 8, 8, 8, 8, 4, 4});
  kernel("read", "read_bandwidth", {8, 8, 8});
  target().service = {kFill, kRead};
  for (const int bucket : {4, 0, 1, 8, 2}) AddProgram(this, bucket);
  Seal();
}

void GpuTestPlan::MakeTwoRanks() {
  plan.world_size = 2;
  plan.groups[0]->ranks = {0, 1};
  plan.weights[1]->shape = {5, kHidden};
  plan.weights[1]->bytes = 4 * 5 * kHidden;
  for (const auto& p : target().programs) {
    const int64_t rows = p->dims[kR]->maximum;
    // The rank's columns, padded to 6, and all, a block a rank.
    const auto buffer = [&](const char* name, int64_t cols) {
      auto b = std::make_unique<fb::BufferT>();
      b->name = name;
      b->extents = {{rows, -1}, {cols, -1}};
      b->slot = p->slots.size();
      p->slots.push_back(std::make_unique<fb::SlotT>());
      p->slots.back()->dim = -1;
      p->slots.back()->bytes = rows * cols * 4;
      p->buffers.push_back(std::move(b));
      return static_cast<int32_t>(p->buffers.size()) - 1;
    };
    const int32_t part = buffer("part", 6), gathered = buffer("gathered", 12);
    p->steps[2]->gemm->output = part;
    auto gather = std::make_unique<fb::StepT>();
    gather->kind = fb::StepKind::Collective;
    gather->name = "gathered";
    gather->collective = std::make_unique<fb::CollectiveStepT>();
    gather->collective->kind = fb::CollectiveKind::AllGather;
    gather->collective->input = part;
    gather->collective->output = gathered;
    gather->collective->columns = 12;
    auto ungather = std::make_unique<fb::StepT>(*p->steps[1]);
    ungather->name = "logits";
    ungather->launch->operands = {{fb::OperandKind::Buffer, gathered},
                                  {fb::OperandKind::None, 0}};
    ungather->launch->kernel = static_cast<int32_t>(target().kernels.size());
    ungather->launch->outputs = {kLogits};
    auto spread = std::make_unique<fb::StepT>();
    spread->kind = fb::StepKind::Collective;
    spread->name = "sampled";
    spread->collective = std::make_unique<fb::CollectiveStepT>();
    spread->collective->kind = fb::CollectiveKind::Broadcast;
    spread->collective->sequence = 1;
    spread->collective->dtype = static_cast<uint8_t>(DType::kI32);
    spread->collective->input = spread->collective->output = kSampled;
    spread->collective->columns = 1;
    p->steps.insert(p->steps.begin() + 3, std::move(gather));
    p->steps.insert(p->steps.begin() + 4, std::move(ungather));
    p->steps.push_back(std::move(spread));
  }
  auto k = std::make_unique<fb::KernelT>();
  const std::string image = FakeImage({{"ungather", std::vector<int>(4, 8)}});
  k->entry = k->label = "ungather";
  k->offset = kernels.size();
  k->bytes = image.size();
  kernels += image;
  target().kernels.push_back(std::move(k));
  Seal();
}

void GpuTestPlan::Seal() {
  weights.resize(RoundUp(weights.size(), kSegment));
  plan.weights_bytes = weights.size();
  plan.weights_xxh3.clear();
  for (size_t at = 0; at < weights.size(); at += kHashBlock) {
    plan.weights_xxh3.push_back(
        Xxh3(absl::string_view(weights).substr(at, kHashBlock)));
  }
  for (const auto& k : target().kernels) {
    k->xxh3 = Xxh3(absl::string_view(kernels).substr(k->offset, k->bytes));
  }
}

absl::StatusOr<Plan> GpuTestPlan::Load(bool check_weights) const {
  flatbuffers::FlatBufferBuilder b;
  fb::FinishPlanBuffer(b, fb::Plan::Pack(b, &plan));
  return Plan::FromBytes(
      absl::string_view(reinterpret_cast<const char*>(b.GetBufferPointer()),
                        b.GetSize()),
      weights, "test", {.check_weights = check_weights}, kernels);
}

int32_t GpuTestPlan::Next(int32_t id) const {
  int32_t best = 0;
  double most = -1e30;
  for (int32_t j = 0; j < kVocab; ++j) {
    double sum = 0;
    for (int64_t i = 0; i < kHidden; ++i) {
      sum +=
          static_cast<double>(embed[id * kHidden + i]) * head[j * kHidden + i];
    }
    if (sum > most) {
      most = sum;
      best = j;
    }
  }
  return best;
}

void InstallTestKernels(FakeGpu* fake) {
  const auto embed = [](const FakeLaunch& l) {
    const auto& info = *l.at<const StepInfo>(0);
    const auto* ids = l.at<const int32_t>(1);
    const auto* table = l.at<const float>(2);
    const auto* sampled = l.at<const int32_t>(3);
    DS_CHECK(l.params[5] == 0);  // an absent operand
    float* x = reinterpret_cast<float*>(l.params.back());
    for (int t = 0; t < info.tokens; ++t) {
      const int32_t id = ids[t] < 0 ? sampled[~ids[t]] : ids[t];
      if (id >= 0) {
        std::copy_n(table + id * kHidden, kHidden, x + t * kHidden);
      } else {  // nothing was drawn
        std::fill_n(x + t * kHidden, kHidden, 0.0f);
      }
    }
  };
  fake->OnLaunch("embed", embed);
  fake->OnLaunch("embed_tiles", [=](const FakeLaunch& l) {
    embed(l);
    // The tiles cover the tokens, each of one sequence.
    const auto& info = *l.at<const StepInfo>(0);
    const auto* tiles = l.at<const int32_t>(6);
    int token = 0;
    for (int q = 0; q < info.tiles; ++q) {
      DS_CHECK(tiles[4 * q] == token);
      DS_CHECK(tiles[4 * q + 1] >= 1 && tiles[4 * q + 1] <= 4);
      token += tiles[4 * q + 1];
    }
    DS_CHECK(token == info.tokens);
  });
  fake->OnLaunch("gather", [](const FakeLaunch& l) {
    const auto& info = *l.at<const StepInfo>(0);
    const auto* x = l.at<const float>(1);
    const auto* rows = l.at<const int32_t>(2);
    for (int r = 0; r < info.rows; ++r) {
      std::copy_n(x + rows[r] * kHidden, kHidden, l.at<float>(3) + r * kHidden);
    }
  });
  fake->OnLaunch("sample", [](const FakeLaunch& l) {
    const auto& info = *l.at<const StepInfo>(0);
    const auto* logits = l.at<const float>(1);
    const auto* samplers = l.at<const SamplerRecord>(2);
    DS_CHECK(*l.at<const int32_t>(4) == 0);  // sync words are zero
    for (int r = 0; r < info.sampled_rows; ++r) {
      std::vector<int32_t> scratch;
      const auto id = SampleToken(
          logits + r * GpuTestPlan::kVocab, GpuTestPlan::kVocab,
          ParamsOf(samplers[r]), static_cast<int64_t>(samplers[r].position),
          &scratch);
      l.at<int32_t>(5)[r] = id.ok() ? *id : kNoSampledId;
    }
  });
  fake->OnLaunch("fill", [](const FakeLaunch& l) {
    auto* out = l.at<float>(0);
    const auto at = [&](int i) { return static_cast<int64_t>(l.params[i]); };
    float mean, scale;
    std::memcpy(&mean, &l.params[7], 4);
    std::memcpy(&scale, &l.params[8], 4);
    for (int64_t i = 0; i < at(3); ++i) {
      for (int64_t j = 0; j < at(4); ++j) {
        out[i * at(2) + j] =
            mean + scale * SyntheticUnit(l.params[1], at(5) + i, at(6) + j);
      }
    }
  });
}

}  // namespace deepslice
