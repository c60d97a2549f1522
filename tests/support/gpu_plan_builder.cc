#include "tests/support/gpu_plan_builder.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "schema/base/check.h"
#include "schema/base/dtype.h"

namespace deepslice {
namespace {

using Kind = fb::OperandKind;

// The named dims of both programs, in this order.
enum : int { kT, kR, kS, kB, kQ };

class ProgramMaker {
 public:
  ProgramMaker(const fb::PlanT& plan, const std::string& name, int64_t tokens,
               int32_t bucket)
      : plan_(plan), program_(std::make_unique<fb::ProgramT>()) {
    program_->name = name;
    program_->bucket = bucket;
    program_->tile_tokens = bucket > 0 ? 0 : 4;
    std::vector<std::pair<const char*, int64_t>> dims = {
        {"T", tokens}, {"R", tokens}, {"S", 3}, {"B", 5}};
    if (bucket == 0) dims.push_back({"Q", 7});
    for (const auto& [dim, most] : dims) {
      program_->dims.push_back(std::make_unique<fb::NamedDimT>());
      program_->dims.back()->name = dim;
      program_->dims.back()->maximum = most;
    }
    const auto input = [&](const char* n, std::vector<fb::Extent> extents,
                           DType dtype = DType::kI32) {
      program_->inputs.push_back(Buffer(n, dtype, extents, -1));
    };
    input("ids", {Dim(kT)});
    input("positions", {Dim(kT)});
    input("slots", {Dim(kT)});
    input("blocks", {Dim(kS), Dim(kB)});
    input("rows", {Dim(kR)});
    if (bucket == 0) input("tiles", {Dim(kQ), Size(4)});
    input("sampled", {Dim(kR)});
    input("samplers", {Dim(kR), Size(8)}, DType::kU32);
  }

  static fb::Extent Dim(int dim) { return fb::Extent(0, dim); }
  static fb::Extent Size(int64_t n) { return fb::Extent(n, -1); }

  int32_t Buffer(const std::string& name, DType dtype,
                 const std::vector<fb::Extent>& extents, int32_t slot) {
    auto b = std::make_unique<fb::BufferT>();
    b->name = name;
    b->dtype = static_cast<uint8_t>(dtype);
    b->extents = extents;
    b->slot = slot;
    program_->buffers.push_back(std::move(b));
    return static_cast<int32_t>(program_->buffers.size()) - 1;
  }
  // In a slot of its own.
  int32_t Floats(const std::string& name, fb::Extent rows, int64_t cols) {
    auto slot = std::make_unique<fb::SlotT>();
    slot->dim = rows.dim();
    const int64_t bytes = cols * static_cast<int64_t>(sizeof(float));
    if (rows.dim() < 0) {
      slot->bytes = bytes * rows.size();
    } else {
      slot->bytes_per_unit = bytes;
    }
    program_->slots.push_back(std::move(slot));
    return Buffer(name, DType::kF32, {rows, Size(cols)},
                  static_cast<int32_t>(program_->slots.size()) - 1);
  }
  int32_t Scratch(int64_t bytes) {
    program_->slots.push_back(std::make_unique<fb::SlotT>());
    program_->slots.back()->bytes = bytes;
    return Buffer("scratch", DType::kU8, {Size(bytes)},
                  static_cast<int32_t>(program_->slots.size()) - 1);
  }
  int32_t Find(const std::string& name) const {
    for (size_t i = 0; i < program_->buffers.size(); ++i) {
      if (program_->buffers[i]->name == name) return static_cast<int32_t>(i);
    }
    DS_CHECK(false && "no such buffer");
    return -1;
  }
  fb::OperandRef B(const std::string& name) const {
    return fb::OperandRef(Kind::Buffer, Find(name));
  }
  fb::OperandRef W(const std::string& name) const {
    return fb::OperandRef(Kind::Weight, Weight(name));
  }
  int32_t Weight(const std::string& name) const {
    for (size_t i = 0; i < plan_.weights.size(); ++i) {
      if (plan_.weights[i]->name == name) return static_cast<int32_t>(i);
    }
    DS_CHECK(false && "no such weight");
    return -1;
  }

  void Launch(int32_t kernel, const std::string& result,
              std::vector<fb::OperandRef> operands, int dim = kT) {
    fb::StepT& s = Add(fb::StepKind::Launch, result);
    s.launch = std::make_unique<fb::LaunchStepT>();
    s.launch->kernel = kernel;
    s.launch->operands = std::move(operands);
    s.launch->outputs = {Find(result)};
    s.launch->grid = {fb::GridDim(1, 2, dim), fb::GridDim(3, 1, -1),
                      fb::GridDim(1, 1, -1)};
    s.launch->block = {64, 2, 1};
    s.launch->shared_bytes = 1024;
  }
  void Gemm(const std::string& result, const std::string& a,
            const std::string& weight, const std::string& residual = "") {
    fb::StepT& s = Add(fb::StepKind::Gemm, result);
    s.gemm = std::make_unique<fb::GemmStepT>();
    s.gemm->a = Find(a);
    s.gemm->weight = Weight(weight);
    s.gemm->residual = residual.empty() ? -1 : Find(residual);
    s.gemm->output = Find(result);
  }
  void Collective(fb::CollectiveKind kind, const std::string& result,
                  const std::string& input, int64_t columns) {
    fb::StepT& s = Add(fb::StepKind::Collective, result);
    s.collective = std::make_unique<fb::CollectiveStepT>();
    s.collective->sequence = sequence_++;
    s.collective->kind = kind;
    s.collective->dtype = program_->buffers[Find(input)]->dtype;
    s.collective->input = Find(input);
    s.collective->output = Find(result);
    s.collective->columns = columns;
  }

