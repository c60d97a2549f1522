#include "tests/support/plan_builder.h"

#include <sys/stat.h>

#include <cmath>
#include <cstring>

#include "absl/strings/str_format.h"
#include "runtime/manifest.h"
#include "schema/base/check.h"
#include "schema/base/checked_math.h"
#include "schema/base/digest.h"
#include "schema/base/dtype.h"
#include "schema/base/file.h"
#include "schema/base/json.h"

namespace deepslice {
namespace {

constexpr size_t kAlignment = 256;

template <typename T>
void Append(std::string* to, T value) {
  to->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// The same pseudo-random values for the same seed, in (-1, 1) * scale.
std::vector<float> Values(uint32_t seed, int64_t count, float scale) {
  std::vector<float> out(count);
  uint32_t x = seed * 2654435761u + 12345u;
  for (float& v : out) {
    x ^= x << 13, x ^= x >> 17, x ^= x << 5;
    v = (static_cast<float>(x >> 8) / (1 << 23) - 1.0f) * scale;
  }
  return out;
}

}  // namespace

void TestPlan::Seal() {
  weights.resize(RoundUp(weights.size(), 4096));
  plan.weights_bytes = weights.size();
  plan.weights_xxh3.clear();
  for (size_t at = 0; at < weights.size(); at += 1 << 20) {
    plan.weights_xxh3.push_back(
        Xxh3(absl::string_view(weights).substr(at, 1 << 20)));
  }
}

std::string TestPlan::Bytes() const {
  flatbuffers::FlatBufferBuilder b;
  fb::FinishPlanBuffer(b, fb::Plan::Pack(b, &plan));
  return std::string(reinterpret_cast<const char*>(b.GetBufferPointer()),
                     b.GetSize());
}

absl::StatusOr<Plan> TestPlan::Load() const {
  return Plan::FromBytes(Bytes(), weights, "test");
}

PlanBuilder::PlanBuilder() {
  fb::PlanT& plan = out_.plan;
  plan.format_version = kPlanFormatVersion;
  plan.plan_set_id = "test set";
  plan.world_size = 1;
  plan.family = "test";
  plan.max_positions = 64;
  plan.groups.push_back(std::make_unique<fb::RankGroupT>());
  plan.groups[0]->kind = static_cast<uint8_t>(Group::kTp);
  plan.groups[0]->ranks = {0};
  plan.targets.push_back(std::make_unique<fb::TargetT>());
  plan.targets[0]->name = "cpu";
  plan.targets[0]->programs.push_back(std::make_unique<fb::ProgramT>());
  program().name = "step";
  for (const auto& [name, most] : std::vector<std::pair<const char*, int64_t>>{
           {"T", 16}, {"R", 16}, {"S", 3}, {"B", 5}}) {
    AddDim(name, most);
  }
  for (const auto& [name, dims] :
       std::vector<std::pair<const char*, std::vector<int32_t>>>{
           {"ids", {0}},
           {"positions", {0}},
           {"slots", {0}},
           {"blocks", {2, 3}},
           {"rows", {1}}}) {
    auto buffer = std::make_unique<fb::BufferT>();
    buffer->name = name;
    buffer->dtype = static_cast<uint8_t>(DType::kI32);
    for (const int32_t d : dims) buffer->extents.emplace_back(0, d);
    buffers_[name] = program().buffers.size();
    program().inputs.push_back(program().buffers.size());
    program().buffers.push_back(std::move(buffer));
  }
}

void PlanBuilder::AddDim(const std::string& name, int64_t maximum) {
  program().dims.push_back(std::make_unique<fb::NamedDimT>());
  program().dims.back()->name = name;
  program().dims.back()->maximum = maximum;
}

void PlanBuilder::AddInput(const std::string& name, DType dtype,
                           const std::string& rows_dim, int64_t columns) {
  auto buffer = std::make_unique<fb::BufferT>();
  buffer->name = name;
  buffer->dtype = static_cast<uint8_t>(dtype);
  buffer->extents.emplace_back(0, DimIndex(rows_dim));
  if (columns > 0) buffer->extents.emplace_back(columns, -1);
  buffers_[name] = program().buffers.size();
  program().inputs.push_back(program().buffers.size());
  program().buffers.push_back(std::move(buffer));
}

int32_t PlanBuilder::DimIndex(const std::string& name) const {
  const auto& dims = out_.plan.targets[0]->programs[0]->dims;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i]->name == name) return static_cast<int32_t>(i);
  }
  DS_CHECK(false && "no such dim");
}

