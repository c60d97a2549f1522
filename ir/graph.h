// A program as passes see it: parameters, weights with the recipe that makes
// them from the checkpoint, states, and nodes in execution order.
//
// The text form (printer.h, parser.h) is the IR: whatever prints parses back to
// an equal graph.
#ifndef DEEPSLICE_IR_GRAPH_H_
#define DEEPSLICE_IR_GRAPH_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "ir/type.h"
#include "schema/encoding.h"
#include "schema/ops.h"
#include "schema/roles.h"

namespace deepslice {

struct Node;

struct Value {
  std::string name;  // without %; unique in the graph
  TensorType type;
  Node* producer = nullptr;  // nullptr: a parameter
};

struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const Range& o) const {
    return begin == o.begin && end == o.end;
  }
};

// A rectangle of one checkpoint tensor, seen as [out, in] (or [n] for a
// vector, whose `cols` is {0, 1}).
struct SourcePiece {
  std::string tensor;       // published name
  bool transposed = false;  // published as [in, out]
  Range rows, cols;         // of the tensor after transposing
  // Where a tensor holds several weights in turn, `rows` counts this weight's:
  // `block` rows of every `every`, from row `from` on. 0: all rows.
  int64_t block = 0, every = 0, from = 0;

  // The tensor's row that row `r` of `rows` is, and how many rows from there
  // to `end` follow each other in the tensor.
  int64_t Row(int64_t r) const {
    return block == 0 ? r : from + r / block * every + r % block;
  }
  int64_t RunLength(int64_t r, int64_t end) const {
    return block == 0 ? end - r : std::min(end - r, block - r % block);
  }
  bool operator==(const SourcePiece& o) const {
    return tensor == o.tensor && transposed == o.transposed && rows == o.rows &&
           cols == o.cols && block == o.block && every == o.every &&
           from == o.from;
  }
};

// How a weight comes to be. Pieces are joined along rows: one after the other,
// or row by row in turn (interleaved), and `plus` is added to every element.
// With no piece, `formula` makes it (see passes/formula.h): a name and named
// numbers in printing order.
struct WeightSource {
  bool interleaved = false;
  std::vector<SourcePiece> pieces;
  double plus = 0;
  std::string formula;  // "rope_freqs"
  std::vector<std::pair<std::string, double>> arguments;

  bool empty() const { return pieces.empty() && formula.empty(); }
  bool operator==(const WeightSource& o) const {
    return interleaved == o.interleaved && pieces == o.pieces &&
           plus == o.plus && formula == o.formula && arguments == o.arguments;
  }
};

struct Weight {
  std::string name;  // without @; unique in the graph
  TensorType type;   // logical: f32[out, in] or f32[n]
  Role role = Role::kNorm;
  Encoding encoding = Encoding::kF32;  // as stored in the plan
  // Scales of a quantised weight are taken over whole rows of the source
  // tensor, however its columns are cut here.
  WeightSource source;  // empty only in tests
};

enum class StateKind : uint8_t { kFull, kWindow, kCross, kLatent, kRecurrent };

// Rows that a token takes for each KV head: its key and its value, or what
// stands for both.
inline int64_t RowsPerToken(StateKind kind) {
  return kind == StateKind::kLatent ? 1 : 2;
}

// Keys and values of one attention layer on this rank.
struct State {
  std::string name;  // without @
  StateKind kind = StateKind::kFull;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  Encoding encoding = Encoding::kF32;
};

// One operand: a value, a weight, or neither (an absent optional one).
struct Operand {
  Value* value = nullptr;
  Weight* weight = nullptr;
  Operand() = default;
  Operand(Value* v) : value(v) {}    // NOLINT
  Operand(Weight* w) : weight(w) {}  // NOLINT
  bool present() const { return value != nullptr || weight != nullptr; }
  bool operator==(const Operand& o) const {
    return value == o.value && weight == o.weight;
  }
};

struct Node {
  OpKind op;
  std::vector<Operand> operands;  // one per operand of the table, in its order
  std::vector<Attr> attrs;        // one per attribute of the table
  State* state = nullptr;         // State ops only
  Value* result = nullptr;

  const OpDef& def() const { return GetOp(op); }
  Value* in(int i) const { return operands[i].value; }
  Weight* weight(int i) const { return operands[i].weight; }
  int64_t i(int a) const { return attrs[a].i; }
  double f(int a) const { return attrs[a].f; }
};

// Owns everything it names. Pointers stay valid until erased.
class Graph {
 public:
  std::string name;  // without @

  // In declaration order; nodes in execution order.
  const std::vector<std::unique_ptr<Value>>& params() const { return params_; }
  const std::vector<std::unique_ptr<Weight>>& weights() const {
    return weights_;
  }
  const std::vector<std::unique_ptr<State>>& states() const { return states_; }
  const std::vector<std::unique_ptr<Node>>& nodes() const { return nodes_; }
  std::vector<Value*>& returns() { return returns_; }
  const std::vector<Value*>& returns() const { return returns_; }

  Value* AddParam(absl::string_view name, TensorType type);
  Weight* AddWeight(absl::string_view name, TensorType type, Role role);
  State* AddState(absl::string_view name, StateKind kind, int64_t kv_heads,
                  int64_t head_dim);
  // Adds a node at the end, or before `before`, with its result named
  // `result_name`; the result's type comes from the shape rule (ir/
  // shape_rules.h), which must accept the operands: an internal error if not.
  // Operands are padded with absent ones to the table's count.
  Node* AddNode(OpKind op, std::vector<Operand> operands,
                std::vector<Attr> attrs, absl::string_view result_name,
                State* state = nullptr, Node* before = nullptr);
  // Every use of `from` (operands and returns) becomes `to`, but for the node
  // that makes `to` out of `from`.
  void ReplaceUses(Value* from, Value* to);
  // The result must have no use left.
  void EraseNode(Node* node);
  // Removes weights and states that no node reads.
  void EraseUnused();

  // Orders weights by the first node that reads them (unread ones last), so
  // that layers stay together in text and in files.
  void SortWeightsByUse();

  // nullptr when there is none of that name.
  Value* FindValue(absl::string_view name) const;
  Weight* FindWeight(absl::string_view name) const;
  State* FindState(absl::string_view name) const;
  // Nodes that read the value, in order.
  std::vector<Node*> Users(const Value* v) const;
  std::vector<Node*> Users(const Weight* w) const;
  bool IsReturned(const Value* v) const;

  // Recomputes every result type in order; the first node whose rule refuses is
  // the error.
  absl::Status InferShapes();
  Graph Clone() const;

  Graph() = default;
  Graph(Graph&&) = default;
  Graph& operator=(Graph&&) = default;

 private:
  std::vector<std::unique_ptr<Value>> params_;
  std::vector<std::unique_ptr<Weight>> weights_;
  std::vector<std::unique_ptr<State>> states_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<std::unique_ptr<Value>> results_;
  std::vector<Value*> returns_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_IR_GRAPH_H_
