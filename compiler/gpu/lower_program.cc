#include "compiler/gpu/lower_program.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/gpu/attention_lowering.h"
#include "kernels/cuda/linear.h"
#include "kernels/cuda/rows.h"
#include "schema/base/checked_math.h"
#include "schema/base/status_macros.h"
#include "schema/plan_format.h"

namespace deepslice {
namespace {

absl::Status CheckEncoder(const Graph& graph) {
  for (const Value* v : graph.returns()) {
    const bool is_known =
        v->producer != nullptr && v->type.rank() == 2 &&
        (v->type.dims[0] == Dim("R") || v->type.dims[0] == Dim("T") ||
         v->type.dims[0] == Dim("I"));
    if (is_known) continue;
    return absl::UnimplementedError(
        absl::StrFormat("%%%s: %s; GPU programs of encoders return [T, n], "
                        "[R, n] and [I, n]",
                        v->name, TypeText(v->type)));
  }
  return absl::OkStatus();
}

absl::Status CheckGraph(const Graph& graph) {
  if (EncodesGraph(graph)) return CheckEncoder(graph);
  if (graph.returns().size() != 1) {
    return absl::UnimplementedError(
        absl::StrFormat("%d results; GPU programs have one, the logits",
                        graph.returns().size()));
  }
  const Value* logits = graph.returns()[0];
  if (logits->producer == nullptr || logits->type.rank() != 2 ||
      !(logits->type.dims[0] == Dim("R"))) {
    return absl::UnimplementedError(
        absl::StrFormat("%%%s: %s; GPU programs return logits [R, vocab]",
                        logits->name, TypeText(logits->type)));
  }
  return absl::OkStatus();
}

class Lowering : private AttentionLowering {
 public:
  Lowering(const ProgramRequest& request, SpecTable* kernels)
      : AttentionLowering(request, kernels, IsFused(request)),
        fused_(IsFused(request)) {}

  absl::StatusOr<LoweredProgram> Run() {
    for (const auto& n : graph_.nodes()) {
      if (folds_.IsFolded(n.get()) || IsLeftOut(n->result)) continue;
      DS_RETURN_IF_ERROR(
          Annotate(Lower(*n), "%", n->result->name, ": ", n->def().spelling));
    }
    std::vector<int> outputs;
    for (const Value* v : graph_.returns()) outputs.push_back(BufferOf(v));
    if (!encodes_) AddSampling(outputs[0]);
    return std::move(b_).Finish(std::move(outputs));
  }

 private:
  static bool IsFused(const ProgramRequest& r) {
    return r.bucket > 0 && r.bucket <= kMaxLinearTokens;
  }

  absl::Status Lower(const Node& n) {
    // A rank that owns no head, no column or no vocabulary has nothing to do,
    // unless others wait for its part.
    if (Columns(n.result) == 0 && !IsPadded(n.result)) {
      return absl::OkStatus();
    }
    switch (n.op) {
      case OpKind::kEmbed:
        return LowerEmbed(n);
      case OpKind::kLinear:
        return LowerLinear(n);
      case OpKind::kRmsNorm:
      case OpKind::kLayerNorm:
        return LowerNorm(n);
      case OpKind::kRope:
        return LowerRope(n);
      case OpKind::kAttention:
      case OpKind::kQkvAttention:
        return LowerAttention(n);
      case OpKind::kAllReduce:
        b_.Collective(LoweredStep::Collective::kAllReduce, n.result->name,
                      BufferOf(n.in(0)), BufferOf(n.result), Columns(n.result));
        return absl::OkStatus();
      case OpKind::kAllGather:
        return LowerAllGather(n);
      case OpKind::kAddBias:
        return Elementwise(n.in(0), n.result,
                           {.bias = n.weight(operand::AddBias::bias)});
      case OpKind::kAdd:
        return LowerAdd(n);
      case OpKind::kMul:
        return Elementwise(
            n.in(operand::Mul::x), n.result,
            {.second = n.in(operand::Mul::y), .how = Second::kMul});
      case OpKind::kActivation:
      case OpKind::kGatedAct:
        return Elementwise(n.in(0), n.result, {.epilogue = &n});
      case OpKind::kGatherRows:
        return Elementwise(n.in(operand::GatherRows::x), n.result,
                           {.gather = &n});
      case OpKind::kHeadNorm:
        return LowerHeadNorm(n);
      case OpKind::kSumSquares:
        return LowerSumSquares(n);
      case OpKind::kRmsNormOver:
        return LowerRmsNormOver(n);
      case OpKind::kScale:
      case OpKind::kSoftcap:
        return LowerScale(n, nullptr, n.result);
      case OpKind::kHeadLinear:
        return LowerHeadLinear(n);
      case OpKind::kConcatHeads:
        return LowerConcatHeads(n);
      case OpKind::kLatentAttention:
        return LowerLatentAttention(n);
      case OpKind::kEncoderAttention:
        return LowerEncoderAttention(n);
      case OpKind::kCrossAttention:
        return LowerCrossAttention(n);
    }
    return absl::UnimplementedError("no GPU kernel does it");
  }