int32_t PlanBuilder::FindBuffer(const std::string& name) const {
  const auto found = buffers_.find(name);
  DS_CHECK(found != buffers_.end());
  return found->second;
}

void PlanBuilder::AddWeight(const std::string& name, std::vector<int64_t> shape,
                            const std::vector<float>& values,
                            Encoding encoding) {
  auto w = std::make_unique<fb::WeightT>();
  w->name = name;
  w->encoding = static_cast<uint8_t>(encoding);
  w->shape = shape;
  std::string& file = out_.weights;
  const auto align = [&] { file.resize(RoundUp(file.size(), kAlignment)); };
  align();
  w->offset = file.size();
  std::string scales;
  const int64_t cols = shape.back();
  for (size_t i = 0; i < values.size(); ++i) {
    switch (encoding) {
      case Encoding::kF32:
        Append(&file, values[i]);
        break;
      case Encoding::kF16:
        Append(&file, FloatToF16(values[i]));
        break;
      case Encoding::kBF16:
        Append(&file, FloatToBF16(values[i]));
        break;
      default: {
        DS_CHECK(encoding == Encoding::kI8Row);
        float most = 0;
        for (int64_t c = 0; c < cols; ++c) {
          most = std::max(most, std::abs(values[i - i % cols + c]));
        }
        const float scale = most / 127;
        if (i % cols == 0) Append(&scales, scale);
        Append(&file, static_cast<int8_t>(
                          scale == 0 ? 0 : std::lround(values[i] / scale)));
      }
    }
  }
  w->bytes = file.size() - w->offset;
  if (!scales.empty()) {
    align();
    w->scales_offset = file.size();
    w->scales_bytes = scales.size();
    file += scales;
  }
  weights_[name] = out_.plan.weights.size();
  out_.plan.weights.push_back(std::move(w));
}

void PlanBuilder::AddState(const std::string& name, int64_t kv_heads,
                           int64_t head_dim, int64_t block_tokens,
                           Encoding encoding) {
  auto s = std::make_unique<fb::StateT>();
  s->name = name;
  s->encoding = static_cast<uint8_t>(encoding);
  s->kv_heads = kv_heads;
  s->head_dim = head_dim;
  s->block_tokens = block_tokens;
  s->bytes_per_block =
      2 * kv_heads * head_dim * block_tokens * EncodingBits(encoding) / 8;
  states_[name] = out_.plan.states.size();
  out_.plan.states.push_back(std::move(s));
}

int32_t PlanBuilder::AddBuffer(const std::string& name,
                               const std::string& rows_dim, int64_t cols) {
  auto slot = std::make_unique<fb::SlotT>();
  slot->dim = DimIndex(rows_dim);
  slot->bytes_per_unit = cols * static_cast<int64_t>(sizeof(float));
  auto buffer = std::make_unique<fb::BufferT>();
  buffer->name = name;
  buffer->extents.emplace_back(0, slot->dim);
  buffer->extents.emplace_back(cols, -1);
  buffer->slot = program().slots.size();
  const auto index = static_cast<int32_t>(program().buffers.size());
  program().slots.push_back(std::move(slot));
  program().buffers.push_back(std::move(buffer));
  buffers_[name] = index;
  return index;
}

void PlanBuilder::AddOp(OpKind kind, const std::string& result,
                        const std::vector<std::string>& operands,
                        const std::vector<Attr>& attrs,
                        const std::string& rows_dim, int64_t cols,
                        const std::string& state) {
  auto step = std::make_unique<fb::StepT>();
  step->kind = fb::StepKind::CpuOp;
  step->name = result;
  step->cpu_op = std::make_unique<fb::CpuOpStepT>();
  step->cpu_op->op = static_cast<uint16_t>(kind);
  for (const std::string& name : operands) {
    const auto weight = weights_.find(name);
    if (name.empty()) {
      step->cpu_op->operands.emplace_back(fb::OperandKind::None, -1);
    } else if (weight != weights_.end()) {
      step->cpu_op->operands.emplace_back(fb::OperandKind::Weight,
                                          weight->second);
    } else {
      step->cpu_op->operands.emplace_back(fb::OperandKind::Buffer,
                                          FindBuffer(name));
    }
  }
  for (const Attr& a : attrs) step->cpu_op->attrs.emplace_back(a.i, a.f);
  if (!state.empty()) step->cpu_op->state = states_.at(state);
  step->cpu_op->output = AddBuffer(result, rows_dim, cols);
  program().steps.push_back(std::move(step));
}

