#include "compiler/gpu/lower_program.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/gpu/folds.h"
#include "compiler/gpu/lower_attention.h"
#include "compiler/gpu/value_places.h"
#include "kernels/cuda/linear.h"
#include "kernels/cuda/rows.h"
#include "schema/base/checked_math.h"
#include "schema/base/status_macros.h"
#include "schema/plan_format.h"

namespace deepslice {
namespace {

using Ref = LoweredOperand;
using Second = ElementwiseShape::Second;

// The tags of encodings that are no quantised ones are those of dtypes.
DType StoredType(const Weight* w) { return static_cast<DType>(w->encoding); }

absl::Status CheckGraph(const Graph& graph) {
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

class Lowering : private ValuePlaces {
 public:
  Lowering(const ProgramRequest& request, SpecTable* kernels)
      : ValuePlaces(request, kernels),
        fused_(request.bucket > 0 && request.bucket <= kMaxLinearTokens),
        folds_(graph_, fused_) {}

  absl::StatusOr<LoweredProgram> Run() {
    for (const auto& n : graph_.nodes()) {
      if (folds_.IsFolded(n.get())) continue;
      DS_RETURN_IF_ERROR(
          Annotate(Lower(*n), "%", n->result->name, ": ", n->def().spelling));
    }
    const int logits = BufferOf(graph_.returns()[0]);
    AddSampling(logits);
    return std::move(b_).Finish({logits});
  }

 private:
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
        if (n.operands[operand::Rope::horizons].present()) {
          return NoKernel(n,
                          "rope by a sequence's length (longrope, dynamic)");
        }
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
        return Elementwise(n.in(operand::Add::x), n.result,
                           {.bias = n.weight(operand::Add::bias),
                            .second = n.in(operand::Add::y),
                            .how = Second::kAdd});
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
      case OpKind::kHeadLinear:
      case OpKind::kConcatHeads:
      case OpKind::kLatentAttention:
      case OpKind::kHeadNorm:
      case OpKind::kSumSquares:
      case OpKind::kRmsNormOver:
      case OpKind::kScale:
      case OpKind::kSoftcap:
        break;
    }
    return NoKernel(n, n.def().spelling);
  }

  static absl::Status NoKernel(const Node& n, absl::string_view what) {
    return absl::UnimplementedError(absl::StrCat(
        "%", n.result->name, ": ", what,
        " has no GPU kernel in this version; compile with --target cpu"));
  }

  absl::Status LowerEmbed(const Node& n) {
    const Weight* table = n.weight(operand::Embed::table);
    const Value* ids = n.in(operand::Embed::ids);
    if (table == nullptr) return absl::UnimplementedError("a table of values");
    EmbedShape s;
    s.table = StoredType(table);
    s.y = TypeOf(n.result);
    s.rows = table->type.dims[0].size;
    s.cols = Columns(n.result);
    s.begin = n.i(attr::Embed::begin);
    s.has_sampled = ids->name == "ids";
    s.count = CountOf(n.result);
    s.max_rows = RowsOf(n.result);
    b_.Launch(SpecializeEmbed(s, *r_.target), n.result->name,
              {Operand(ids), Operand(table),
               s.has_sampled ? Ref::Buffer(sampled_) : Ref::None()},
              BufferOf(n.result));
    return absl::OkStatus();
  }

  // The rows that a gather wants, or none.
  Ref Rows(const Node* gather) {
    return gather == nullptr ? Ref::None()
                             : Operand(gather->in(operand::GatherRows::rows));
  }

  // All of the buffer's rows: the embedding in a table without rows.
  void Zeros(const Value* rows_like, absl::string_view name, int buffer) {
    EmbedShape s;
    s.table = s.y = b_.program().buffers[buffer].dtype;
    s.cols = Stride(buffer);
    s.count = CountOf(rows_like);
    s.max_rows = RowsOf(rows_like);
    b_.Launch(SpecializeEmbed(s, *r_.target), name,
              {Input(s.count == CountDim::kRows ? "rows" : "positions"),
               Ref::None(), Ref::None()},
              buffer);
  }

