#include "tools/step_bytes.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "schema/ops.h"

namespace deepslice {
namespace {

// How a program reads a weight.
enum class Use : uint8_t { kNone, kRows, kWhole };

// The step program for `batch` tokens of as many sequences: the smallest bucket
// that takes them, else the one for all steps.
const fb::Program* DecodeProgram(const fb::Target& target, int64_t batch) {
  const fb::Program* best = nullptr;
  for (const fb::Program* p : *target.programs()) {
    if (p->kind() != fb::ProgramKind::Step) continue;
    if (p->bucket() > 0 && p->bucket() < batch) continue;
    const auto rank = [](const fb::Program* q) {
      return q->bucket() > 0 ? q->bucket() : INT32_MAX;
    };
    if (best == nullptr || rank(p) < rank(best)) best = p;
  }
  return best;
}

void Mark(const flatbuffers::Vector<const fb::OperandRef*>& operands, Use use,
          std::vector<Use>* uses) {
  for (const fb::OperandRef* o : operands) {
    if (o->kind() != fb::OperandKind::Weight) continue;
    Use& u = (*uses)[o->index()];
    u = std::max(u, use);
  }
}

}  // namespace

StepBytes DecodeStepBytes(const Plan& plan, int64_t batch, int64_t context) {
  StepBytes out;
  const fb::Plan& fb = plan.fb();
  if (fb.targets()->size() == 0) return out;
  const fb::Target& target = *fb.targets()->Get(0);
  const fb::Program* program = DecodeProgram(target, batch);
  if (program == nullptr) return out;
  std::vector<Use> uses(fb.weights()->size(), Use::kNone);
  for (const fb::Step* step : *program->steps()) {
    if (const fb::CpuOpStep* op = step->cpu_op()) {
      const bool rows = op->op() == static_cast<uint16_t>(OpKind::kEmbed);
      Mark(*op->operands(), rows ? Use::kRows : Use::kWhole, &uses);
    } else if (const fb::LaunchStep* launch = step->launch()) {
      const auto* label = target.kernels()->Get(launch->kernel())->label();
      const bool rows =
          label != nullptr && absl::StartsWith(label->c_str(), "embed");
      Mark(*launch->operands(), rows ? Use::kRows : Use::kWhole, &uses);
    } else if (const fb::GemmStep* gemm = step->gemm()) {
      uses[gemm->weight()] = Use::kWhole;
    }
  }
  for (size_t i = 0; i < uses.size(); ++i) {
    const fb::Weight& w = *fb.weights()->Get(i);
    const auto bytes =
        static_cast<int64_t>(w.bytes() + w.scales_bytes() + w.zeros_bytes());
    if (uses[i] == Use::kWhole) {
      out.weights += bytes;
    } else if (uses[i] == Use::kRows && w.shape()->size() > 0) {
      const int64_t rows = std::max<int64_t>(1, w.shape()->Get(0));
      out.weights += bytes / rows * std::min(batch, rows);
    }
  }
  for (const fb::State* s : *fb.states()) {
    if (s->block_tokens() > 0) {
      out.cache += s->bytes_per_block() / s->block_tokens() * batch * context;
    }
  }
  return out;
}

}  // namespace deepslice
