#include "ir/random_graph.h"

#include <cmath>
#include <random>

#include "absl/strings/str_cat.h"

namespace deepslice {
namespace {

class Builder {
 public:
  explicit Builder(uint32_t seed) : random_(seed) {
    graph_.name = absl::StrCat("random.", seed);
    tokens_ = graph_.AddParam("positions", {DType::kI32, {"T"}});
    rows_ = graph_.AddParam("rows", {DType::kI64, {"R"}});
    blocks_ = graph_.AddParam("blocks", {DType::kI32, {"S", "B"}});
  }

  Graph Build(int num_nodes) {
    for (int n = 0; n < num_nodes; ++n) {
      values_.push_back(AddNode(AllOps()[Below(AllOps().size())])->result);
    }
    for (Value* v : values_) {
      if (graph_.Users(v).empty()) graph_.returns().push_back(v);
    }
    return std::move(graph_);
  }

 private:
  // ---- numbers and names ---------------------------------------------------

  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % n); }
  bool Coin() { return Below(2) == 0; }
  int64_t Size() {
    constexpr int64_t kSizes[] = {0, 1, 2, 10, 16, 43, 60, 131, 172};
    return kSizes[Below(9)];
  }
  double Number() {
    constexpr double kNumbers[] = {0,     -0.0,  1,      0.1,     1e-5,
                                   10000, 1e300, 5e-324, -2.5e-7, 1.0 / 3};
    return Coin() ? kNumbers[Below(10)]
                  : static_cast<double>(random_()) * 0x1p-40;
  }
  std::string Name() {
    constexpr const char* kStems[] = {"h", "layers.0.", "a/b-c",
                                      "_", "graph",     "T"};
    return absl::StrCat(kStems[Below(6)], next_name_++);
  }

  // ---- operands ------------------------------------------------------------

  // An earlier value of that type, or a new parameter.
  Value* ValueOf(Dim rows, Dim cols) {
    const TensorType type{DType::kF32, {rows, cols}};
    for (Value* v : values_) {
      if (v->type == type && Below(3) != 0) return v;
    }
    values_.push_back(graph_.AddParam(Name(), type));
    return values_.back();
  }
  // Any value [rows, columns], with a number of columns.
  Value* AnyValue() {
    if (values_.empty() || Below(4) == 0) {
      return ValueOf(Coin() ? Dim("T") : Dim("R"), Size());
    }
    return values_[Below(values_.size())];
  }

  void AddPieces(Weight* weight) {
    WeightSource& source = weight->source;
    const int64_t out = weight->type.dims[0].size;
    const int64_t num_pieces = 1 + Below(3);
    source.interleaved = Coin() && out % num_pieces == 0;
    for (int64_t i = 0; i < num_pieces; ++i) {
      SourcePiece piece;
      piece.tensor = Coin() ? absl::StrCat("model.layers.", i, ".weight")
                            : "odd \"\\\n\x01\xc3\xa9 name";
      piece.transposed = Coin();
      if (Coin()) {
        piece.block = 1 + Below(40);
        piece.every = piece.block + Below(100);
        piece.from = Below(100);
      }
      const int64_t row = Below(100), begin = out * i / num_pieces;
      piece.rows = {row, row + out * (i + 1) / num_pieces - begin};
      piece.cols = {0, 1};
      if (weight->type.rank() == 2) {
        const int64_t col = Below(100);
        piece.cols = {col, col + weight->type.dims[1].size};
      }
      source.pieces.push_back(std::move(piece));
    }
    if (Coin()) source.plus = Number();
  }
  Weight* NewWeight(std::vector<Dim> dims) {
    constexpr int kNumRoles = sizeof(kRoles) / sizeof(kRoles[0]);
    const bool vector = dims.size() == 1;
    Weight* w = graph_.AddWeight(Name(), {DType::kF32, std::move(dims)},
                                 static_cast<Role>(Below(kNumRoles)));
    w->encoding = static_cast<Encoding>(Below(vector ? 3 : kNumEncodings));
    const int64_t kind = Below(4);
    if (kind == 0) {
      w->source.formula = "rope_freqs";
      if (Coin()) w->source.arguments = {{"base", Number()}, {"_d2", Number()}};
    } else if (kind != 1) {
      AddPieces(w);
    }
    return w;
  }
  Operand Maybe(std::vector<Dim> dims) {
    return Coin() ? Operand(NewWeight(std::move(dims))) : Operand();
  }

  // ---- nodes ---------------------------------------------------------------

  // Random values of the right type; what is tied to operands is set later.
  std::vector<Attr> Attrs(const OpDef& def) {
    std::vector<Attr> attrs(def.attrs.size());
    for (size_t a = 0; a < attrs.size(); ++a) {
      switch (def.attrs[a].type) {
        case AttrType::kI64:
          attrs[a].i = Below(100);
          break;
        case AttrType::kF64:
          attrs[a].f = Number();
          break;
        case AttrType::kEnum:
          attrs[a].i = Below(EnumValues(def.attrs[a].enum_name).size());
      }
    }
    return attrs;
  }

