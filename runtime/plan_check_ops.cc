// What each op of ops.def demands of its operands, attributes and result. The
// kernels rely on it: they check nothing.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "kernels/cpu.h"
#include "runtime/plan_check.h"
#include "schema/base/checked_math.h"
#include "schema/base/status_macros.h"
#include "schema/ops.h"
#include "schema/relative_bucket.h"

namespace deepslice {
namespace {

// One size: a number, or a named dim.
struct Size {
  int64_t number = 0;
  int32_t dim = -1;
  bool operator==(const Size& o) const {
    return dim == o.dim && (dim >= 0 || number == o.number);
  }
};
using Sizes = std::vector<Size>;

// What ops.def's name for an operand says about where it comes from.
enum class Source { kActivation, kWeight, kInput };

Source SourceOf(absl::string_view operand) {
  for (const absl::string_view w :
       {"w", "table", "bias", "scale", "freqs", "long_freqs", "slopes",
        "rel_bias"}) {
    if (operand == w) return Source::kWeight;
  }
  for (const absl::string_view i :
       {"ids", "positions", "slots", "blocks", "rows", "horizons",
        "source_positions", "source_slots", "sources"}) {
    if (operand == i) return Source::kInput;
  }
  return Source::kActivation;
}

// Inputs of a program that an operand of another name may be; the executor
// checks the values of each for all its uses.
struct OtherInput {
  OpKind op;
  absl::string_view operand, input;
};
constexpr OtherInput kOtherInputs[] = {
    {OpKind::kEmbed, "ids", "positions"},
    {OpKind::kEmbed, "ids", "types"},
    {OpKind::kEmbed, "ids", "source_ids"},
    {OpKind::kEmbed, "ids", "image_positions"},
    {OpKind::kEncoderAttention, "slots", "source_slots"},
    {OpKind::kEncoderAttention, "slots", "image_slots"},
    {OpKind::kGatherRows, "rows", "image_rows"},
    {OpKind::kRope, "horizons", "prompts"},
};

class OpCheck {
 public:
  OpCheck(const ProgramView& view, const fb::CpuOpStep& step)
      : view_(view), step_(step) {}

  absl::Status Run() {
    op_ = FindOpByTag(step_.op());
    if (op_ == nullptr || op_->effect == Effect::kCollective) {
      return Senseless("op ", step_.op(), ": no op of the CPU back end");
    }
    return Annotate(Checks(), op_->spelling);
  }

 private:
  absl::Status Checks() {
    DS_RETURN_IF_ERROR(ReadOperands());
    DS_RETURN_IF_ERROR(CheckAttrs());
    DS_RETURN_IF_ERROR(CheckStateIndex());
    DS_RETURN_IF_ERROR(CheckShapes());
    return CpuCheck(op_->kind, encodings_.data(),
                    static_cast<int>(encodings_.size()));
  }

  absl::Status ReadOperands() {
    const size_t wanted = op_->operands.size();
    if (step_.operands()->size() > wanted) {
      return Senseless("operands: ", step_.operands()->size(), "; ", wanted,
                       " are allowed");
    }
    in_.resize(wanted);
    present_.resize(wanted);
    encodings_.resize(wanted, Encoding::kF32);
    for (size_t i = 0; i < wanted; ++i) {
      const fb::OperandRef* ref =
          i < step_.operands()->size() ? step_.operands()->Get(i) : nullptr;
      const fb::OperandKind kind =
          ref == nullptr ? fb::OperandKind::None : ref->kind();
      if (kind == fb::OperandKind::None) {
        if (op_->operands[i].optional) continue;
        return Senseless("operand ", op_->operands[i].name, ": is missing");
      }
      present_[i] = true;
      const Source source = SourceOf(op_->operands[i].name);
      if ((kind == fb::OperandKind::Weight) != (source == Source::kWeight)) {
        return Senseless("operand ", op_->operands[i].name, ": wanted a ",
                         source == Source::kWeight ? "weight" : "buffer");
      }
      DS_RETURN_IF_ERROR(Annotate(kind == fb::OperandKind::Weight
                                      ? ReadWeight(i, ref->index())
                                      : ReadBuffer(i, ref->index(), source),
                                  "operand ", op_->operands[i].name));
    }
    out_ = SizesOf(*view_.program.buffers()->Get(step_.output()));
    return absl::OkStatus();
  }

