// The shape rules named in ops.def, and the dispatch made from it.
#include "ir/shape_rules.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"
#include "schema/relative_bucket.h"

namespace deepslice {
namespace {

constexpr std::nullopt_t kAny = std::nullopt;

// What an operand has to be: where it comes from, element type, dims.
struct Wanted {
  enum Kind { kValue, kIndices, kWeight } kind;
  std::vector<std::optional<Dim>> dims;
};

Wanted Activations(std::initializer_list<std::optional<Dim>> dims) {
  return {Wanted::kValue, dims};
}
Wanted Indices(std::initializer_list<std::optional<Dim>> dims) {
  return {Wanted::kIndices, dims};
}
Wanted WeightOf(std::initializer_list<std::optional<Dim>> dims) {
  return {Wanted::kWeight, dims};
}

std::string WantedText(const Wanted& wanted) {
  constexpr absl::string_view kKinds[] = {
      "a value of floats", "a value of integers", "a weight of f32"};
  return absl::StrCat(
      kKinds[wanted.kind], " [",
      absl::StrJoin(wanted.dims, ", ",
                    [](std::string* out, const std::optional<Dim>& d) {
                      if (!d.has_value()) {
                        absl::StrAppend(out, "*");
                      } else if (d->is_symbol()) {
                        absl::StrAppend(out, d->symbol);
                      } else {
                        absl::StrAppend(out, d->size);
                      }
                    }),
      "]");
}

const TensorType& TypeOf(const Operand& o) {
  return o.value != nullptr ? o.value->type : o.weight->type;
}

bool Fits(const Operand& operand, const Wanted& wanted) {
  if ((operand.weight != nullptr) != (wanted.kind == Wanted::kWeight)) {
    return false;
  }
  const TensorType& type = TypeOf(operand);
  if (type.rank() != static_cast<int>(wanted.dims.size())) return false;
  for (int d = 0; d < type.rank(); ++d) {
    if (wanted.dims[d].has_value() && *wanted.dims[d] != type.dims[d]) {
      return false;
    }
  }
  switch (wanted.kind) {
    case Wanted::kValue:
      return IsFloat(type.dtype);
    case Wanted::kIndices:
      return type.dtype == DType::kI32 || type.dtype == DType::kI64;
    case Wanted::kWeight:
      return type.dtype == DType::kF32;
  }
  return false;
}

// OK for an optional operand that is absent.
absl::Status Check(const Node& node, int i, const Wanted& wanted) {
  const Operand& operand = node.operands[i];
  if (!operand.present() || Fits(operand, wanted)) return absl::OkStatus();
  const bool is_weight = operand.weight != nullptr;
  return absl::InvalidArgumentError(absl::StrCat(
      node.def().spelling, ": ", node.def().operands[i].name, ": found ",
      is_weight ? "@" : "%",
      is_weight ? operand.weight->name : operand.value->name, " : ",
      TypeText(TypeOf(operand)), "; allowed: ", WantedText(wanted)));
}

absl::Status BadAttr(const Node& node, int a, absl::string_view allowed) {
  const AttrDef& def = node.def().attrs[a];
  const Attr& value = node.attrs[a];
  return absl::InvalidArgumentError(
      absl::StrCat(node.def().spelling, ": ", def.name, ": found ",
                   def.type == AttrType::kF64 ? absl::StrCat(value.f)
                                              : absl::StrCat(value.i),
                   "; allowed: ", allowed));
}

// lo <= attribute <= hi.
absl::Status CheckRange(const Node& node, int a, int64_t lo, int64_t hi) {
  if (node.i(a) >= lo && node.i(a) <= hi) return absl::OkStatus();
  return BadAttr(node, a, absl::StrCat(lo, " to ", hi));
}

const Dim& DimOf(const Node& node, int operand, int d) {
  return node.in(operand)->type.dims[d];
}

// ---- one function per rule --------------------------------------------------

// ids [T], table [V, H] -> [T, H].
absl::StatusOr<TensorType> EmbedShape(const Node& node) {
  using In = operand::Embed;
  DS_RETURN_IF_ERROR(Check(node, In::ids, Indices({kAny})));
  DS_RETURN_IF_ERROR(Check(node, In::table, WeightOf({kAny, kAny})));
  DS_RETURN_IF_ERROR(
      CheckRange(node, attr::Embed::begin, 0, limits::kPositions));
  return TensorType{
      DType::kF32,
      {DimOf(node, In::ids, 0), node.weight(In::table)->type.dims[1]}};
}

// x [M, K], w [N, K], bias [N], residual [M, N] -> [M, N].
absl::StatusOr<TensorType> LinearShape(const Node& node) {
  using In = operand::Linear;
  DS_RETURN_IF_ERROR(Check(node, In::x, Activations({kAny, kAny})));
  const Dim& rows = DimOf(node, In::x, 0);
  DS_RETURN_IF_ERROR(
      Check(node, In::w, WeightOf({kAny, DimOf(node, In::x, 1)})));
  const Dim& out = node.weight(In::w)->type.dims[0];
  DS_RETURN_IF_ERROR(Check(node, In::bias, WeightOf({out})));
  DS_RETURN_IF_ERROR(Check(node, In::residual, Activations({rows, out})));
  return TensorType{node.in(In::x)->type.dtype, {rows, out}};
}

// x [M, C] and weights [C] -> [M, C].
absl::StatusOr<TensorType> RowVectorShape(const Node& node) {
  DS_RETURN_IF_ERROR(Check(node, 0, Activations({kAny, kAny})));
  for (size_t i = 1; i < node.operands.size(); ++i) {
    DS_RETURN_IF_ERROR(Check(node, i, WeightOf({DimOf(node, 0, 1)})));
  }
  return node.in(0)->type;
}

// x and y [M, C], and for an op with a third operand a weight [C] -> [M, C].
absl::StatusOr<TensorType> SameShape(const Node& node) {
  DS_RETURN_IF_ERROR(Check(node, 0, Activations({kAny, kAny})));
  const Dim &rows = DimOf(node, 0, 0), &cols = DimOf(node, 0, 1);
  DS_RETURN_IF_ERROR(Check(node, 1, Activations({rows, cols})));
  if (node.operands.size() > 2) {
    DS_RETURN_IF_ERROR(Check(node, 2, WeightOf({cols})));
  }
  return node.in(0)->type;
}

absl::StatusOr<TensorType> SameAsFirst(const Node& node) {
  DS_RETURN_IF_ERROR(Check(node, 0, Activations({kAny, kAny})));
  return node.in(0)->type;
}

// rotary_dim is even and at most head_dim; freqs [rotary_dim / 2].
absl::Status CheckRotary(const Node& node, int rotary_dim, int head_dim,
                         int freqs) {
  if (node.i(rotary_dim) < 0 || node.i(rotary_dim) > node.i(head_dim) ||
      node.i(rotary_dim) % 2 != 0) {
    return BadAttr(node, rotary_dim,
                   absl::StrCat("an even number from 0 to head_dim (",
                                node.i(head_dim), ")"));
  }
  return Check(node, freqs, WeightOf({node.i(rotary_dim) / 2}));
}

absl::Status CheckNotNegative(const Node& node, int a) {
  return node.f(a) >= 0 ? absl::OkStatus() : BadAttr(node, a, "0 or more");
}

// x [T, heads * head_dim], positions [T], freqs [rotary_dim / 2] -> x.
absl::StatusOr<TensorType> RopeShape(const Node& node) {
  using In = operand::Rope;
  using At = attr::Rope;
  DS_RETURN_IF_ERROR(CheckRange(node, At::heads, 0, limits::kHeads));
  DS_RETURN_IF_ERROR(CheckRange(node, At::head_dim, 1, limits::kHiddenSize));
  DS_RETURN_IF_ERROR(
      CheckRotary(node, At::rotary_dim, At::head_dim, In::freqs));
  DS_RETURN_IF_ERROR(
      Check(node, In::x,
            Activations({kAny, node.i(At::heads) * node.i(At::head_dim)})));
  const Dim& tokens = DimOf(node, In::x, 0);
  DS_RETURN_IF_ERROR(Check(node, In::positions, Indices({tokens})));
  DS_RETURN_IF_ERROR(CheckRange(node, At::long_from, 0, limits::kPositions));
  const bool two = node.operands[In::long_freqs].present();
  const bool grows = node.f(At::ntk_factor) > 0;
  DS_RETURN_IF_ERROR(CheckNotNegative(node, At::ntk_factor));
  for (int i : {In::slots, In::horizons}) {
    if (node.operands[i].present() != (two || grows) || (two && grows)) {
      return absl::InvalidArgumentError(
          absl::StrCat("rope: slots and horizons with long_freqs or with "
                       "ntk_factor; allowed: both of them, for one of these"));
    }
  }
  if (grows) {
    DS_RETURN_IF_ERROR(CheckRange(node, At::long_from, 1, limits::kPositions));
  }
  DS_RETURN_IF_ERROR(
      Check(node, In::long_freqs, WeightOf({node.i(At::rotary_dim) / 2})));
  DS_RETURN_IF_ERROR(Check(node, In::slots, Indices({tokens})));
  DS_RETURN_IF_ERROR(Check(node, In::horizons, Indices({kAny})));
  return node.in(In::x)->type;
}

// The attributes that all attention ops have.
template <typename At>
absl::Status CheckHeadCounts(const Node& node) {
  DS_RETURN_IF_ERROR(CheckRange(node, At::heads, 0, limits::kHeads));
  DS_RETURN_IF_ERROR(CheckRange(node, At::kv_heads, 0, limits::kHeads));
  DS_RETURN_IF_ERROR(CheckRange(node, At::group, 1, limits::kHeads));
  DS_RETURN_IF_ERROR(CheckRange(node, At::head_offset, 0, limits::kHeads));
  return CheckRange(node, At::head_dim, 1, limits::kHiddenSize);
}

// And those of the two over a growing cache.
template <typename At>
absl::Status CheckHeads(const Node& node) {
  DS_RETURN_IF_ERROR(CheckNotNegative(node, At::softcap));
  DS_RETURN_IF_ERROR(CheckHeadCounts<At>(node));
  return CheckRange(node, At::window, 0, limits::kPositions);
}

// rel_bias [heads, buckets] with as many buckets as its distance allows; none
// has the distance 0.
absl::Status CheckRelative(const Node& node, int rel_bias, int max_distance,
                           int64_t heads, bool both_directions) {
  if (!node.operands[rel_bias].present()) {
    return node.i(max_distance) == 0
               ? absl::OkStatus()
               : BadAttr(node, max_distance, "0 where rel_bias is absent");
  }
  DS_RETURN_IF_ERROR(Check(node, rel_bias, WeightOf({heads, kAny})));
  const int64_t buckets = node.weight(rel_bias)->type.dims[1].size;
  if (AreRelativeBuckets(buckets, node.i(max_distance), both_directions)) {
    return absl::OkStatus();
  }
  return BadAttr(node, max_distance,
                 absl::StrCat("above a ", both_directions ? "fourth" : "half",
                              " of the ", buckets, " buckets, at most ",
                              kMostRelativeDistance));
}

// positions [T], slots [T], blocks [S, B].
template <typename In>
absl::Status CheckStepInputs(const Node& node, const Dim& tokens) {
  DS_RETURN_IF_ERROR(Check(node, In::positions, Indices({tokens})));
  DS_RETURN_IF_ERROR(Check(node, In::slots, Indices({tokens})));
  return Check(node, In::blocks, Indices({kAny, kAny}));
}

// q [T, heads * head_dim], k and v [T, kv_heads * head_dim] -> q.
absl::StatusOr<TensorType> AttentionShape(const Node& node) {
  using In = operand::Attention;
  using At = attr::Attention;
  DS_RETURN_IF_ERROR(CheckHeads<At>(node));
  const Dim q_cols = node.i(At::heads) * node.i(At::head_dim);
  const Dim kv_cols = node.i(At::kv_heads) * node.i(At::head_dim);
  DS_RETURN_IF_ERROR(Check(node, In::q, Activations({kAny, q_cols})));
  const Dim& tokens = DimOf(node, In::q, 0);
  DS_RETURN_IF_ERROR(Check(node, In::k, Activations({tokens, kv_cols})));
  DS_RETURN_IF_ERROR(Check(node, In::v, Activations({tokens, kv_cols})));
  DS_RETURN_IF_ERROR(CheckStepInputs<In>(node, tokens));
  DS_RETURN_IF_ERROR(Check(node, In::slopes, WeightOf({node.i(At::heads)})));
  DS_RETURN_IF_ERROR(CheckRelative(node, In::rel_bias, At::max_distance,
                                   node.i(At::heads), false));
  return node.in(In::q)->type;
}

// q [T, heads * head_dim], k and v [T, kv_heads * head_dim], slots [T] -> q.
absl::StatusOr<TensorType> EncoderAttentionShape(const Node& node) {
  using In = operand::EncoderAttention;
  using At = attr::EncoderAttention;
  DS_RETURN_IF_ERROR(CheckHeadCounts<At>(node));
  const Dim q_cols = node.i(At::heads) * node.i(At::head_dim);
  const Dim kv_cols = node.i(At::kv_heads) * node.i(At::head_dim);
  DS_RETURN_IF_ERROR(Check(node, In::q, Activations({kAny, q_cols})));
  const Dim& tokens = DimOf(node, In::q, 0);
  DS_RETURN_IF_ERROR(Check(node, In::k, Activations({tokens, kv_cols})));
  DS_RETURN_IF_ERROR(Check(node, In::v, Activations({tokens, kv_cols})));
  DS_RETURN_IF_ERROR(Check(node, In::slots, Indices({tokens})));
  const bool full = static_cast<Mask>(node.i(At::mask)) == Mask::kFull;
  DS_RETURN_IF_ERROR(CheckRelative(node, In::rel_bias, At::max_distance,
                                   node.i(At::heads), full));
  return node.in(In::q)->type;
}

// q [T, heads * head_dim], k and v [E, kv_heads * head_dim], slots [T],
// source_positions and source_slots [E], sources [S, 2] -> q.
absl::StatusOr<TensorType> CrossAttentionShape(const Node& node) {
  using In = operand::CrossAttention;
  using At = attr::CrossAttention;
  DS_RETURN_IF_ERROR(CheckHeadCounts<At>(node));
  const Dim q_cols = node.i(At::heads) * node.i(At::head_dim);
  const Dim kv_cols = node.i(At::kv_heads) * node.i(At::head_dim);
  DS_RETURN_IF_ERROR(Check(node, In::q, Activations({kAny, q_cols})));
  DS_RETURN_IF_ERROR(Check(node, In::k, Activations({kAny, kv_cols})));
  const Dim& tokens = DimOf(node, In::k, 0);
  DS_RETURN_IF_ERROR(Check(node, In::v, Activations({tokens, kv_cols})));
  DS_RETURN_IF_ERROR(
      Check(node, In::slots, Indices({DimOf(node, In::q, 0)})));
  DS_RETURN_IF_ERROR(Check(node, In::source_positions, Indices({tokens})));
  DS_RETURN_IF_ERROR(Check(node, In::source_slots, Indices({tokens})));
  DS_RETURN_IF_ERROR(Check(node, In::sources, Indices({kAny, Dim(2)})));
  return node.in(In::q)->type;
}

// qkv [T, (heads + 2 kv_heads) * head_dim] -> [T, heads * head_dim].
absl::StatusOr<TensorType> QkvAttentionShape(const Node& node) {
  using In = operand::QkvAttention;
  using At = attr::QkvAttention;
  DS_RETURN_IF_ERROR(CheckHeads<At>(node));
  DS_RETURN_IF_ERROR(
      CheckRotary(node, At::rotary_dim, At::head_dim, In::freqs));
  if (!node.operands[In::freqs].present() && node.i(At::rotary_dim) != 0) {
    return BadAttr(node, At::rotary_dim, "0 where freqs is absent");
  }
  const int64_t heads = node.i(At::heads), dim = node.i(At::head_dim);
  DS_RETURN_IF_ERROR(
      Check(node, In::qkv,
            Activations({kAny, (heads + 2 * node.i(At::kv_heads)) * dim})));
  const Dim& tokens = DimOf(node, In::qkv, 0);
  DS_RETURN_IF_ERROR(CheckStepInputs<In>(node, tokens));
  DS_RETURN_IF_ERROR(Check(node, In::slopes, WeightOf({heads})));
  return TensorType{node.in(In::qkv)->type.dtype, {tokens, heads * dim}};
}

// x [M, 2 I] -> [M, I].
absl::StatusOr<TensorType> GatedActShape(const Node& node) {
  DS_RETURN_IF_ERROR(Check(node, 0, Activations({kAny, kAny})));
  TensorType type = node.in(0)->type;
  Dim& cols = type.dims[1];
  if (cols.is_symbol() || cols.size % 2 != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        node.def().spelling, ": x: found ", TypeText(type),
        "; allowed: an even number of columns, gate and up in turn"));
  }
  cols.size /= 2;
  return type;
}