  struct Heads {
    int64_t heads, kv_heads, head_dim;
    State* state;
  };
  template <typename At>
  Heads SetHeadCounts(std::vector<Attr>* attrs) {
    const int64_t group = 1 + Below(4), offset = Below(3);
    const int64_t heads = Below(8);
    const int64_t kv_heads = (offset + heads - 1) / group + 1;
    const int64_t head_dim = 2 * (1 + Below(5));
    (*attrs)[At::heads].i = heads;
    (*attrs)[At::kv_heads].i = kv_heads;
    (*attrs)[At::group].i = group;
    (*attrs)[At::head_offset].i = offset;
    (*attrs)[At::head_dim].i = head_dim;
    return {heads, kv_heads, head_dim, nullptr};
  }
  State* NewState(StateKind kind, const Heads& h) {
    State* state = graph_.AddState(Name(), kind, h.kv_heads, h.head_dim);
    state->encoding = static_cast<Encoding>(Below(kNumEncodings));
    return state;
  }
  template <typename At>
  Heads SetHeads(std::vector<Attr>* attrs) {
    Heads h = SetHeadCounts<At>(attrs);
    (*attrs)[At::softcap].f = Coin() ? 0 : std::abs((*attrs)[At::softcap].f);
    const bool windowed = (*attrs)[At::window].i > 0 && Coin();
    h.state = NewState(windowed ? StateKind::kWindow : StateKind::kFull, h);
    return h;
  }
  // Biases by relative position, or none.
  Operand MaybeRelative(int64_t heads, Attr* max_distance) {
    max_distance->i = Coin() ? 20 + Below(100) : 0;
    if (max_distance->i == 0) return Operand();
    return NewWeight({heads, 4 + Below(30)});
  }

