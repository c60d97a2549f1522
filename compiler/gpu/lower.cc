#include "compiler/gpu/lower.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_format.h"
#include "compiler/gpu/lower_program.h"
#include "kernels/cuda/service.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// The type of activations: that of the linears' weights.
absl::StatusOr<DType> ActivationType(const Graph& graph) {
  const Weight* first = nullptr;
  for (const auto& n : graph.nodes()) {
    for (const Operand& o : n->operands) {
      if (o.weight == nullptr || !IsQuantized(o.weight->encoding)) continue;
      return absl::UnimplementedError(absl::StrFormat(
          "@%s: encoding %s: GPU targets take f32, f16 and bf16; use --dtype "
          "fp32, fp16 or bf16",
          o.weight->name, EncodingName(o.weight->encoding)));
    }
    if (n->op != OpKind::kLinear) continue;
    const Weight* w = n->weight(operand::Linear::w);
    if (w == nullptr) {
      return absl::UnimplementedError(absl::StrFormat(
          "%%%s: a linear of two values: GPU targets take a weight",
          n->result->name));
    }
    if (first == nullptr) first = w;
    if (w->encoding != first->encoding) {
      return absl::UnimplementedError(absl::StrFormat(
          "@%s is %s, @%s is %s: GPU targets take linears of one type; use "
          "--dtype fp32, fp16 or bf16",
          w->name, EncodingName(w->encoding), first->name,
          EncodingName(first->encoding)));
    }
  }
  if (first == nullptr) return DType::kF32;
  // The tags of encodings that are no quantised ones are those of dtypes.
  return static_cast<DType>(first->encoding);
}

}  // namespace

std::vector<int> GpuBuckets(int64_t max_batch) {
  std::vector<int> buckets;
  for (int64_t n = 1; n < max_batch; n *= 2) {
    buckets.push_back(static_cast<int>(n));
  }
  buckets.push_back(static_cast<int>(max_batch));
  return buckets;
}

absl::StatusOr<GpuPrograms> LowerForGpu(const Graph& graph,
                                        const StepCeilings& ceilings,
                                        const PlaceInSet& place,
                                        const GpuTarget& target) {
  // Rows are an axis of grids that ends there.
  constexpr int64_t kMostTokens = 65535;
  if (ceilings.max_step_tokens > kMostTokens) {
    return absl::FailedPreconditionError(
        absl::StrFormat("--max-step-tokens %d: GPU targets take up to %d",
                        ceilings.max_step_tokens, kMostTokens));
  }
  ProgramRequest request;
  request.graph = &graph;
  request.ceilings = ceilings;
  request.place = place;
  request.target = &target;
  DS_ASSIGN_OR_RETURN(request.activations, ActivationType(graph));
  SpecTable kernels;
  GpuPrograms out;
  std::vector<int> buckets = {0};
  if (!EncodesGraph(graph)) {
    for (const int b : GpuBuckets(ceilings.max_batch)) buckets.push_back(b);
  }
  for (const int bucket : buckets) {
    request.bucket = bucket;
    absl::StatusOr<LoweredProgram> program = LowerProgram(request, &kernels);
    if (!program.ok()) {
      return Annotate(program.status(), "target ", target.name);
    }
    out.sync_words = std::max(out.sync_words, program->sync_words);
    out.programs.push_back(*std::move(program));
  }
  for (const KernelSpec& spec : ServiceKernels(target)) {
    out.service.push_back(kernels.Add(spec));
  }
  out.kernels = kernels.specs();
  return out;
}

}  // namespace deepslice