  absl::Status LowerNorm(const Node& n) {
    const Fold& fold = folds_.Of(&n);
    const bool layer = n.op == OpKind::kLayerNorm;
    const Weight* bias = layer ? n.weight(operand::LayerNorm::bias) : nullptr;
    const int x = BufferOf(fold.x), y = BufferOf(fold.y);
    NormShape s;
    s.x = TypeOf(fold.x);
    s.y = TypeOf(fold.y);
    s.cols = Columns(fold.y);
    s.x_stride = Stride(x);
    s.y_stride = Stride(y);
    s.layer_norm = layer;
    s.bias = bias != nullptr;
    s.gather = fold.gather != nullptr;
    s.eps = n.f(layer ? +attr::LayerNorm::eps : +attr::RmsNorm::eps);
    s.count = CountOf(fold.y);
    s.max_rows = RowsOf(fold.y);
    b_.Launch(SpecializeNorm(s, *r_.target), fold.y->name,
              {Ref::Buffer(x), Operand(n.weight(1)), Operand(bias),
               Rows(fold.gather)},
              y);
    return absl::OkStatus();
  }

  struct Extras {
    const Weight* bias = nullptr;
    const Node* epilogue = nullptr;  // Activation or GatedAct
    const Value* second = nullptr;
    Second how = Second::kNone;
    const Node* gather = nullptr;
  };

  absl::Status Elementwise(const Value* x, const Value* y, const Extras& e) {
    return Elementwise(BufferOf(x), Columns(x), y, e);
  }
  absl::Status Elementwise(int x, int64_t columns, const Value* y,
                           const Extras& e) {
    const int out = BufferOf(y);
    ElementwiseShape s;
    s.x = b_.program().buffers[x].dtype;
    s.y = TypeOf(y);
    s.cols = columns;
    s.x_stride = Stride(x);
    s.y_stride = Stride(out);
    SetEpilogue(e.epilogue, &s.act, &s.gated);
    s.bias = e.bias != nullptr;
    s.gather = e.gather != nullptr;
    s.second = e.how;
    int in_place = e.gather == nullptr ? x : -1;
    if (e.second != nullptr) {
      const int second = BufferOf(e.second);
      if (TypeOf(e.second) != s.y) {
        return absl::UnimplementedError(absl::StrFormat(
            "%%%s is %s, the result %s: GPU kernels take both of one type",
            e.second->name, DTypeName(TypeOf(e.second)), DTypeName(s.y)));
      }
      s.second_stride = Stride(second);
    }
    s.count = CountOf(y);
    s.max_rows = RowsOf(y);
    b_.Launch(
        SpecializeElementwise(s, *r_.target), y->name,
        {Ref::Buffer(x), Operand(e.second), Operand(e.bias), Rows(e.gather)},
        out, in_place);
    return absl::OkStatus();
  }