  absl::Status LowerLinear(const Node& n) {
    const Fold& fold = folds_.Of(&n);
    const Weight* w = n.weight(operand::Linear::w);
    const int64_t out = w->type.dims[0].size, in = w->type.dims[1].size;
    if (out == 0) {
      if (IsPadded(fold.y)) {
        Zeros(fold.y, fold.y->name, BufferOf(fold.y));
      }
      return absl::OkStatus();
    }
    return fused_ && in > 0 ? FusedLinear(n, fold) : PlainLinear(n, fold);
  }

  // One kernel.
  absl::Status FusedLinear(const Node& n, const Fold& fold) {
    const Weight* w = n.weight(operand::Linear::w);
    const Weight* bias = n.weight(operand::Linear::bias);
    const Value* residual = n.in(operand::Linear::residual);
    const Weight *scale = nullptr, *norm_bias = nullptr;
    const int x = BufferOf(fold.x), y = BufferOf(fold.y);
    LinearShape s;
    s.x = TypeOf(fold.x);
    s.weight = StoredType(w);
    s.y = TypeOf(fold.y);
    s.out = w->type.dims[0].size;
    s.in = w->type.dims[1].size;
    s.x_stride = Stride(x);
    s.y_stride = Stride(y);
    s.tokens = r_.bucket;
    s.gather = fold.gather != nullptr;
    s.by_rows = CountOf(fold.y) == CountDim::kRows;
    if (fold.norm != nullptr) {
      const bool layer = fold.norm->op == OpKind::kLayerNorm;
      s.norm = layer ? FusedNorm::kLayer : FusedNorm::kRms;
      s.eps = fold.norm->f(layer ? +attr::LayerNorm::eps : +attr::RmsNorm::eps);
      scale = fold.norm->weight(1);
      if (layer) norm_bias = fold.norm->weight(operand::LayerNorm::bias);
      s.norm_bias = norm_bias != nullptr;
    }
    s.bias = bias != nullptr;
    if (residual != nullptr) {
      s.residual = true;
      s.residual_stride = Stride(BufferOf(residual));
      if (TypeOf(residual) != s.x) {
        return absl::UnimplementedError("a residual of another type than x");
      }
    }
    SetEpilogue(fold.epilogue, &s.act, &s.gated);
    const std::optional<KernelSpec> spec = SpecializeLinear(s, *r_.target);
    if (!spec.has_value()) {
      return absl::InternalError(absl::StrFormat(
          "no kernel for %d x %d with %d tokens", s.in, s.out, s.tokens));
    }
    b_.Launch(*spec, fold.y->name,
              {Ref::Buffer(x), Operand(w), Operand(scale), Operand(norm_bias),
               Operand(bias), Operand(residual), Rows(fold.gather)},
              y);
    return absl::OkStatus();
  }

