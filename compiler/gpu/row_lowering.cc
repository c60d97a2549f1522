#include "compiler/gpu/row_lowering.h"

#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "kernels/cuda/head_rows.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// An input with a number for each row.
absl::string_view RowNumbers(CountDim count) {
  return count == CountDim::kRows           ? "rows"
         : count == CountDim::kImageTokens  ? "image_positions"
         : count == CountDim::kImages       ? "image_rows"
         : count == CountDim::kSourceTokens ? "source_positions"
                                            : "positions";
}

}  // namespace

absl::Status RowLowering::LowerEmbed(const Node& n) {
  const Weight* table = n.weight(operand::Embed::table);
  const Value* ids = n.in(operand::Embed::ids);
  if (table == nullptr) return absl::UnimplementedError("a table of values");
  EmbedShape s;
  s.table = StoredType(table);
  s.y = TypeOf(n.result);
  s.rows = table->type.dims[0].size;
  s.cols = Columns(n.result);
  s.begin = n.i(attr::Embed::begin);
  s.has_sampled = ids->name == "ids" && !encodes_;
  s.count = CountOf(n.result);
  s.max_rows = RowsOf(n.result);
  b_.Launch(SpecializeEmbed(s, *r_.target), n.result->name,
            {Operand(ids), Operand(table),
             s.has_sampled ? Ref::Buffer(sampled_) : Ref::None()},
            BufferOf(n.result));
  return absl::OkStatus();
}

LoweredOperand RowLowering::Rows(const Node* gather) {
  return gather == nullptr ? Ref::None()
                           : Operand(gather->in(operand::GatherRows::rows));
}

void RowLowering::Zeros(const Value* v, absl::string_view name, int buffer) {
  EmbedShape s;  // in a table without rows
  s.table = s.y = b_.program().buffers[buffer].dtype;
  s.cols = Stride(buffer);
  s.count = CountOf(v);
  s.max_rows = RowsOf(v);
  b_.Launch(SpecializeEmbed(s, *r_.target), name,
            {Input(RowNumbers(s.count)), Ref::None(), Ref::None()}, buffer);
}

absl::Status RowLowering::LowerNorm(const Node& n) {
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
  b_.Launch(
      SpecializeNorm(s, *r_.target), fold.y->name,
      {Ref::Buffer(x), Operand(n.weight(1)), Operand(bias), Rows(fold.gather)},
      y);
  return absl::OkStatus();
}

absl::Status RowLowering::Elementwise(int x, int64_t columns, const Value* y,
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
    DS_RETURN_IF_ERROR(CheckType(e.second, s.y));
    s.second_stride = Stride(BufferOf(e.second));
  }
  s.count = CountOf(y);
  s.max_rows = RowsOf(y);
  b_.Launch(
      SpecializeElementwise(s, *r_.target), y->name,
      {Ref::Buffer(x), Operand(e.second), Operand(e.bias), Rows(e.gather)}, out,
      in_place);
  return absl::OkStatus();
}

void RowLowering::Round(const Value* input, absl::string_view name,
                        int buffer) {
  const int x = BufferOf(input);
  ElementwiseShape s;
  s.x = TypeOf(input);
  s.y = b_.program().buffers[buffer].dtype;
  s.cols = Columns(input);
  s.x_stride = Stride(x);
  s.y_stride = Stride(buffer);
  s.count = CountOf(input);
  s.max_rows = RowsOf(input);
  b_.Launch(SpecializeElementwise(s, *r_.target), name,
            {Ref::Buffer(x), Ref::None(), Ref::None(), Ref::None()}, buffer);
}

void RowLowering::SetEpilogue(const Node* n, std::optional<Act>* act,
                              bool* gated) {
  if (n == nullptr) return;
  *gated = n->op == OpKind::kGatedAct;
  *act = static_cast<Act>(
      n->i(*gated ? +attr::GatedAct::kind : +attr::Activation::kind));
}

absl::Status RowLowering::LowerRope(const Node& n) {
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
  std::vector<LoweredOperand> operands = {
      Ref::Buffer(x), Operand(n.in(operand::Rope::positions)),
      Operand(n.weight(operand::Rope::freqs))};
  if (n.operands[operand::Rope::horizons].present()) {
    s.long_from = n.i(attr::Rope::long_from);
    s.ntk_factor = n.f(attr::Rope::ntk_factor);
    if (s.ntk_factor == 0) {
      operands.push_back(Operand(n.weight(operand::Rope::long_freqs)));
    }
    operands.push_back(Operand(n.in(operand::Rope::slots)));
    operands.push_back(Operand(n.in(operand::Rope::horizons)));
  }
  b_.Launch(SpecializeRope(s, *r_.target), n.result->name, std::move(operands),
            y);
  return absl::OkStatus();
}

absl::Status RowLowering::LowerHeadNorm(const Node& n) {
  using In = operand::HeadNorm;
  const int x = BufferOf(n.in(In::x)), y = BufferOf(n.result);
  const Weight* scale = n.weight(In::scale);
  const Weight* bias = n.weight(In::bias);
  HeadNormShape s;
  s.x = TypeOf(n.in(In::x));
  s.y = TypeOf(n.result);
  s.heads = n.i(attr::HeadNorm::heads);
  s.head_dim = n.i(attr::HeadNorm::head_dim);
  s.x_stride = Stride(x);
  s.y_stride = Stride(y);
  s.layer_norm =
      n.i(attr::HeadNorm::kind) == static_cast<int64_t>(NormKind::kLayer);
  s.bias = bias != nullptr;
  s.each = scale->type.dims[0].size != s.head_dim;
  s.eps = n.f(attr::HeadNorm::eps);
  s.count = CountOf(n.result);
  s.max_rows = RowsOf(n.result);
  b_.Launch(SpecializeHeadNorm(s, *r_.target), n.result->name,
            {Ref::Buffer(x), Operand(scale), Operand(bias)}, y, x);
  return absl::OkStatus();
}