  static void SetEpilogue(const Node* n, std::optional<Act>* act, bool* gated) {
    if (n == nullptr) return;
    *gated = n->op == OpKind::kGatedAct;
    *act = static_cast<Act>(
        n->i(*gated ? +attr::GatedAct::kind : +attr::Activation::kind));
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
      if (TypeOf(fold.x) != StoredType(w)) {
        return absl::UnimplementedError(absl::StrFormat(
            "%%%s is %s, @%s %s: GPU targets multiply equal types",
            fold.x->name, DTypeName(TypeOf(fold.x)), w->name,
            EncodingName(w->encoding)));
      }
      b_.Gemm(name, BufferOf(fold.x), IndexOf(w),
              product_adds ? BufferOf(residual) : -1, product);
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

  absl::Status LowerRope(const Node& n) {
    const int x = BufferOf(n.in(operand::Rope::x)), y = BufferOf(n.result);
    RopeShape s;
    s.x = TypeOf(n.in(operand::Rope::x));
    s.y = TypeOf(n.result);
    s.heads = n.i(attr::Rope::heads);
    s.head_dim = n.i(attr::Rope::head_dim);
    s.rotary_dim = n.i(attr::Rope::rotary_dim);
    s.x_stride = Stride(x);
    s.y_stride = Stride(y);
    s.style = static_cast<RopeStyle>(n.i(attr::Rope::style));
    s.scale = n.f(attr::Rope::scale);
    s.max_rows = RowsOf(n.result);
    b_.Launch(SpecializeRope(s, *r_.target), n.result->name,
              {Ref::Buffer(x), Operand(n.in(operand::Rope::positions)),
               Operand(n.weight(operand::Rope::freqs))},
              y);
    return absl::OkStatus();
  }

  absl::Status LowerAttention(const Node& n) {
    AttentionShape s = ShapeOfAttention(n, r_);
    const bool fused_row = n.op == OpKind::kQkvAttention;
    if (n.weight(fused_row ? +operand::QkvAttention::slopes
                           : +operand::Attention::slopes) != nullptr) {
      return NoKernel(n, "attention with slopes (ALiBi)");
    }
    if (n.f(fused_row ? +attr::QkvAttention::softcap
                      : +attr::Attention::softcap) > 0) {
      return NoKernel(n, "attention with a softcap");
    }
    const auto input = [&](int i) { return BufferOf(n.in(fused_row ? 0 : i)); };
    const int q = input(0), k = input(1), v = input(2);
    s.q_stride = Stride(q);
    s.k_stride = Stride(k);
    s.v_stride = Stride(v);
    const int out = BufferOf(n.result);
    s.out_stride = Stride(out);
    using A = operand::Attention;
    using Q = operand::QkvAttention;
    const auto param = [&](int plain, int qkv) {
      return Operand(n.in(fused_row ? qkv : plain));
    };
    const Ref positions = param(A::positions, Q::positions);
    const Ref slots = param(A::slots, Q::slots);
    const Ref blocks = param(A::blocks, Q::blocks);
    const Ref state = Ref::State(IndexOf(n.state));
    const Ref freqs = fused_row ? Operand(n.weight(Q::freqs)) : Ref::None();
    if (r_.bucket > 0) {
      const DecodeAttention d = SpecializeDecodeAttention(s, *r_.target);
      const Ref scratch = ScratchOf(n, d.scratch_bytes);
      const Ref sync = SyncOf(d.sync_words);
      b_.Launch(d.kernel, n.result->name,
                {Ref::Buffer(q), Ref::Buffer(k), Ref::Buffer(v), positions,
                 slots, blocks, freqs, state, scratch, sync},
                out, -1, d.sync_words);
      return absl::OkStatus();
    }
    const std::string name = absl::StrCat(n.result->name, ".rotated");
    const int rotated = BufferLike(n.result, name, s.heads * s.head_dim);
    b_.Launch(SpecializeAppend(s, *r_.target), name,
              {Ref::Buffer(q), Ref::Buffer(k), Ref::Buffer(v), positions, slots,
               blocks, freqs, state},
              rotated);
    s.q_stride = Stride(rotated);
    s.q_offset = 0;
    if (AttentionTileTokens(s, *r_.target) != b_.program().tile_tokens) {
      return absl::UnimplementedError(absl::StrFormat(
          "tiles of %d tokens, those of other layers have %d",
          AttentionTileTokens(s, *r_.target), b_.program().tile_tokens));
    }
    const TileAttention tile = SpecializeTileAttention(s, *r_.target);
    const Ref scratch = ScratchOf(n, tile.scratch_bytes);
    const Ref sync = SyncOf(tile.sync_words);
    b_.Launch(tile.kernel, n.result->name,
              {Ref::Buffer(rotated), Ref::Buffer(tiles_), blocks, state,
               scratch, sync},
              out, -1, tile.sync_words);
    return absl::OkStatus();
  }

  // Of an attention; none when it needs none.
  Ref ScratchOf(const Node& n, int64_t bytes) {
    if (bytes == 0) return Ref::None();
    const std::string name = absl::StrCat(n.result->name, ".scratch");
    return Ref::Buffer(b_.AddScratch(name, bytes));
  }
  Ref SyncOf(int64_t words) {
    return words > 0 ? Ref::Sync(b_.AddSync(words)) : Ref::None();
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
  const Folds folds_;
};

}  // namespace

absl::StatusOr<LoweredProgram> LowerProgram(const ProgramRequest& request,
                                            SpecTable* kernels) {
  DS_RETURN_IF_ERROR(CheckGraph(*request.graph));
  return Lowering(request, kernels).Run();
}

}  // namespace deepslice