  absl::Status ReadWeight(size_t i, int32_t index) {
    const fb::Weight& w = *view_.plan.weights()->Get(index);
    for (const int64_t d : *w.shape()) in_[i].push_back({d, -1});
    encodings_[i] = static_cast<Encoding>(w.encoding());
    if (IsQuantized(encodings_[i]) && in_[i].size() != 2) {
      return Senseless("a quantised weight with ", in_[i].size(),
                       " dim; 2 are allowed");
    }
    return absl::OkStatus();
  }

  absl::Status ReadBuffer(size_t i, int32_t index, Source source) {
    const fb::Buffer& b = *view_.program.buffers()->Get(index);
    in_[i] = SizesOf(b);
    if (source == Source::kActivation) {
      if (b.dtype() == static_cast<int>(DType::kF32) && in_[i].size() == 2 &&
          in_[i][1].dim < 0) {
        return absl::OkStatus();
      }
      return Senseless(BufferText(view_, index),
                       "; f32 with a fixed second dim is allowed");
    }
    // The executor checks the values of an input for the use of its own name.
    bool may_be = Text(b.name()) == op_->operands[i].name;
    for (const OtherInput& o : kOtherInputs) {
      may_be |= op_->kind == o.op && op_->operands[i].name == o.operand &&
                Text(b.name()) == o.input;
    }
    if (b.slot() < 0 && b.dtype() == static_cast<int>(DType::kI32) && may_be) {
      return absl::OkStatus();
    }
    return Senseless(BufferText(view_, index), " ", Quoted(b.name()),
                     "; the program's input of that name is allowed");
  }

  static Sizes SizesOf(const fb::Buffer& b) {
    Sizes out;
    for (const fb::Extent* e : *b.extents()) {
      out.push_back({e->size(), std::max(e->dim(), -1)});
    }
    return out;
  }