// x [M, C], rows [R] -> [R, C].
absl::StatusOr<TensorType> GatherRowsShape(const Node& node) {
  using In = operand::GatherRows;
  DS_RETURN_IF_ERROR(Check(node, In::x, Activations({kAny, kAny})));
  DS_RETURN_IF_ERROR(Check(node, In::rows, Indices({kAny})));
  TensorType type = node.in(In::x)->type;
  type.dims[0] = DimOf(node, In::rows, 0);
  return type;
}

// x [M, part] -> [M, total].
absl::StatusOr<TensorType> AllGatherShape(const Node& node) {
  DS_RETURN_IF_ERROR(Check(node, 0, Activations({kAny, kAny})));
  TensorType type = node.in(0)->type;
  Dim& cols = type.dims[1];
  const int total = attr::AllGather::total;
  if (cols.is_symbol() || node.i(total) < cols.size ||
      node.i(total) > limits::kTensorBytes) {
    return BadAttr(node, total,
                   absl::StrCat("at least the columns of x, ", TypeText(type)));
  }
  cols = node.i(total);
  return type;
}

// x [M, heads * head_dim], scale and bias [head_dim] or [heads * head_dim] ->
// x.
absl::StatusOr<TensorType> HeadNormShape(const Node& node) {
  using In = operand::HeadNorm;
  using At = attr::HeadNorm;
  DS_RETURN_IF_ERROR(CheckRange(node, At::heads, 0, limits::kHeads));
  DS_RETURN_IF_ERROR(CheckRange(node, At::head_dim, 1, limits::kHiddenSize));
  DS_RETURN_IF_ERROR(CheckNotNegative(node, At::eps));
  const Dim one = node.i(At::head_dim);
  const Dim all = node.i(At::heads) * node.i(At::head_dim);
  DS_RETURN_IF_ERROR(Check(node, In::x, Activations({kAny, all})));
  const Weight* scale = node.weight(In::scale);
  const Dim wide = scale != nullptr && scale->type.dims[0] == all ? all : one;
  DS_RETURN_IF_ERROR(Check(node, In::scale, WeightOf({wide})));
  DS_RETURN_IF_ERROR(Check(node, In::bias, WeightOf({wide})));
  return node.in(In::x)->type;
}