void PlanBuilder::AddAllReduce(const std::string& result,
                               const std::string& operand) {
  const int32_t input = FindBuffer(operand);
  const fb::BufferT& in = *program().buffers[input];
  const int64_t cols = in.extents[1].size();
  const std::string rows_dim = program().dims[in.extents[0].dim()]->name;
  auto step = std::make_unique<fb::StepT>();
  step->kind = fb::StepKind::Collective;
  step->name = result;
  step->collective = std::make_unique<fb::CollectiveStepT>();
  step->collective->sequence = num_collectives_++;
  step->collective->input = input;
  step->collective->output = AddBuffer(result, rows_dim, cols);
  step->collective->columns = cols;
  program().steps.push_back(std::move(step));
}

void PlanBuilder::AddAllGather(const std::string& result,
                               const std::string& operand, int64_t total) {
  AddAllReduce(result, operand);
  fb::CollectiveStepT& c = *program().steps.back()->collective;
  c.kind = fb::CollectiveKind::AllGather;
  c.columns = total;
  fb::BufferT& out = *program().buffers[c.output];
  out.extents[1] = fb::Extent(total, -1);
  program().slots[out.slot]->bytes_per_unit =
      total * static_cast<int64_t>(sizeof(float));
}

TestPlan PlanBuilder::Build(const std::string& logits, int64_t vocab) {
  program().outputs = {FindBuffer(logits)};
  out_.plan.vocab_size = vocab;
  out_.Seal();
  return std::move(out_);
}