  absl::Status CheckAttrs() {
    const size_t found = step_.attrs() == nullptr ? 0 : step_.attrs()->size();
    if (found != op_->attrs.size()) {
      return Senseless("attrs: ", found, "; wanted ", op_->attrs.size());
    }
    if (!IsAligned(step_.attrs())) return Senseless("attrs: unaligned");
    for (size_t i = 0; i < found; ++i) {
      const AttrDef& def = op_->attrs[i];
      if (def.type == AttrType::kF64) {
        // The kernels read it as a float.
        if (std::abs(F(i)) <= std::numeric_limits<float>::max()) continue;
        return Senseless(def.name, ": ", F(i));
      }
      const int64_t most =
          def.type == AttrType::kEnum
              ? static_cast<int64_t>(EnumValues(def.enum_name).size()) - 1
              : kMaxExtent;
      // Learned positions begin below 0.
      const int64_t least = def.name == "begin" ? -kMaxExtent : 0;
      if (I(i) < least || I(i) > most) {
        return Senseless(def.name, ": ", I(i), "; ", least, " to ", most,
                         " are allowed");
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckStateIndex() {
    const int64_t states = view_.plan.states()->size();
    if (op_->effect != Effect::kState) {
      if (step_.state() == -1) return absl::OkStatus();
      return Senseless("state ", step_.state(), ": the op has none");
    }
    if (step_.state() < 0 || step_.state() >= states) {
      return Senseless("state ", step_.state(), " of ", states);
    }
    encodings_.push_back(static_cast<Encoding>(
        view_.plan.states()->Get(step_.state())->encoding()));
    return absl::OkStatus();
  }

  int64_t I(size_t attr) const { return step_.attrs()->Get(attr)->i(); }
  double F(size_t attr) const { return step_.attrs()->Get(attr)->f(); }

  // Named dim of that name; one that equals nothing when there is none.
  Size Named(absl::string_view name) const {
    for (uint32_t d = 0; d < view_.program.dims()->size(); ++d) {
      if (Text(view_.program.dims()->Get(d)->name()) == name) {
        return {0, static_cast<int32_t>(d)};
      }
    }
    return {-1, -1};
  }

  std::string TextOf(const Sizes& sizes) const {
    return absl::StrCat(
        "[",
        absl::StrJoin(
            sizes, ", ",
            [&](std::string* out, const Size& s) {
              absl::StrAppend(
                  out, s.dim < 0
                           ? absl::StrCat(s.number)
                           : Quoted(view_.program.dims()->Get(s.dim)->name()));
            }),
        "]");
  }
  absl::Status Is(absl::string_view what, const Sizes& found,
                  const Sizes& wanted) const {
    if (found == wanted) return absl::OkStatus();
    return Senseless(what, ": ", TextOf(found), "; wanted ", TextOf(wanted));
  }
  // Operand i is absent (an optional one) or has these sizes.
  absl::Status In(int i, const Sizes& wanted) const {
    if (!present_[i]) return absl::OkStatus();
    return Is(op_->operands[i].name, in_[i], wanted);
  }
  absl::Status Out(const Sizes& wanted) const {
    return Is("result", out_, wanted);
  }
  // A weight of two dims, whatever they are.
  absl::Status Matrix(int i) const {
    if (in_[i].size() == 2) return absl::OkStatus();
    return Senseless(op_->operands[i].name, ": ", TextOf(in_[i]),
                     "; wanted 2 dims");
  }

  absl::Status CheckShapes() {
    switch (op_->kind) {
      case OpKind::kEmbed: {
        using O = operand::Embed;
        DS_RETURN_IF_ERROR(Matrix(O::table));
        if (in_[O::ids].size() != 1) {
          return Senseless("ids: ", TextOf(in_[O::ids]), "; wanted one dim");
        }
        return Out({in_[O::ids][0], in_[O::table][1]});
      }
      case OpKind::kLinear: {
        using O = operand::Linear;
        DS_RETURN_IF_ERROR(Matrix(O::w));
        const Size rows = in_[O::x][0], cols = in_[O::w][0];
        DS_RETURN_IF_ERROR(In(O::w, {cols, in_[O::x][1]}));
        DS_RETURN_IF_ERROR(In(O::bias, {cols}));
        DS_RETURN_IF_ERROR(In(O::residual, {rows, cols}));
        return Out({rows, cols});
      }
      case OpKind::kAddBias:
        DS_RETURN_IF_ERROR(In(operand::AddBias::bias, {in_[0][1]}));
        return Out(in_[0]);
      case OpKind::kAdd:
        DS_RETURN_IF_ERROR(In(operand::Add::y, in_[0]));
        DS_RETURN_IF_ERROR(In(operand::Add::bias, {in_[0][1]}));
        return Out(in_[0]);
      case OpKind::kMul:
        DS_RETURN_IF_ERROR(In(operand::Mul::y, in_[0]));
        return Out(in_[0]);
      case OpKind::kRmsNorm:
        DS_RETURN_IF_ERROR(NotNegative(attr::RmsNorm::eps));
        DS_RETURN_IF_ERROR(In(operand::RmsNorm::scale, {in_[0][1]}));
        return Out(in_[0]);
      case OpKind::kLayerNorm:
        DS_RETURN_IF_ERROR(NotNegative(attr::LayerNorm::eps));
        DS_RETURN_IF_ERROR(In(operand::LayerNorm::scale, {in_[0][1]}));
        DS_RETURN_IF_ERROR(In(operand::LayerNorm::bias, {in_[0][1]}));
        return Out(in_[0]);
      case OpKind::kRope: {
        using O = operand::Rope;
        using A = attr::Rope;
        DS_RETURN_IF_ERROR(Heads(I(A::heads), I(A::head_dim)));
        DS_RETURN_IF_ERROR(Rotary(I(A::rotary_dim), I(A::head_dim)));
        DS_RETURN_IF_ERROR(
            In(O::x, {in_[0][0], {I(A::heads) * I(A::head_dim)}}));
        DS_RETURN_IF_ERROR(In(O::positions, {in_[0][0]}));
        DS_RETURN_IF_ERROR(In(O::freqs, Sizes{Size{I(A::rotary_dim) / 2}}));
        DS_RETURN_IF_ERROR(NotNegative(A::ntk_factor));
        const bool ntk = F(A::ntk_factor) > 0;
        const bool by_length = ntk || present_[O::long_freqs];
        if (present_[O::slots] != by_length ||
            present_[O::horizons] != by_length ||
            (ntk && present_[O::long_freqs])) {
          return Senseless("long_freqs, slots and horizons: some but not all");
        }
        if (ntk && I(A::long_from) < 1) {
          return Senseless("long_from: ", I(A::long_from),
                           "; 1 or more is allowed");
        }
        DS_RETURN_IF_ERROR(
            In(O::long_freqs, Sizes{Size{I(A::rotary_dim) / 2}}));
        DS_RETURN_IF_ERROR(In(O::slots, {Named("T")}));
        DS_RETURN_IF_ERROR(In(O::horizons, {Named("S")}));
        return Out(in_[0]);
      }
      case OpKind::kAttention: {
        using O = operand::Attention;
        using A = attr::Attention;
        DS_RETURN_IF_ERROR(AttentionHeads<A>());
        const Size q = {I(A::heads) * I(A::head_dim)};
        const Size kv = {I(A::kv_heads) * I(A::head_dim)};
        DS_RETURN_IF_ERROR(In(O::q, {Named("T"), q}));
        DS_RETURN_IF_ERROR(In(O::k, {Named("T"), kv}));
        DS_RETURN_IF_ERROR(In(O::v, {Named("T"), kv}));
        DS_RETURN_IF_ERROR(SequenceInputs(O::positions, O::slots, O::blocks));
        DS_RETURN_IF_ERROR(In(O::slopes, Sizes{Size{I(A::heads)}}));
        DS_RETURN_IF_ERROR(Relative(O::rel_bias, A::max_distance,
                                    I(A::heads), false));
        return Out({Named("T"), q});
      }
      case OpKind::kEncoderAttention: {
        using O = operand::EncoderAttention;
        using A = attr::EncoderAttention;
        DS_RETURN_IF_ERROR(HeadCounts<A>());
        const Size q = {I(A::heads) * I(A::head_dim)};
        const Size kv = {I(A::kv_heads) * I(A::head_dim)};
        const Size tokens = in_[O::q][0];
        DS_RETURN_IF_ERROR(In(O::q, {tokens, q}));
        DS_RETURN_IF_ERROR(In(O::k, {tokens, kv}));
        DS_RETURN_IF_ERROR(In(O::v, {tokens, kv}));
        DS_RETURN_IF_ERROR(In(O::slots, {tokens}));
        const bool full = static_cast<Mask>(I(A::mask)) == Mask::kFull;
        DS_RETURN_IF_ERROR(Relative(O::rel_bias, A::max_distance,
                                    I(A::heads), full));
        return Out({tokens, q});
      }
      case OpKind::kCrossAttention: {
        using O = operand::CrossAttention;
        using A = attr::CrossAttention;
        DS_RETURN_IF_ERROR(HeadCounts<A>());
        DS_RETURN_IF_ERROR(StateHeads<A>(true));
        const Size q = {I(A::heads) * I(A::head_dim)};
        const Size kv = {I(A::kv_heads) * I(A::head_dim)};
        DS_RETURN_IF_ERROR(In(O::q, {Named("T"), q}));
        DS_RETURN_IF_ERROR(In(O::k, {Named("E"), kv}));
        DS_RETURN_IF_ERROR(In(O::v, {Named("E"), kv}));
        DS_RETURN_IF_ERROR(In(O::slots, {Named("T")}));
        DS_RETURN_IF_ERROR(In(O::source_positions, {Named("E")}));
        DS_RETURN_IF_ERROR(In(O::source_slots, {Named("E")}));
        DS_RETURN_IF_ERROR(In(O::sources, {Named("S"), {2}}));
        return Out({Named("T"), q});
      }
      case OpKind::kQkvAttention: {
        using O = operand::QkvAttention;
        using A = attr::QkvAttention;
        DS_RETURN_IF_ERROR(AttentionHeads<A>());
        DS_RETURN_IF_ERROR(Rotary(I(A::rotary_dim), I(A::head_dim)));
        const int64_t all = I(A::heads) + 2 * I(A::kv_heads);
        DS_RETURN_IF_ERROR(In(O::qkv, {Named("T"), {all * I(A::head_dim)}}));
        DS_RETURN_IF_ERROR(SequenceInputs(O::positions, O::slots, O::blocks));
        DS_RETURN_IF_ERROR(In(O::freqs, Sizes{Size{I(A::rotary_dim) / 2}}));
        DS_RETURN_IF_ERROR(In(O::slopes, Sizes{Size{I(A::heads)}}));
        return Out({Named("T"), {I(A::heads) * I(A::head_dim)}});
      }
      case OpKind::kActivation:
      case OpKind::kScale:
        return Out(in_[0]);
      case OpKind::kSoftcap:
        if (!(F(attr::Softcap::cap) > 0)) {
          return Senseless("cap: ", F(attr::Softcap::cap),
                           "; above 0 is allowed");
        }
        return Out(in_[0]);
      case OpKind::kHeadLinear: {
        using O = operand::HeadLinear;
        const int64_t heads = I(attr::HeadLinear::heads);
        DS_RETURN_IF_ERROR(Matrix(O::w));
        const int64_t rows = in_[O::w][0].number, cols = in_[O::w][1].number;
        if (heads > kMaxHeads || (heads == 0 ? rows != 0 : rows % heads != 0)) {
          return Senseless("heads: ", heads, " of ", rows, " rows");
        }
        const bool transposed = I(attr::HeadLinear::transposed) != 0;
        const Size by_cols = {heads * cols}, by_rows = {rows};
        DS_RETURN_IF_ERROR(
            In(O::x, {in_[0][0], transposed ? by_rows : by_cols}));
        return Out({in_[0][0], transposed ? by_cols : by_rows});
      }
      case OpKind::kConcatHeads: {
        using O = operand::ConcatHeads;
        const int64_t heads = std::max<int64_t>(1, I(attr::ConcatHeads::heads));
        const int64_t a = in_[O::a][1].number, b = in_[O::b][1].number;
        if (in_[O::a][1].dim >= 0 || in_[O::b][1].dim >= 0 || a % heads != 0 ||
            b % heads != 0) {
          return Senseless("heads: ", heads, " of ", TextOf(in_[O::a]), " and ",
                           TextOf(in_[O::b]));
        }
        DS_RETURN_IF_ERROR(In(O::b, {in_[0][0], {b}}));
        return Out({in_[0][0], {a + b}});
      }
      case OpKind::kLatentAttention: {
        using O = operand::LatentAttention;
        using A = attr::LatentAttention;
        DS_RETURN_IF_ERROR(Heads(I(A::heads), I(A::head_dim)));
        const fb::State& state = *view_.plan.states()->Get(step_.state());
        if (state.kind() != fb::StateKind::Latent || state.kv_heads() != 1 ||
            state.head_dim() != I(A::head_dim) || I(A::value_dim) < 1 ||
            I(A::value_dim) > I(A::head_dim)) {
          return Senseless("head_dim ", I(A::head_dim), ", value_dim ",
                           I(A::value_dim), "; states[", step_.state(),
                           "] has kind ", static_cast<int>(state.kind()),
                           ", kv_heads ", state.kv_heads(), ", head_dim ",
                           state.head_dim());
        }
        DS_RETURN_IF_ERROR(
            In(O::q, {Named("T"), {I(A::heads) * I(A::head_dim)}}));
        DS_RETURN_IF_ERROR(In(O::k, {Named("T"), {I(A::head_dim)}}));
        DS_RETURN_IF_ERROR(SequenceInputs(O::positions, O::slots, O::blocks));
        return Out({Named("T"), {I(A::heads) * I(A::value_dim)}});
      }
      case OpKind::kHeadNorm:
        return HeadNorm();
      case OpKind::kSumSquares:
        if (I(attr::SumSquares::begin) > I(attr::SumSquares::end) ||
            I(attr::SumSquares::end) > in_[0][1].number) {
          return Senseless("columns ", I(attr::SumSquares::begin), " to ",
                           I(attr::SumSquares::end), " of ", TextOf(in_[0]));
        }
        return Out({in_[0][0], {1}});
      case OpKind::kRmsNormOver: {
        using O = operand::RmsNormOver;
        using A = attr::RmsNormOver;
        DS_RETURN_IF_ERROR(NotNegative(A::eps));
        if (I(A::count) < 1) {
          return Senseless("count: ", I(A::count), "; 1 or more is allowed");
        }
        DS_RETURN_IF_ERROR(In(O::sums, {in_[0][0], {1}}));
        DS_RETURN_IF_ERROR(In(O::scale, {in_[0][1]}));
        return Out(in_[0]);
      }
      case OpKind::kGatedAct: {
        if (in_[0][1].number % 2 != 0) {
          return Senseless("x: ", TextOf(in_[0]),
                           "; wanted an even number of "
                           "columns");
        }
        return Out({in_[0][0], {in_[0][1].number / 2}});
      }
      case OpKind::kGatherRows:
        if (in_[operand::GatherRows::rows] == Sizes{Named("I")}) {
          DS_RETURN_IF_ERROR(In(0, {Named("P"), in_[0][1]}));
          return Out({Named("I"), in_[0][1]});
        }
        DS_RETURN_IF_ERROR(In(0, {Named("T"), in_[0][1]}));
        DS_RETURN_IF_ERROR(In(operand::GatherRows::rows, {Named("R")}));
        return Out({Named("R"), in_[0][1]});
      case OpKind::kAllReduce:
      case OpKind::kAllGather:
        break;  // collective steps
    }
    return Senseless("no rule for this op");
  }

  absl::Status HeadNorm() const {
    using O = operand::HeadNorm;
    using A = attr::HeadNorm;
    DS_RETURN_IF_ERROR(NotNegative(A::eps));
    DS_RETURN_IF_ERROR(Heads(I(A::heads), I(A::head_dim)));
    const Size all = {I(A::heads) * I(A::head_dim)};
    const bool wide = in_[O::scale] == Sizes{all};
    const Size width = wide ? all : Size{I(A::head_dim)};
    DS_RETURN_IF_ERROR(In(O::x, {in_[0][0], all}));
    DS_RETURN_IF_ERROR(In(O::scale, {width}));
    DS_RETURN_IF_ERROR(In(O::bias, {width}));
    return Out(in_[0]);
  }
  absl::Status NotNegative(int attr) const {
    if (F(attr) >= 0) return absl::OkStatus();
    return Senseless(op_->attrs[attr].name, ": ", F(attr),
                     "; 0 or more is "
                     "allowed");
  }
  absl::Status Heads(int64_t heads, int64_t head_dim) const {
    if (heads <= kMaxHeads && head_dim >= 1 && head_dim <= kMaxHeadDim) {
      return absl::OkStatus();
    }
    return Senseless("heads ", heads, ", head_dim ", head_dim,
                     ": one is out of range");
  }
  absl::Status Rotary(int64_t rotary_dim, int64_t head_dim) const {
    if (rotary_dim % 2 == 0 && rotary_dim <= head_dim) return absl::OkStatus();
    return Senseless("rotary_dim: ", rotary_dim, "; even numbers up to ",
                     head_dim, " are allowed");
  }

  // A weight [heads, buckets], or none and no distance.
  absl::Status Relative(int i, int max_distance, int64_t heads,
                        bool both_directions) const {
    if (!present_[i]) {
      if (I(max_distance) == 0) return absl::OkStatus();
      return Senseless("max_distance: ", I(max_distance), " without rel_bias");
    }
    DS_RETURN_IF_ERROR(Matrix(i));
    const int64_t buckets = in_[i][1].number;
    DS_RETURN_IF_ERROR(In(i, {{heads}, {buckets}}));
    if (AreRelativeBuckets(buckets, I(max_distance), both_directions)) {
      return absl::OkStatus();
    }
    return Senseless("rel_bias: ", buckets, " buckets up to distance ",
                     I(max_distance), ": out of range");
  }

  template <typename A>
  absl::Status StateHeads(bool cross) const {
    const fb::State& state = *view_.plan.states()->Get(step_.state());
    if (state.kind() == fb::StateKind::Latent) {
      return Senseless("states[", step_.state(), "] is latent");
    }
    if (state.kv_heads() != I(A::kv_heads) ||
        state.head_dim() != I(A::head_dim)) {
      return Senseless("kv_heads ", I(A::kv_heads), ", head_dim ",
                       I(A::head_dim), "; states[", step_.state(), "] has ",
                       state.kv_heads(), " and ", state.head_dim());
    }
    if ((state.kind() == fb::StateKind::Cross) == cross) {
      return absl::OkStatus();
    }
    return Senseless("states[", step_.state(), "]: kind ",
                     static_cast<int>(state.kind()),
                     ": not one of this op");
  }
  template <typename A>
  absl::Status AttentionHeads() const {
    DS_RETURN_IF_ERROR(NotNegative(A::softcap));
    DS_RETURN_IF_ERROR(StateHeads<A>(false));
    return HeadCounts<A>();
  }
  template <typename A>
  absl::Status HeadCounts() const {
    DS_RETURN_IF_ERROR(Heads(I(A::heads), I(A::head_dim)));
    const int64_t heads = I(A::heads), group = I(A::group);
    if (group < 1 || group > kMaxHeads || I(A::head_offset) > kMaxHeads ||
        (heads > 0 &&
         (I(A::head_offset) + heads - 1) / group >= I(A::kv_heads))) {
      return Senseless("group ", group, ", head_offset ", I(A::head_offset),
                       ": the last of ", heads, " heads reads no KV head of ",
                       I(A::kv_heads));
    }
    return absl::OkStatus();
  }
  absl::Status SequenceInputs(int positions, int slots, int blocks) const {
    DS_RETURN_IF_ERROR(In(positions, {Named("T")}));
    DS_RETURN_IF_ERROR(In(slots, {Named("T")}));
    return In(blocks, {Named("S"), Named("B")});
  }

  const ProgramView& view_;
  const fb::CpuOpStep& step_;
  const OpDef* op_ = nullptr;
  std::vector<Sizes> in_;
  std::vector<bool> present_;
  std::vector<Encoding> encodings_;
  Sizes out_;
};

}  // namespace

absl::Status CheckCpuOp(const ProgramView& view, const fb::CpuOpStep& step) {
  return OpCheck(view, step).Run();
}

absl::Status CheckCollective(const ProgramView& view,
                             const fb::CollectiveStep& s) {
  const int64_t num_groups = view.plan.groups()->size();
  if (s.kind() > fb::CollectiveKind::MAX) {
    return Senseless("collective: kind ", static_cast<int>(s.kind()));
  }
  if (s.group() < 0 || s.group() >= num_groups) {
    return Senseless("collective: group ", s.group(), " of ", num_groups);
  }
  const fb::Buffer& in = *view.program.buffers()->Get(s.input());
  const fb::Buffer& out = *view.program.buffers()->Get(s.output());
  const std::string shapes = absl::StrCat(
      "collective: ", BufferText(view, s.input()), " to ",
      BufferText(view, s.output()), " of ", s.columns(), " columns");
  // A vector has one column.
  const auto columns = [](const fb::Buffer& b) {
    return b.extents()->size() < 2 ? 1 : b.extents()->Get(1)->size();
  };
  for (const fb::Buffer* b : {&in, &out}) {
    if (b->dtype() != s.dtype() || b->extents()->size() > 2 ||
        (b->extents()->size() == 2 && b->extents()->Get(1)->dim() >= 0) ||
        s.columns() < 0 || s.columns() > kMaxExtent) {
      return Senseless(shapes, ": not two equal types with fixed columns");
    }
  }
  if (s.kind() != fb::CollectiveKind::AllGather) {
    if (SameExtents(in, out) && columns(in) == s.columns()) {
      return absl::OkStatus();
    }
    return Senseless(shapes, ": all three must agree");
  }
  const auto& ranks = *view.plan.groups()->Get(s.group())->ranks();
  const int64_t size = ranks.size();
  const fb::Extent &in_rows = *in.extents()->Get(0),
                   &out_rows = *out.extents()->Get(0);
  const bool same_rows = in_rows.dim() >= 0 || out_rows.dim() >= 0
                             ? in_rows.dim() == out_rows.dim()
                             : in_rows.size() == out_rows.size();
  if (!view.cpu) {
    // Blocks of all rows at their most, one after the other.
    if (same_rows && in_rows.dim() < 0 && s.columns() == columns(out) &&
        columns(out) == size * columns(in)) {
      return absl::OkStatus();
    }
    return Senseless(shapes, ": wanted ", size,
                     " equal parts with a fixed number of rows");
  }
  int64_t own = 0;
  while (ranks.Get(own) != view.plan.rank()) ++own;
  const int64_t part =
      PartBegin(s.columns(), size, own + 1) - PartBegin(s.columns(), size, own);
  if (same_rows && columns(in) == part && columns(out) == s.columns()) {
    return absl::OkStatus();
  }
  return Senseless(shapes, ": part ", own, " of ", size, " has ", part);
}

}  // namespace deepslice