// x [M, C] -> [M, 1].
absl::StatusOr<TensorType> SumSquaresShape(const Node& node) {
  using At = attr::SumSquares;
  DS_RETURN_IF_ERROR(Check(node, 0, Activations({kAny, kAny})));
  TensorType type = node.in(0)->type;
  const int64_t cols = type.dims[1].is_symbol() ? 0 : type.dims[1].size;
  DS_RETURN_IF_ERROR(CheckRange(node, At::begin, 0, cols));
  DS_RETURN_IF_ERROR(CheckRange(node, At::end, node.i(At::begin), cols));
  type.dims[1] = 1;
  return type;
}

// x [M, C], sums [M, 1], scale [C] -> x.
absl::StatusOr<TensorType> RmsNormOverShape(const Node& node) {
  using In = operand::RmsNormOver;
  using At = attr::RmsNormOver;
  DS_RETURN_IF_ERROR(CheckRange(node, At::count, 1, limits::kTensorBytes));
  DS_RETURN_IF_ERROR(CheckNotNegative(node, At::eps));
  DS_RETURN_IF_ERROR(Check(node, In::x, Activations({kAny, kAny})));
  DS_RETURN_IF_ERROR(
      Check(node, In::sums, Activations({DimOf(node, In::x, 0), Dim(1)})));
  DS_RETURN_IF_ERROR(Check(node, In::scale, WeightOf({DimOf(node, In::x, 1)})));
  return node.in(In::x)->type;
}

