// The rules of a graph, checked in one walk; nothing is edited.
#include "ir/verifier.h"

#include <cmath>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "ir/names.h"
#include "ir/shape_rules.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

template <typename... Parts>
absl::Status Broken(const Parts&... parts) {
  return absl::InternalError(absl::StrCat(parts...));
}

absl::Status CheckDims(const TensorType& type) {
  if (type.rank() > limits::kTensorRank) {
    return Broken("found ", type.rank(), " dims; allowed: at most ",
                  limits::kTensorRank);
  }
  for (const Dim& d : type.dims) {
    const bool good =
        d.is_symbol() ? IsIdentifier(d.symbol) && d.size == 0 : d.size >= 0;
    if (!good) {
      return Broken("found ", TypeText(type),
                    "; allowed: dims that are identifiers or not negative");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPieces(const Weight& weight) {
  const WeightSource& source = weight.source;
  const int64_t out = weight.type.dims[0].size;
  const Range columns{0,
                      weight.type.rank() == 2 ? weight.type.dims[1].size : 1};
  int64_t rows = 0;
  for (const SourcePiece& piece : source.pieces) {
    const auto bad_range = [](const Range& r) {
      return r.begin < 0 || r.end < r.begin || r.end > limits::kTensorBytes;
    };
    if (piece.tensor.empty() || bad_range(piece.rows) ||
        bad_range(piece.cols)) {
      return Broken("piece \"", piece.tensor, "\": found rows ",
                    piece.rows.begin, ":", piece.rows.end, " and columns ",
                    piece.cols.begin, ":", piece.cols.end,
                    "; allowed: a name and 0 <= begin <= end");
    }
    const bool strided = piece.block != 0;
    if (strided ? piece.block < 0 || piece.every < piece.block ||
                      piece.from < 0 || piece.from > limits::kTensorBytes ||
                      (piece.rows.end - 1) / piece.block >
                          limits::kTensorBytes / piece.every
                : piece.every != 0 || piece.from != 0) {
      return Broken("piece \"", piece.tensor, "\": found rows ", piece.block,
                    " every ", piece.every, " from ", piece.from,
                    "; allowed: block <= every, within a tensor");
    }
    if (weight.type.rank() == 1 ? !(piece.cols == columns)
                                : piece.cols.size() != columns.size()) {
      return Broken("piece \"", piece.tensor, "\": found ", piece.cols.size(),
                    " columns; allowed: ", columns.size(), ", as ",
                    TypeText(weight.type), " has");
    }
    if (source.interleaved &&
        piece.rows.size() != source.pieces[0].rows.size()) {
      return Broken("piece \"", piece.tensor, "\": found ", piece.rows.size(),
                    " rows; allowed: ", source.pieces[0].rows.size(),
                    ", as many as the other interleaved pieces");
    }
    rows += piece.rows.size();
  }
  if (rows != out) {
    return Broken("pieces have ", rows, " rows; allowed: ", out, ", as ",
                  TypeText(weight.type), " has");
  }
  return absl::OkStatus();
}

absl::Status CheckWeight(const Weight& weight) {
  const TensorType& type = weight.type;
  DS_RETURN_IF_ERROR(CheckDims(type));
  bool known =
      type.dtype == DType::kF32 && (type.rank() == 1 || type.rank() == 2);
  for (const Dim& d : type.dims) known = known && !d.is_symbol();
  if (!known) {
    return Broken("found ", TypeText(type),
                  "; allowed: f32[out, in] or f32[n], in numbers");
  }
  if (IsQuantized(weight.encoding) && type.rank() != 2) {
    return Broken("found encoding ", EncodingName(weight.encoding), " of ",
                  TypeText(type), "; allowed: f32, f16 or bf16 for a vector");
  }
  const WeightSource& source = weight.source;
  if (!std::isfinite(source.plus) ||
      (source.plus != 0 && source.pieces.empty())) {
    return Broken("found ", source.plus,
                  " added; allowed: a number, to what pieces hold");
  }
  if (!source.formula.empty()) {
    const bool reserved = source.formula == "concat" ||
                          source.formula == "interleave" ||
                          source.formula == "transpose";
    if (!IsIdentifier(source.formula) || reserved || !source.pieces.empty() ||
        source.interleaved) {
      return Broken("found formula \"", source.formula, "\" with ",
                    source.pieces.size(),
                    " pieces; allowed: an identifier alone");
    }
  } else if (!source.arguments.empty() ||
             (source.interleaved && source.pieces.empty())) {
    return Broken(
        "found a source with neither piece nor formula; allowed: "
        "pieces, a formula, or nothing at all");
  }
  for (const auto& [name, number] : source.arguments) {
    if (!IsIdentifier(name) || !std::isfinite(number)) {
      return Broken("formula ", source.formula, ": found argument \"", name,
                    "\" = ", number, "; allowed: an identifier and a number");
    }
  }
  return source.pieces.empty() ? absl::OkStatus() : CheckPieces(weight);
}

absl::Status CheckState(const State& state) {
  if (state.kv_heads < 0 || state.kv_heads > limits::kHeads ||
      state.head_dim < 1 || state.head_dim > limits::kHiddenSize) {
    return Broken("found kv_heads=", state.kv_heads,
                  ", head_dim=", state.head_dim, "; allowed: 0 to ",
                  limits::kHeads, " and 1 to ", limits::kHiddenSize);
  }
  return absl::OkStatus();
}

// The last query head's KV head is one of this rank's.
template <typename At>
absl::Status CheckLastHead(const Node& node) {
  const int64_t heads = node.i(At::heads), kv_heads = node.i(At::kv_heads);
  const int64_t last =
      (node.i(At::head_offset) + heads - 1) / node.i(At::group);
  if (heads > 0 && last >= kv_heads) {
    return Broken("head_offset=", node.i(At::head_offset), ", heads=", heads,
                  ", group=", node.i(At::group),
                  ": the last head reads KV head ", last,
                  "; allowed: below kv_heads=", kv_heads);
  }
  return absl::OkStatus();
}

// The state holds rows of the size that is appended.
template <typename At>
absl::Status CheckStateHeads(const Node& node) {
  DS_RETURN_IF_ERROR(CheckLastHead<At>(node));
  const State& state = *node.state;
  if (state.kv_heads != node.i(At::kv_heads) ||
      state.head_dim != node.i(At::head_dim)) {
    return Broken("state @", state.name, ": found kv_heads=", state.kv_heads,
                  ", head_dim=", state.head_dim, "; allowed: ",
                  node.i(At::kv_heads), " and ", node.i(At::head_dim),
                  ", as the node has");
  }
  return absl::OkStatus();
}

template <typename At>
absl::Status CheckAttention(const Node& node) {
  DS_RETURN_IF_ERROR(CheckStateHeads<At>(node));
  const State& state = *node.state;
  const bool windowed = node.i(At::window) > 0;
  if (state.kind != StateKind::kFull &&
      !(state.kind == StateKind::kWindow && windowed)) {
    return Broken("state @", state.name,
                  ": allowed: full, or window where window > 0");
  }
  return absl::OkStatus();
}

absl::Status CheckLatentAttention(const Node& node) {
  const State& state = *node.state;
  if (state.kind == StateKind::kLatent && state.kv_heads == 1 &&
      state.head_dim == node.i(attr::LatentAttention::head_dim)) {
    return absl::OkStatus();
  }
  return Broken("state @", state.name,
                ": allowed: latent, kv_heads=1, head_dim=",
                node.i(attr::LatentAttention::head_dim), ", as the node has");
}

absl::Status CheckCrossAttention(const Node& node) {
  DS_RETURN_IF_ERROR(CheckStateHeads<attr::CrossAttention>(node));
  if (node.state->kind == StateKind::kCross) return absl::OkStatus();
  return Broken("state @", node.state->name, ": allowed: cross");
}

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph) {}

  absl::Status Run() {
    if (!IsName(graph_.name)) return Broken("the graph has no proper name");
    for (const auto& p : graph_.params()) {
      DS_RETURN_IF_ERROR(Define(*p));
      if (p->producer != nullptr) {
        return Broken("%", p->name, ": a parameter with a producer");
      }
    }
    for (const auto& w : graph_.weights()) {
      DS_RETURN_IF_ERROR(Declare(w->name));
      DS_RETURN_IF_ERROR(Annotate(CheckWeight(*w), "@", w->name));
      weights_.insert(w.get());
    }
    for (const auto& s : graph_.states()) {
      DS_RETURN_IF_ERROR(Declare(s->name));
      DS_RETURN_IF_ERROR(Annotate(CheckState(*s), "@", s->name));
      states_.insert(s.get());
    }
    for (const auto& n : graph_.nodes()) {
      if (n->result == nullptr) return Broken("a node without result");
      DS_RETURN_IF_ERROR(Annotate(CheckNode(*n), "%", n->result->name));
      DS_RETURN_IF_ERROR(Define(*n->result));
    }
    if (graph_.returns().empty()) return Broken("nothing is returned");
    for (const Value* v : graph_.returns()) {
      if (!values_.contains(v)) {
        return Broken("a returned value is not of this graph");
      }
    }
    return CheckUsed();
  }

 private:
  absl::Status Define(const Value& value) {
    if (!IsName(value.name) || value.name.size() > limits::kTensorNameBytes) {
      return Broken("found value name \"", value.name,
                    "\"; allowed: letters, digits and _ . / -");
    }
    if (!value_names_.insert(value.name).second) {
      return Broken("%", value.name, ": two values have this name");
    }
    DS_RETURN_IF_ERROR(Annotate(CheckDims(value.type), "%", value.name));
    values_.insert(&value);
    return absl::OkStatus();
  }

  absl::Status Declare(const std::string& name) {
    if (!IsName(name) || name.size() > limits::kTensorNameBytes) {
      return Broken("found weight or state name \"", name,
                    "\"; allowed: letters, digits and _ . / -");
    }
    if (!symbol_names_.insert(name).second) {
      return Broken("@", name, ": two weights or states have this name");
    }
    return absl::OkStatus();
  }

  absl::Status CheckNode(const Node& node) {
    for (const Operand& o : node.operands) {
      if (o.value != nullptr && o.weight != nullptr) {
        return Broken("an operand is both value and weight");
      }
      if (o.value != nullptr && !values_.contains(o.value)) {
        return Broken("an operand is not defined before its use in this graph");
      }
      if (o.weight != nullptr && !weights_.contains(o.weight)) {
        return Broken("an operand is not a weight of this graph");
      }
      used_.insert(o.weight);
    }
    absl::StatusOr<TensorType> type = InferType(node);
    if (!type.ok()) return Broken(type.status().message());
    if (*type != node.result->type || node.result->producer != &node) {
      return Broken("found ", TypeText(node.result->type),
                    "; allowed: ", TypeText(*type), ", as ",
                    node.def().spelling, " makes");
    }
    return Annotate(CheckNodeState(node), node.def().spelling);
  }

  absl::Status CheckNodeState(const Node& node) {
    if (node.op == OpKind::kEncoderAttention) {
      DS_RETURN_IF_ERROR(CheckLastHead<attr::EncoderAttention>(node));
    }
    if (node.def().effect != Effect::kState) {
      return node.state == nullptr ? absl::OkStatus()
                                   : Broken("this op takes no state");
    }
    if (node.state == nullptr) return Broken("a state is required");
    if (!states_.contains(node.state)) {
      return Broken("the state is not of this graph");
    }
    if (!used_.insert(node.state).second) {
      return Broken("state @", node.state->name, " is appended to twice");
    }
    if (node.op == OpKind::kLatentAttention) return CheckLatentAttention(node);
    if (node.op == OpKind::kCrossAttention) return CheckCrossAttention(node);
    return node.op == OpKind::kAttention
               ? CheckAttention<attr::Attention>(node)
               : CheckAttention<attr::QkvAttention>(node);
  }

  absl::Status CheckUsed() const {
    for (const auto& w : graph_.weights()) {
      if (!used_.contains(w.get()))
        return Broken("@", w->name, ": no node reads this weight");
    }
    for (const auto& s : graph_.states()) {
      if (!used_.contains(s.get()))
        return Broken("@", s->name, ": no node reads this state");
    }
    return absl::OkStatus();
  }

  const Graph& graph_;
  absl::flat_hash_set<absl::string_view> value_names_, symbol_names_;
  absl::flat_hash_set<const Value*> values_;
  absl::flat_hash_set<const Weight*> weights_;
  absl::flat_hash_set<const State*> states_;
  absl::flat_hash_set<const void*> used_;
};

}  // namespace

absl::Status VerifyGraph(const Graph& graph) {
  return Annotate(Verifier(graph).Run(), "graph @", graph.name);
}

}  // namespace deepslice