  std::unique_ptr<fb::ProgramT> Build(const std::string& logits) {
    program_->outputs = {Find(logits)};
    return std::move(program_);
  }

 private:
  fb::StepT& Add(fb::StepKind kind, const std::string& name) {
    program_->steps.push_back(std::make_unique<fb::StepT>());
    program_->steps.back()->kind = kind;
    program_->steps.back()->name = name;
    return *program_->steps.back();
  }

  const fb::PlanT& plan_;
  std::unique_ptr<fb::ProgramT> program_;
  uint32_t sequence_ = 0;
};

// Kernels by what they do; the images are a byte each.
constexpr const char* kKernels[] = {"embed",  "norm",           "append",
                                    "attend", "ungather",       "sample",
                                    "linear", "fill_random f32"};
enum : int32_t {
  kEmbedKernel,
  kNormKernel,
  kAppendKernel,
  kAttendKernel,
  kUngatherKernel,
  kSampleKernel,
  kLinearKernel,
  kServiceKernel
};

std::unique_ptr<fb::ProgramT> GeneralProgram(const fb::PlanT& plan) {
  using T = TinyLlama;
  ProgramMaker m(plan, "step", 16, 0);
  const auto rows = [&](int dim) { return ProgramMaker::Dim(dim); };
  const int64_t q = T::kHeads * T::kHeadDim;
  m.Floats("embedded", rows(kT), T::kHidden);
  m.Launch(kEmbedKernel, "embedded",
           {m.B("ids"), m.W("embed"), m.B("sampled")});
  m.Floats("normed", rows(kT), T::kHidden);
  m.Launch(kNormKernel, "normed",
           {m.B("embedded"), m.W("attn_norm"), {Kind::None, -1}});
  m.Floats("qkv_rows", rows(kT), q + 2 * T::kKvHeads * T::kHeadDim);
  m.Gemm("qkv_rows", "normed", "qkv");
  m.Floats("rotated", rows(kT), q);
  m.Launch(kAppendKernel, "rotated",
           {m.B("qkv_rows"),
            m.B("qkv_rows"),
            m.B("qkv_rows"),
            m.B("positions"),
            m.B("slots"),
            m.B("blocks"),
            m.W("freqs"),
            {Kind::State, 0}});
  m.Floats("attended", rows(kT), q);
  m.Launch(kAttendKernel, "attended",
           {m.B("rotated"), m.B("tiles"), m.B("blocks"), {Kind::State, 0}}, kQ);
  m.Buffer("attn_part", DType::kF32, {rows(kT), ProgramMaker::Size(T::kHidden)},
           0);  // of "embedded"
  m.Gemm("attn_part", "attended", "attn_out", "embedded");
  m.Floats("attn_sum", rows(kT), T::kHidden);
  m.Collective(fb::CollectiveKind::AllReduce, "attn_sum", "attn_part",
               T::kHidden);
  m.Floats("final", rows(kR), T::kHidden);
  m.Launch(kNormKernel, "final",
           {m.B("attn_sum"), m.W("final_norm"), {Kind::None, -1}, m.B("rows")},
           kR);
  m.Floats("logits_part", ProgramMaker::Size(16), T::kVocab);
  m.Gemm("logits_part", "final", "lm_head");
  m.Floats("gathered", ProgramMaker::Size(16), T::kVocab);
  m.Collective(fb::CollectiveKind::AllGather, "gathered", "logits_part",
               T::kVocab);
  m.Floats("logits", rows(kR), T::kVocab);
  m.Launch(kUngatherKernel, "logits", {m.B("gathered")}, kR);
  m.Scratch(512);
  m.Launch(kSampleKernel, "sampled",
           {m.B("logits"), m.B("samplers"), m.B("scratch"), {Kind::Sync, 32}},
           kR);
  m.Collective(fb::CollectiveKind::Broadcast, "sampled", "sampled", 1);
  return m.Build("logits");
}

std::unique_ptr<fb::ProgramT> DecodeProgram(const fb::PlanT& plan) {
  using T = TinyLlama;
  ProgramMaker m(plan, "decode_2", 2, 2);
  m.Floats("embedded", ProgramMaker::Dim(kT), T::kHidden);
  m.Launch(kEmbedKernel, "embedded",
           {m.B("ids"), m.W("embed"), m.B("sampled")});
  m.Floats("logits", ProgramMaker::Dim(kR), T::kVocab);
  m.Launch(kLinearKernel, "logits",
           {m.B("embedded"), m.W("lm_head"), m.W("final_norm"), m.B("rows")});
  m.Scratch(256);
  m.Launch(kSampleKernel, "sampled",
           {m.B("logits"), m.B("samplers"), m.B("scratch"), {Kind::Sync, 0}});
  return m.Build("logits");
}

}  // namespace

TestPlan TinyGpuPlan::Build() const {
  TestPlan out = TinyLlama().Build();
  auto target = std::make_unique<fb::TargetT>();
  target->name = "sm_90a";
  target->sync_words = 64;
  target->service = {kServiceKernel};
  for (const char* label : kKernels) {
    auto kernel = std::make_unique<fb::KernelT>();
    kernel->entry = "_Z1k";
    kernel->label = label;
    kernel->offset = 256 * target->kernels.size();
    kernel->bytes = 1;
    target->kernels.push_back(std::move(kernel));
  }
  target->programs.push_back(GeneralProgram(out.plan));
  target->programs.push_back(DecodeProgram(out.plan));
  out.plan.targets.push_back(std::move(target));
  return out;
}

}  // namespace deepslice