// x [M, heads * in], w [heads * out, in] or transposed [heads * in, out] ->
// [M, heads * out].
absl::StatusOr<TensorType> HeadLinearShape(const Node& node) {
  using In = operand::HeadLinear;
  using At = attr::HeadLinear;
  DS_RETURN_IF_ERROR(CheckRange(node, At::heads, 0, limits::kHeads));
  DS_RETURN_IF_ERROR(CheckRange(node, At::transposed, 0, 1));
  DS_RETURN_IF_ERROR(Check(node, In::x, Activations({kAny, kAny})));
  DS_RETURN_IF_ERROR(Check(node, In::w, WeightOf({kAny, kAny})));
  TensorType type = node.in(In::x)->type;
  const int64_t heads = node.i(At::heads);
  const int64_t rows = node.weight(In::w)->type.dims[0].size;
  const int64_t cols = node.weight(In::w)->type.dims[1].size;
  const bool transposed = node.i(At::transposed) != 0;
  if (heads == 0 ? rows != 0 : rows % heads != 0) {
    return BadAttr(node, At::heads,
                   absl::StrCat("a divisor of the ", rows, " rows of w"));
  }
  const Dim in = transposed ? rows : heads * cols;
  DS_RETURN_IF_ERROR(Check(node, In::x, Activations({type.dims[0], in})));
  type.dims[1] = transposed ? heads * cols : rows;
  return type;
}

