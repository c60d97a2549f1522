// Which kernel, scratch size and encodings each op has on the CPU.
#include "kernels/cpu.h"

#include "absl/strings/str_cat.h"
#include "kernels/cpu_scratch.h"
#include "kernels/linear_cpu.h"
#include "kernels/simd_targets.h"

// After simd_targets.h.
#include "hwy/highway.h"

namespace deepslice {
namespace {

// An activation or an integer parameter is always as it is; what else comes
// from the plan is a vector of floats or a matrix.
enum class Takes { kFloat32, kFloats, kMatrix };

Takes OperandTakes(OpKind kind, int index) {
  switch (kind) {
    case OpKind::kEmbed:
      return index == operand::Embed::table ? Takes::kMatrix : Takes::kFloat32;
    case OpKind::kLinear:
      if (index == operand::Linear::w) return Takes::kMatrix;
      return index == operand::Linear::bias ? Takes::kFloats : Takes::kFloat32;
    case OpKind::kAddBias:
      return index == operand::AddBias::bias ? Takes::kFloats : Takes::kFloat32;
    case OpKind::kAdd:
      return index == operand::Add::bias ? Takes::kFloats : Takes::kFloat32;
    case OpKind::kRmsNorm:
      return index == operand::RmsNorm::scale ? Takes::kFloats
                                              : Takes::kFloat32;
    case OpKind::kLayerNorm:
      return index == operand::LayerNorm::x ? Takes::kFloat32 : Takes::kFloats;
    case OpKind::kRope:
      return index == operand::Rope::freqs || index == operand::Rope::long_freqs
                 ? Takes::kFloats
                 : Takes::kFloat32;
    case OpKind::kHeadLinear:
      return index == operand::HeadLinear::w ? Takes::kFloats : Takes::kFloat32;
    case OpKind::kHeadNorm:
      return index == operand::HeadNorm::x ? Takes::kFloat32 : Takes::kFloats;
    case OpKind::kRmsNormOver:
      return index == operand::RmsNormOver::scale ? Takes::kFloats
                                                  : Takes::kFloat32;
    case OpKind::kAttention:
      return index == operand::Attention::rel_bias ? Takes::kFloats
                                                   : Takes::kFloat32;
    case OpKind::kEncoderAttention:
      return index == operand::EncoderAttention::rel_bias ? Takes::kFloats
                                                          : Takes::kFloat32;
    case OpKind::kQkvAttention:
      return index == operand::QkvAttention::freqs ? Takes::kFloats
                                                   : Takes::kFloat32;
    default:
      return Takes::kFloat32;
  }
}

const char* Allowed(Takes takes) {
  switch (takes) {
    case Takes::kFloat32:
      return "f32";
    case Takes::kFloats:
      return "f32, f16 or bf16";
    case Takes::kMatrix:
      return "f32, f16, bf16 or i8_row";
  }
  return "";
}

bool IsAllowed(Takes takes, Encoding e) {
  if (e == Encoding::kF32) return true;
  if (e == Encoding::kF16 || e == Encoding::kBF16) {
    return takes != Takes::kFloat32;
  }
  return e == Encoding::kI8Row && takes == Takes::kMatrix;
}

}  // namespace

CpuKernel FindCpuKernel(OpKind kind) {
#define DS_CPU_CASE_Pure(Name) return Cpu##Name;
#define DS_CPU_CASE_State(Name) return Cpu##Name;
#define DS_CPU_CASE_Collective(Name) return nullptr;
  switch (kind) {
#define OP(Name, spelling, tag, operands, attrs, shape, effect) \
  case OpKind::k##Name:                                         \
    DS_CPU_CASE_##effect(Name)
#include "schema/ops.def"
  }
  return nullptr;
}

int64_t CpuScratchBytes(OpKind kind, const CpuShape& shape) {
  switch (kind) {
    case OpKind::kLinear:
      return LinearScratchBytes(shape);
    case OpKind::kRope:
      return RopeScratchBytes(shape);
    case OpKind::kAttention:
      return AttentionScratchBytes(shape);
    case OpKind::kQkvAttention:
      return QkvAttentionScratchBytes(shape);
    case OpKind::kLatentAttention:
      return LatentAttentionScratchBytes(shape);
    case OpKind::kEncoderAttention:
      return EncoderAttentionScratchBytes(shape);
    case OpKind::kCrossAttention:
      return CrossAttentionScratchBytes(shape);
    default:
      return 0;
  }
}

absl::Status CpuCheck(OpKind kind, const Encoding* encodings, int count) {
  const OpDef* op = FindOpByTag(static_cast<int64_t>(kind));
  if (op == nullptr || op->effect == Effect::kCollective) {
    return absl::UnimplementedError(absl::StrCat(
        op == nullptr ? absl::string_view("unknown op") : op->spelling,
        ": has no CPU kernel; collectives are the communicator's"));
  }
  const int operands = static_cast<int>(op->operands.size());
  for (int i = 0; i < count; ++i) {
    // After the operands of a State op, its state's encoding may follow.
    const bool is_state = i == operands && op->effect == Effect::kState;
    if (i >= operands && !is_state) {
      return absl::UnimplementedError(absl::StrCat(
          op->spelling, ": ", count, " operands; takes ", operands));
    }
    const Takes takes = is_state ? Takes::kFloats : OperandTakes(kind, i);
    if (!IsAllowed(takes, encodings[i])) {
      return absl::UnimplementedError(absl::StrCat(
          op->spelling, ": ", is_state ? "state" : op->operands[i].name, ": ",
          EncodingName(encodings[i]), "; the CPU kernel takes ",
          Allowed(takes)));
    }
  }
  return absl::OkStatus();
}

const char* CpuTargetName() {
  // The lowest bit is the best target.
  const int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;
  return hwy::TargetName(targets & -targets);
}

}  // namespace deepslice