  // A matrix product, then a kernel for what it can't do.
  absl::Status PlainLinear(const Node& n, const Fold& fold) {
    const Weight* w = n.weight(operand::Linear::w);
    const Weight* bias = n.weight(operand::Linear::bias);
    const Value* residual = n.in(operand::Linear::residual);
    const int64_t out = w->type.dims[0].size, in = w->type.dims[1].size;
    const bool product_adds = in > 0 && residual != nullptr &&
                              bias == nullptr && fold.epilogue == nullptr &&
                              TypeOf(residual) == TypeOf(fold.y);
    const bool more = bias != nullptr || fold.epilogue != nullptr ||
                      (residual != nullptr && !product_adds);
    int product;
    if (!more) {
      product = BufferOf(fold.y);
    } else if (fold.epilogue != nullptr &&
               fold.epilogue->op == OpKind::kGatedAct) {
      product = BufferLike(n.result, n.result->name, out);
    } else {
      // Lies as the result does, which then takes its place.
      const int y = BufferOf(fold.y);
      product = b_.AddBuffer(fold.epilogue != nullptr
                                 ? n.result->name
                                 : absl::StrCat(n.result->name, ".product"),
                             TypeOf(fold.y), b_.program().buffers[y].extents);
    }
    const std::string name = b_.program().buffers[product].name;
    if (in == 0) {
      Zeros(fold.y, name, product);
    } else {
      int x = BufferOf(fold.x);
      if (fold.x->producer == nullptr && TypeOf(fold.x) != StoredType(w)) {
        // Pixels, which are float.
        const std::string rounded = absl::StrCat(fold.x->name, ".rounded");
        x = b_.AddBuffer(rounded, StoredType(w),
                         b_.program().buffers[x].extents);
        Round(fold.x, rounded, x);
      } else if (TypeOf(fold.x) != StoredType(w)) {
        return absl::UnimplementedError(absl::StrFormat(
            "%%%s is %s, @%s %s: GPU targets multiply equal types",
            fold.x->name, DTypeName(TypeOf(fold.x)), w->name,
            EncodingName(w->encoding)));
      }
      b_.Gemm(name, x, IndexOf(w), product_adds ? BufferOf(residual) : -1,
              product);
    }
    if (!more) return absl::OkStatus();
    Extras extras;
    extras.bias = bias;
    extras.epilogue = fold.epilogue;
    if (residual != nullptr) {
      extras.second = residual;
      extras.how = Second::kAdd;
    }
    return Elementwise(product, out, fold.y, extras);
  }

  absl::Status LowerAllGather(const Node& n) {
    const Value* in = n.in(0);
    UngatherShape s;
    s.type = TypeOf(n.result);
    s.world = r_.place.world;
    s.part = Stride(BufferOf(in));
    s.total = n.i(attr::AllGather::total);
    s.count = CountOf(n.result);
    s.max_rows = RowsOf(n.result);
    const std::string name = absl::StrCat(n.result->name, ".gathered");
    const int64_t columns = s.world * s.part;
    const int gathered =
        b_.AddBuffer(name, s.type, {{s.max_rows, -1}, {columns, -1}});
    b_.Collective(LoweredStep::Collective::kAllGather, name, BufferOf(in),
                  gathered, columns);
    b_.Launch(SpecializeUngather(s, *r_.target), n.result->name,
              {Ref::Buffer(gathered)}, BufferOf(n.result));
    return absl::OkStatus();
  }

  // Rank 0 draws the ids, all get them.
  void AddSampling(int logits) {
    if (r_.place.rank == 0) {
      SampleShape s;
      s.vocab = Columns(graph_.returns()[0]);
      s.logits_stride = Stride(logits);
      // Of each sequence one: see StepInfo::sampled_rows.
      s.max_rows = std::min(b_.DimMaximum("R"), b_.DimMaximum("S"));
      const int64_t sync_words = kSampleSyncWords * s.max_rows;
      b_.Launch(
          SpecializeSample(s, *r_.target), "sampled",
          {Ref::Buffer(logits), Ref::Buffer(samplers_),
           Ref::Buffer(b_.AddScratch("sampled.scratch", SampleScratchBytes(s))),
           Ref::Sync(b_.AddSync(sync_words))},
          sampled_, -1, sync_words);
    }
    if (r_.place.world > 1) {
      b_.Collective(LoweredStep::Collective::kBroadcast, "sampled", sampled_,
                    sampled_, 1);
    }
  }

  const bool fused_;  // linears are kernels of ours
};

}  // namespace

bool EncodesGraph(const Graph& graph) {
  return graph.states().empty() &&
         std::any_of(
             graph.nodes().begin(), graph.nodes().end(),
             [](const auto& n) { return n->op == OpKind::kEncoderAttention; });
}

absl::StatusOr<LoweredProgram> LowerProgram(const ProgramRequest& request,
                                            SpecTable* kernels) {
  DS_RETURN_IF_ERROR(CheckGraph(*request.graph));
  return Lowering(request, kernels).Run();
}

}  // namespace deepslice