// a [M, heads * A], b [M, heads * B] -> [M, heads * (A + B)].
absl::StatusOr<TensorType> ConcatHeadsShape(const Node& node) {
  using In = operand::ConcatHeads;
  const int heads = attr::ConcatHeads::heads;
  DS_RETURN_IF_ERROR(CheckRange(node, heads, 0, limits::kHeads));
  DS_RETURN_IF_ERROR(Check(node, In::a, Activations({kAny, kAny})));
  TensorType type = node.in(In::a)->type;
  DS_RETURN_IF_ERROR(Check(node, In::b, Activations({type.dims[0], kAny})));
  const Dim &a = type.dims[1], &b = DimOf(node, In::b, 1);
  const int64_t n = std::max<int64_t>(1, node.i(heads));
  if (a.is_symbol() || b.is_symbol() || a.size % n != 0 || b.size % n != 0 ||
      (node.i(heads) == 0 && a.size + b.size > 0)) {
    return BadAttr(node, heads, "a divisor of the columns of a and of b");
  }
  type.dims[1] = a.size + b.size;
  return type;
}

// q [T, heads * head_dim], k [T, head_dim] -> [T, heads * value_dim].
absl::StatusOr<TensorType> LatentAttentionShape(const Node& node) {
  using In = operand::LatentAttention;
  using At = attr::LatentAttention;
  DS_RETURN_IF_ERROR(CheckRange(node, At::heads, 0, limits::kHeads));
  DS_RETURN_IF_ERROR(CheckRange(node, At::head_dim, 1, limits::kHiddenSize));
  DS_RETURN_IF_ERROR(CheckRange(node, At::value_dim, 1, node.i(At::head_dim)));
  const int64_t heads = node.i(At::heads), dim = node.i(At::head_dim);
  DS_RETURN_IF_ERROR(Check(node, In::q, Activations({kAny, heads * dim})));
  const Dim& tokens = DimOf(node, In::q, 0);
  DS_RETURN_IF_ERROR(Check(node, In::k, Activations({tokens, dim})));
  DS_RETURN_IF_ERROR(CheckStepInputs<In>(node, tokens));
  TensorType type = node.in(In::q)->type;
  type.dims[1] = heads * node.i(At::value_dim);
  return type;
}