absl::Status RowLowering::LowerSumSquares(const Node& n) {
  const Value* x = n.in(operand::SumSquares::x);
  const int y = BufferOf(n.result);
  SumSquaresShape s;
  s.x = TypeOf(x);
  s.begin = n.i(attr::SumSquares::begin);
  s.end = n.i(attr::SumSquares::end);
  if (s.begin == s.end) {
    Zeros(n.result, n.result->name, y);
    return absl::OkStatus();
  }
  s.x_stride = Stride(BufferOf(x));
  s.count = CountOf(n.result);
  s.max_rows = RowsOf(n.result);
  b_.Launch(SpecializeSumSquares(s, *r_.target), n.result->name, {Operand(x)},
            y);
  return absl::OkStatus();
}

absl::Status RowLowering::LowerRmsNormOver(const Node& n) {
  using In = operand::RmsNormOver;
  const int x = BufferOf(n.in(In::x)), y = BufferOf(n.result);
  DS_RETURN_IF_ERROR(CheckType(n.in(In::sums), DType::kF32));
  RmsNormOverShape s;
  s.x = TypeOf(n.in(In::x));
  s.y = TypeOf(n.result);
  s.cols = Columns(n.result);
  s.x_stride = Stride(x);
  s.y_stride = Stride(y);
  s.columns_of_all = n.i(attr::RmsNormOver::count);
  s.eps = n.f(attr::RmsNormOver::eps);
  s.count = CountOf(n.result);
  s.max_rows = RowsOf(n.result);
  b_.Launch(
      SpecializeRmsNormOver(s, *r_.target), n.result->name,
      {Ref::Buffer(x), Operand(n.in(In::sums)), Operand(n.weight(In::scale))},
      y, x);
  return absl::OkStatus();
}

absl::Status RowLowering::LowerConcatHeads(const Node& n) {
  using In = operand::ConcatHeads;
  const Value *a = n.in(In::a), *b = n.in(In::b);
  DS_RETURN_IF_ERROR(CheckType(b, TypeOf(a)));
  const int y = BufferOf(n.result);
  ConcatHeadsShape s;
  s.x = TypeOf(a);
  s.y = TypeOf(n.result);
  s.heads = n.i(attr::ConcatHeads::heads);
  s.of_a = Columns(a) / s.heads;
  s.of_b = Columns(b) / s.heads;
  s.a_stride = Stride(BufferOf(a));
  s.b_stride = Stride(BufferOf(b));
  s.y_stride = Stride(y);
  s.count = CountOf(n.result);
  s.max_rows = RowsOf(n.result);
  b_.Launch(SpecializeConcatHeads(s, *r_.target), n.result->name,
            {Operand(a), Operand(b)}, y);
  return absl::OkStatus();
}

absl::Status RowLowering::LowerHeadLinear(const Node& n) {
  using In = operand::HeadLinear;
  const Weight* w = n.weight(In::w);
  const int x = BufferOf(n.in(In::x)), y = BufferOf(n.result);
  if (Columns(n.in(In::x)) == 0) {
    Zeros(n.result, n.result->name, y);
    return absl::OkStatus();
  }
  HeadLinearShape s;
  s.x = TypeOf(n.in(In::x));
  s.weight = StoredType(w);
  s.y = TypeOf(n.result);
  s.heads = n.i(attr::HeadLinear::heads);
  s.in = Columns(n.in(In::x)) / s.heads;
  s.out = Columns(n.result) / s.heads;
  s.x_stride = Stride(x);
  s.y_stride = Stride(y);
  s.transposed = n.i(attr::HeadLinear::transposed) != 0;
  s.count = CountOf(n.result);
  s.max_rows = RowsOf(n.result);
  b_.Launch(SpecializeHeadLinear(s, *r_.target), n.result->name,
            {Ref::Buffer(x), Operand(w)}, y);
  return absl::OkStatus();
}

absl::Status RowLowering::LowerScale(const Node& n, const Value* second,
                                     const Value* y) {
  const int x = BufferOf(n.in(0)), out = BufferOf(y);
  ScaleShape s;
  s.x = TypeOf(n.in(0));
  s.y = TypeOf(y);
  s.cols = Columns(y);
  s.x_stride = Stride(x);
  s.y_stride = Stride(out);
  s.softcap = n.op == OpKind::kSoftcap;
  s.factor = n.f(s.softcap ? +attr::Softcap::cap : +attr::Scale::factor);
  if (second != nullptr) {
    DS_RETURN_IF_ERROR(CheckType(second, s.y));
    s.second = true;
    s.second_stride = Stride(BufferOf(second));
  }
  s.count = CountOf(y);
  s.max_rows = RowsOf(y);
  b_.Launch(SpecializeScale(s, *r_.target), y->name,
            {Ref::Buffer(x), Operand(second)}, out, x);
  return absl::OkStatus();
}

absl::Status RowLowering::LowerAdd(const Node& n) {
  using In = operand::Add;
  const Value *x = n.in(In::x), *y = n.in(In::y);
  if (const Node* scale = folds_.ScaleOf(&n)) {
    return LowerScale(*scale, scale->result == x ? y : x, n.result);
  }
  return Elementwise(
      x, n.result,
      {.bias = n.weight(In::bias), .second = y, .how = Second::kAdd});
}

absl::Status RowLowering::CheckType(const Value* v, DType type) const {
  if (TypeOf(v) == type) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrFormat("%%%s is %s, not %s: GPU kernels take it of that type",
                      v->name, DTypeName(TypeOf(v)), DTypeName(type)));
}

}  // namespace deepslice