TestPlan TinyLlama::Build() const {
  PlanBuilder b;
  b.plan().family = "llama";
  b.plan().rank = rank;
  b.plan().world_size = world;
  b.plan().groups[0]->ranks.clear();
  for (int r = 0; r < world; ++r) b.plan().groups[0]->ranks.push_back(r);
  DS_CHECK(world <= kKvHeads);

  // Adds rows [r0, r1) and columns [c0, c1) of a matrix of `rows` x `cols`.
  const auto cut = [&](const std::string& name, uint32_t seed, int64_t cols,
                       const std::vector<std::pair<int64_t, int64_t>>& rows,
                       int64_t all_rows, int64_t c0, int64_t c1) {
    const std::vector<float> all = Values(seed, all_rows * cols, 0.4f);
    std::vector<float> part;
    int64_t n = 0;
    for (const auto& [r0, r1] : rows) {
      for (int64_t r = r0; r < r1; ++r, ++n) {
        part.insert(part.end(), all.begin() + r * cols + c0,
                    all.begin() + r * cols + c1);
      }
    }
    b.AddWeight(name, {n, c1 - c0}, part, matrices);
  };
  const auto part = [&](int64_t n, int r) { return PartBegin(n, world, r); };
  const auto mine = [&](int64_t n) {
    return std::make_pair(part(n, rank), part(n, rank + 1));
  };
  const int64_t heads = kHeads / world, kv_heads = kKvHeads / world;
  const int64_t q_end = kHeads * kHeadDim, k_end = q_end + kKvHeads * kHeadDim;
  const int64_t v_end = k_end + kKvHeads * kHeadDim;
  const auto shift = [](std::pair<int64_t, int64_t> range, int64_t by) {
    return std::make_pair(range.first + by, range.second + by);
  };
  const auto q = mine(kHeads * kHeadDim), kv = mine(kKvHeads * kHeadDim);
  const auto mlp = mine(kMlp), vocab = mine(kVocab);
  const int64_t mlp_cols = mlp.second - mlp.first;

  cut("embed", 1, kHidden, {vocab}, kVocab, 0, kHidden);
  b.AddWeight("attn_norm", {kHidden}, Values(2, kHidden, 1.5f));
  cut("qkv", 3, kHidden, {q, shift(kv, q_end), shift(kv, k_end)}, v_end, 0,
      kHidden);
  std::vector<float> freqs(kHeadDim / 2);
  for (size_t i = 0; i < freqs.size(); ++i) {
    freqs[i] = std::pow(10000.0f, -2.0f * i / kHeadDim);
  }
  b.AddWeight("freqs", {kHeadDim / 2}, freqs);
  cut("attn_out", 4, q_end, {{0, kHidden}}, kHidden, q.first, q.second);
  b.AddWeight("mlp_norm", {kHidden}, Values(5, kHidden, 1.5f));
  cut("gate_up", 6, kHidden, {{2 * mlp.first, 2 * mlp.second}}, 2 * kMlp, 0,
      kHidden);
  cut("mlp_out", 7, kMlp, {{0, kHidden}}, kHidden, mlp.first, mlp.second);
  b.AddWeight("final_norm", {kHidden}, Values(8, kHidden, 1.5f));
  cut("lm_head", 9, kHidden, {vocab}, kVocab, 0, kHidden);
  b.AddState("cache", kv_heads, kHeadDim, kBlockTokens, cache);

  // Sums a partial result over the ranks and adds the residual.
  const auto join = [&](const std::string& to, const std::string& partial,
                        const std::string& residual) {
    b.AddAllReduce(partial + "_sum", partial);
    b.AddOp(OpKind::kAdd, to, {partial + "_sum", residual, ""}, {}, "T",
            kHidden);
  };
  const std::vector<Attr> eps = {{0, 1e-5}};
  const bool cut_up = world > 1;
  b.AddOp(OpKind::kEmbed, cut_up ? "embedded_part" : "embedded",
          {"ids", "embed"}, {{vocab.first}}, "T", kHidden);
  if (cut_up) b.AddAllReduce("embedded", "embedded_part");
  b.AddOp(OpKind::kRmsNorm, "normed", {"embedded", "attn_norm"}, eps, "T",
          kHidden);
  b.AddOp(OpKind::kLinear, "qkv_rows", {"normed", "qkv", "", ""}, {}, "T",
          (heads + 2 * kv_heads) * kHeadDim);
  b.AddOp(OpKind::kQkvAttention, "attended",
          {"qkv_rows", "positions", "slots", "blocks", "freqs", ""},
          {{heads},
           {kv_heads},
           {kHeads / kKvHeads},
           {0},
           {kHeadDim},
           {0, 1 / std::sqrt(10.0)},
           {0},
           {0, 0.0},
           {0},
           {kHeadDim},
           {static_cast<int64_t>(RopeStyle::kHalf)},
           {0, 1.0}},
          "T", heads * kHeadDim, "cache");
  b.AddOp(OpKind::kLinear, cut_up ? "attn_part" : "attn_sum",
          {"attended", "attn_out", "", cut_up ? "" : "embedded"}, {}, "T",
          kHidden);
  if (cut_up) join("attn_sum", "attn_part", "embedded");
  b.AddOp(OpKind::kRmsNorm, "mlp_in", {"attn_sum", "mlp_norm"}, eps, "T",
          kHidden);
  b.AddOp(OpKind::kLinear, "gate_up_rows", {"mlp_in", "gate_up"}, {}, "T",
          2 * mlp_cols);
  b.AddOp(OpKind::kGatedAct, "mlp_act", {"gate_up_rows"},
          {{static_cast<int64_t>(Act::kSilu)}}, "T", mlp_cols);
  b.AddOp(OpKind::kLinear, cut_up ? "mlp_part" : "mlp_sum",
          {"mlp_act", "mlp_out", "", cut_up ? "" : "attn_sum"}, {}, "T",
          kHidden);
  if (cut_up) join("mlp_sum", "mlp_part", "attn_sum");
  b.AddOp(OpKind::kGatherRows, "wanted", {"mlp_sum", "rows"}, {}, "R", kHidden);
  b.AddOp(OpKind::kRmsNorm, "final", {"wanted", "final_norm"}, eps, "R",
          kHidden);
  b.AddOp(OpKind::kLinear, cut_up ? "logits_part" : "logits",
          {"final", "lm_head"}, {}, "R", vocab.second - vocab.first);
  if (cut_up) b.AddAllGather("logits", "logits_part", kVocab);
  return b.Build("logits", kVocab);
}

void WritePlanFolder(const std::string& folder,
                     const std::vector<TestPlan>& ranks) {
  mkdir(folder.c_str(), 0777);
  json::Value files = json::Value::Array();
  const auto write = [&](const std::string& name, const std::string& bytes) {
    DS_CHECK(WriteFile(JoinPath(folder, name), bytes).ok());
    json::Value entry = json::Value::Object();
    entry.Set("name", name);
    entry.Set("bytes", static_cast<int64_t>(bytes.size()));
    entry.Set("sha256", Sha256Hex(bytes));
    files.Add(std::move(entry));
  };
  for (size_t r = 0; r < ranks.size(); ++r) {
    write(RankFileName(r, ".plan"), ranks[r].Bytes());
    write(RankFileName(r, ".weights"), ranks[r].weights);
  }
  json::Value manifest = json::Value::Object();
  manifest.Set("deepslice_plan", kManifestVersion);
  manifest.Set("plan_set_id", ranks[0].plan.plan_set_id);
  manifest.Set("world_size", static_cast<int64_t>(ranks.size()));
  manifest.Set("files", std::move(files));
  DS_CHECK(
      WriteFile(JoinPath(folder, "manifest.json"), json::Write(manifest, 2))
          .ok());
}

}  // namespace deepslice