// What holds for every op: as many operands and attributes as the table has,
// required operands present, enums within their names, finite numbers.
absl::Status CheckTable(const Node& node) {
  const OpDef& def = node.def();
  if (node.operands.size() != def.operands.size() ||
      node.attrs.size() != def.attrs.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        def.spelling, ": found ", node.operands.size(), " operands and ",
        node.attrs.size(), " attributes; allowed: ", def.operands.size(),
        " and ", def.attrs.size()));
  }
  for (size_t i = 0; i < def.operands.size(); ++i) {
    if (!node.operands[i].present() && !def.operands[i].optional) {
      return absl::InvalidArgumentError(
          absl::StrCat(def.spelling, ": operand ", def.operands[i].name,
                       " is absent; it is required"));
    }
  }
  for (size_t a = 0; a < def.attrs.size(); ++a) {
    switch (def.attrs[a].type) {
      case AttrType::kI64:
        break;
      case AttrType::kF64:
        if (!std::isfinite(node.f(a))) {
          return BadAttr(node, a, "a finite number");
        }
        break;
      case AttrType::kEnum:
        DS_RETURN_IF_ERROR(CheckRange(
            node, a, 0, EnumValues(def.attrs[a].enum_name).size() - 1));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TensorType> InferType(const Node& node) {
  DS_RETURN_IF_ERROR(CheckTable(node));
  switch (node.op) {
#define OP(Name, spelling, tag, operands, attrs, shape, effect) \
  case OpKind::k##Name:                                         \
    return shape(node);
#include "schema/ops.def"
  }
  return absl::InternalError("op outside of the table");
}

}  // namespace deepslice
