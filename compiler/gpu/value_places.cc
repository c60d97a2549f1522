#include "compiler/gpu/value_places.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/gpu/lower_attention.h"
#include "schema/base/checked_math.h"

namespace deepslice {
namespace {

// Of the graph's attention; 0 when there is none.
int64_t TileTokens(const ProgramRequest& r) {
  for (const auto& n : r.graph->nodes()) {
    if (!IsAttention(*n)) continue;
    const AttentionShape shape = ShapeOfAttention(*n, r);
    if (shape.heads > 0) return AttentionTileTokens(shape, *r.target);
  }
  return 0;
}

std::vector<ScheduledDim> Dims(const ProgramRequest& r) {
  const int64_t tokens = r.bucket > 0 ? r.bucket : r.ceilings.max_step_tokens;
  std::vector<ScheduledDim> dims = {{"T", tokens},
                                    {"R", tokens},
                                    {"S", r.ceilings.max_batch},
                                    {"B", r.ceilings.blocks_per_seq()}};
  const int64_t tile = r.bucket > 0 ? 0 : TileTokens(r);
  // A sequence's last tile may be of one token.
  if (tile > 0) {
    dims.push_back({"Q", CeilDiv(tokens, tile) + r.ceilings.max_batch});
  }
  if (r.ceilings.max_source_tokens > 0 && r.bucket == 0) {
    dims.push_back({"E", r.ceilings.max_source_tokens});
  }
  if (r.ceilings.max_images > 0) {
    dims.push_back({"P", r.ceilings.max_images * r.ceilings.image_tokens});
    dims.push_back({"I", r.ceilings.max_images});
  }
  return dims;
}

}  // namespace

ValuePlaces::ValuePlaces(const ProgramRequest& request, SpecTable* kernels)
    : r_(request),
      graph_(*request.graph),
      encodes_(EncodesGraph(graph_)),
      b_(encodes_              ? "encode"
         : request.bucket == 0 ? "step"
                               : absl::StrCat("decode_", request.bucket),
         request.bucket, Dims(request), kernels) {
  if (encodes_) b_.set_encodes();
  for (size_t i = 0; i < graph_.weights().size(); ++i) {
    weights_[graph_.weights()[i].get()] = static_cast<int>(i);
  }
  for (size_t i = 0; i < graph_.states().size(); ++i) {
    states_[graph_.states()[i].get()] = static_cast<int>(i);
  }
  for (const auto& n : graph_.nodes()) {
    if (n->op != OpKind::kAllGather) continue;
    padded_[n->in(0)] =
        CeilDiv(n->i(attr::AllGather::total), request.place.world);
  }
  for (const Value* v : graph_.returns()) FindFloats(v);
  for (const auto& n : graph_.nodes()) {
    if (n->op == OpKind::kSumSquares ||
        (n->op == OpKind::kAllReduce && floats_.contains(n->in(0)))) {
      floats_.insert(n->result);
    }
  }
  AddInputs();
}

void ValuePlaces::FindFloats(const Value* v) {
  // A product reads the activations' type.
  for (const auto& n : graph_.nodes()) {
    if (n->op == OpKind::kLinear && n->in(operand::Linear::x) == v) return;
  }
  while (v != nullptr && v->producer != nullptr) {
    floats_.insert(v);
    const Node* p = v->producer;
    const bool through = p->op == OpKind::kAllGather ||
                         p->op == OpKind::kAddBias ||
                         p->op == OpKind::kScale || p->op == OpKind::kSoftcap;
    v = through ? p->in(0) : nullptr;
  }
}

CountDim ValuePlaces::CountOf(const Value* v) {
  const std::string& rows = v->type.dims[0].symbol;
  return rows == "R"   ? CountDim::kRows
         : rows == "P" ? CountDim::kImageTokens
         : rows == "I" ? CountDim::kImages
         : rows == "E" ? CountDim::kSourceTokens
                       : CountDim::kTokens;
}

DType ValuePlaces::TypeOf(const Value* v) const {
  if (v->producer == nullptr) return v->type.dtype;
  return floats_.contains(v) ? DType::kF32 : r_.activations;
}

int ValuePlaces::BufferOf(const Value* v) {
  const auto found = buffers_.find(v);
  if (found != buffers_.end()) return found->second;
  const std::string& rows = v->type.dims[0].symbol;
  const auto padded = padded_.find(v);
  const int buffer =
      padded != padded_.end()
          ? b_.AddBuffer(v->name, TypeOf(v),
                         {{b_.DimMaximum(rows), -1}, {padded->second, -1}})
          : b_.AddBuffer(v->name, TypeOf(v),
                         {{0, b_.DimIndex(rows)}, {Columns(v), -1}});
  buffers_[v] = buffer;
  return buffer;
}

int ValuePlaces::BufferLike(const Value* v, absl::string_view name,
                            int64_t columns) {
  return b_.AddBuffer(
      name, TypeOf(v),
      {{0, b_.DimIndex(v->type.dims[0].symbol)}, {columns, -1}});
}

LoweredOperand ValuePlaces::Operand(const Value* v) {
  return v == nullptr ? LoweredOperand::None()
                      : LoweredOperand::Buffer(BufferOf(v));
}

LoweredOperand ValuePlaces::Operand(const Weight* w) const {
  return w == nullptr ? LoweredOperand::None()
                      : LoweredOperand::Weight(weights_.at(w));
}

LoweredOperand ValuePlaces::Input(absl::string_view name) const {
  for (const int b : b_.program().inputs) {
    if (b_.program().buffers[b].name == name) return LoweredOperand::Buffer(b);
  }
  return LoweredOperand::None();
}

void ValuePlaces::AddInputs() {
  const auto dim = [&](const char* name) {
    return LoweredExtent{0, b_.DimIndex(name)};
  };
  for (const auto& p : graph_.params()) {
    if (IsLeftOut(p.get())) continue;
    std::vector<LoweredExtent> extents;
    for (const Dim& d : p->type.dims) {
      extents.push_back(d.is_symbol() ? LoweredExtent{0, b_.DimIndex(d.symbol)}
                                      : LoweredExtent{d.size, -1});
    }
    buffers_[p.get()] = b_.AddInput(p->name, p->type.dtype, extents);
  }
  if (r_.bucket == 0 && TileTokens(r_) > 0) {
    tiles_ = b_.AddInput("tiles", DType::kI32, {dim("Q"), {4, -1}});
    b_.set_tile_tokens(TileTokens(r_));
  }
  if (encodes_) return;
  sampled_ = b_.AddInput("sampled", DType::kI32, {dim("R")});
  samplers_ = b_.AddInput("samplers", DType::kU32, {dim("R"), {8, -1}});
}

}  // namespace deepslice