  Node* AddNode(const OpDef& def) {
    std::vector<Attr> attrs = Attrs(def);
    State* state = nullptr;
    std::vector<Operand> in;
    // Columns of a value, where it has any.
    const auto rows = [&] { return in[0].value->type.dims[0]; };
    const auto cols = [&] { return in[0].value->type.dims[1]; };
    switch (def.kind) {
      case OpKind::kEmbed:
        in = {Coin() ? tokens_ : rows_, NewWeight({Size(), Size()})};
        break;
      case OpKind::kLinear: {
        in = {AnyValue()};
        const Dim out = Coin() ? cols() : Dim(Size());
        in.push_back(NewWeight({out, cols()}));
        in.push_back(Maybe({out}));
        in.push_back(Coin() ? Operand(ValueOf(rows(), out)) : Operand());
        break;
      }
      case OpKind::kAddBias:
      case OpKind::kRmsNorm:
        in = {AnyValue()};
        in.push_back(NewWeight({cols()}));
        break;
      case OpKind::kLayerNorm:
        in = {AnyValue()};
        in.push_back(NewWeight({cols()}));
        in.push_back(Maybe({cols()}));
        break;
      case OpKind::kAdd:
        in = {AnyValue()};
        in.push_back(ValueOf(rows(), cols()));
        in.push_back(Maybe({cols()}));
        break;
      case OpKind::kMul:
        in = {AnyValue()};
        in.push_back(ValueOf(rows(), cols()));
        break;
      case OpKind::kRope: {
        using At = attr::Rope;
        const int64_t heads = Below(8), head_dim = 1 + Below(12);
        const int64_t rotary_dim = 2 * Below(head_dim / 2 + 1);
        attrs[At::heads].i = heads;
        attrs[At::head_dim].i = head_dim;
        attrs[At::rotary_dim].i = rotary_dim;
        in = {ValueOf("T", heads * head_dim), tokens_,
              NewWeight({rotary_dim / 2})};
        // By the length of the sequence: one table, two, or one stretched.
        attrs[At::ntk_factor].f = 0;
        if (const int64_t kind = Below(3); kind > 0) {
          if (kind == 2) {
            attrs[At::ntk_factor].f = static_cast<double>(1 + Below(8));
            attrs[At::long_from].i = 1 + Below(100);
          }
          in.push_back(kind == 1 ? NewWeight({rotary_dim / 2}) : Operand());
          in.push_back(tokens_);
          in.push_back(rows_);
        }
        break;
      }
      case OpKind::kAttention: {
        const Heads h = SetHeads<attr::Attention>(&attrs);
        state = h.state;
        const int64_t kv_cols = h.kv_heads * h.head_dim;
        in = {ValueOf("T", h.heads * h.head_dim),
              ValueOf("T", kv_cols),
              ValueOf("T", kv_cols),
              tokens_,
              tokens_,
              blocks_,
              Maybe({h.heads}),
              MaybeRelative(h.heads, &attrs[attr::Attention::max_distance])};
        break;
      }
      case OpKind::kEncoderAttention: {
        using At = attr::EncoderAttention;
        const Heads h = SetHeadCounts<At>(&attrs);
        const int64_t kv_cols = h.kv_heads * h.head_dim;
        in = {ValueOf("T", h.heads * h.head_dim), ValueOf("T", kv_cols),
              ValueOf("T", kv_cols), tokens_,
              MaybeRelative(h.heads, &attrs[At::max_distance])};
        break;
      }
      case OpKind::kCrossAttention: {
        const Heads h = SetHeadCounts<attr::CrossAttention>(&attrs);
        state = NewState(StateKind::kCross, h);
        const int64_t kv_cols = h.kv_heads * h.head_dim;
        in = {ValueOf("T", h.heads * h.head_dim),
              ValueOf("R", kv_cols),
              ValueOf("R", kv_cols),
              tokens_,
              rows_,
              rows_,
              graph_.AddParam(Name(), {DType::kI32, {"S", Dim(2)}})};
        break;
      }
      case OpKind::kQkvAttention: {
        const Heads h = SetHeads<attr::QkvAttention>(&attrs);
        state = h.state;
        const bool rotates = Coin();
        attrs[attr::QkvAttention::rotary_dim].i = rotates ? h.head_dim : 0;
        in = {ValueOf("T", (h.heads + 2 * h.kv_heads) * h.head_dim), tokens_,
              tokens_, blocks_};
        in.push_back(rotates ? Operand(NewWeight({h.head_dim / 2}))
                             : Operand());
        in.push_back(Maybe({h.heads}));
        break;
      }
      case OpKind::kHeadNorm: {
        using At = attr::HeadNorm;
        const int64_t heads = Below(8), head_dim = 1 + Below(12);
        attrs[At::heads].i = heads;
        attrs[At::head_dim].i = head_dim;
        attrs[At::eps].f = std::abs(attrs[At::eps].f);
        const Dim width = Coin() ? head_dim : heads * head_dim;
        in = {ValueOf("T", heads * head_dim), NewWeight({width})};
        in.push_back(Maybe({width}));
        break;
      }
      case OpKind::kHeadLinear: {
        const int64_t heads = 1 + Below(7), from = 1 + Below(9),
                      to = 1 + Below(9);
        const bool transposed = Coin();
        attrs[attr::HeadLinear::heads].i = heads;
        attrs[attr::HeadLinear::transposed].i = transposed;
        in = {ValueOf("T", heads * from), transposed
                                              ? NewWeight({heads * from, to})
                                              : NewWeight({heads * to, from})};
        break;
      }
      case OpKind::kConcatHeads: {
        const int64_t heads = 1 + Below(7);
        attrs[attr::ConcatHeads::heads].i = heads;
        in = {ValueOf("T", heads * Below(9)), ValueOf("T", heads * Below(9))};
        break;
      }
      case OpKind::kLatentAttention: {
        using At = attr::LatentAttention;
        const int64_t heads = Below(8), dim = 1 + Below(12);
        attrs[At::heads].i = heads;
        attrs[At::head_dim].i = dim;
        attrs[At::value_dim].i = 1 + Below(dim);
        state = graph_.AddState(Name(), StateKind::kLatent, 1, dim);
        in = {ValueOf("T", heads * dim), ValueOf("T", dim), tokens_, tokens_,
              blocks_};
        break;
      }
      case OpKind::kSumSquares:
        in = {AnyValue()};
        attrs[attr::SumSquares::begin].i = cols().size / 3;
        attrs[attr::SumSquares::end].i = cols().size / 2;
        break;
      case OpKind::kRmsNormOver:
        attrs[attr::RmsNormOver::count].i += 1;
        attrs[attr::RmsNormOver::eps].f =
            std::abs(attrs[attr::RmsNormOver::eps].f);
        in = {AnyValue()};
        in.push_back(ValueOf(rows(), 1));
        in.push_back(NewWeight({cols()}));
        break;
      case OpKind::kGatedAct:
        in = {ValueOf("T", 2 * Size())};
        break;
      case OpKind::kGatherRows:
        in = {AnyValue(), Coin() ? tokens_ : rows_};
        break;
      case OpKind::kActivation:
      case OpKind::kAllReduce:
      case OpKind::kScale:
      case OpKind::kSoftcap:
        in = {AnyValue()};
        break;
      case OpKind::kAllGather:
        in = {AnyValue()};
        attrs[attr::AllGather::total].i = cols().size + Size();
        break;
    }
    return graph_.AddNode(def.kind, std::move(in), std::move(attrs), Name(),
                          state);
  }

  std::mt19937_64 random_;
  Graph graph_;
  Value *tokens_, *rows_, *blocks_;
  std::vector<Value*> values_;  // f32[*, number]
  int next_name_ = 0;
};

}  // namespace

Graph RandomGraph(uint32_t seed, int num_nodes) {
  return Builder(seed).Build(num_nodes);
}

}  // namespace deepslice
