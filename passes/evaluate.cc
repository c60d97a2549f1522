// One RankRun per rank, and the collectives between them.
#include "passes/evaluate.h"

#include <cmath>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/base/checked_math.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

// `shape` fits the dims of `type`; a symbol met first is bound to its size.
absl::Status BindShape(const std::vector<int64_t>& shape,
                       const TensorType& type,
                       std::map<std::string, int64_t>* symbols) {
  bool fits = shape.size() == type.dims.size();
  for (size_t d = 0; fits && d < shape.size(); ++d) {
    const Dim& dim = type.dims[d];
    const int64_t wanted =
        dim.is_symbol() ? symbols->emplace(dim.symbol, shape[d]).first->second
                        : dim.size;
    fits = shape[d] == wanted;
  }
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "found ", ShapeText(shape), "; allowed: ", TypeText(type), " with ",
      absl::StrJoin(*symbols, ", ", absl::PairFormatter("="))));
}

absl::Status CheckTensor(const RefTensor& tensor, const TensorType& type,
                         std::map<std::string, int64_t>* symbols) {
  DS_RETURN_IF_ERROR(BindShape(tensor.shape, type, symbols));
  int64_t count = 1;
  for (const int64_t d : tensor.shape) count *= d;
  if (count != static_cast<int64_t>(tensor.data.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("found ", tensor.data.size(), " numbers; allowed: ", count,
                     " for ", ShapeText(tensor.shape)));
  }
  if (IsFloat(type.dtype)) return absl::OkStatus();
  for (const double x : tensor.data) {
    if (x != std::floor(x)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "found ", x, "; allowed: whole numbers in ", TypeText(type)));
    }
  }
  return absl::OkStatus();
}

class RankRun {
 public:
  RankRun(int rank, const Graph& graph, const WeightProvider& weights,
          std::map<std::string, RefState>* states,
          const EvaluateOptions& options)
      : rank_(rank),
        graph_(graph),
        weights_(weights),
        states_(states),
        options_(options) {}

  absl::Status Start(const NamedTensors& inputs) {
    for (const auto& node : graph_.nodes()) {
      for (const Operand& o : node->operands) ++uses_left_[o.value];
    }
    for (const Value* v : graph_.returns()) ++uses_left_[v];
    for (const auto& p : graph_.params()) {
      const auto it = inputs.find(p->name);
      if (it == inputs.end()) {
        return absl::InvalidArgumentError(
            absl::StrCat(where(), "input %", p->name, " is missing"));
      }
      DS_RETURN_IF_ERROR(Annotate(CheckTensor(it->second, p->type, &symbols_),
                                  where(), "input %", p->name));
      values_[p.get()] = it->second;
    }
    return absl::OkStatus();
  }

  // Up to the next collective, or to the end.
  absl::Status RunToCollective() {
    for (; next_ < graph_.nodes().size(); ++next_) {
      const Node& node = *graph_.nodes()[next_];
      if (node.def().effect == Effect::kCollective) return absl::OkStatus();
      RefTensor result;
      DS_RETURN_IF_ERROR(
          Annotate(Compute(node, &result), where(), "%", node.result->name));
      DS_RETURN_IF_ERROR(Finish(node, std::move(result)));
    }
    return absl::OkStatus();
  }

  // The collective that this rank waits at; nullptr: it has finished.
  const Node* waiting() const {
    return next_ < graph_.nodes().size() ? graph_.nodes()[next_].get()
                                         : nullptr;
  }
  const RefTensor& sent() const { return values_.at(waiting()->in(0)); }
  absl::Status Receive(RefTensor result) {
    const Node& node = *waiting();
    ++next_;
    return Finish(node, std::move(result));
  }

  std::vector<RefTensor> Returned() const {
    std::vector<RefTensor> out;
    for (const Value* v : graph_.returns()) out.push_back(values_.at(v));
    return out;
  }

  // "rank 1: %y = all_gather of [3, 20] over tp"
  std::string Waits() const {
    if (waiting() == nullptr) {
      return absl::StrCat(where(), "has no collective left");
    }
    const int64_t group = waiting()->i(0);
    return absl::StrCat(
        where(), "%", waiting()->result->name, " = ", waiting()->def().spelling,
        " of ", ShapeText(sent().shape), " over ", EnumValues("Group")[group]);
  }

 private:
  std::string where() const { return absl::StrCat("rank ", rank_, ": "); }

  absl::Status Compute(const Node& node, RefTensor* result) {
    // Weights are held for this one call: a model may be larger than memory.
    RefTensor weights[kMaxOperands];
    RefCall call;
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const Operand& o = node.operands[i];
      if (o.value != nullptr) call.operands[i] = &values_.at(o.value);
      if (o.weight == nullptr) continue;
      absl::StatusOr<RefTensor> weight = weights_(*o.weight);
      if (weight.ok()) {
        weights[i] = *std::move(weight);
        DS_RETURN_IF_ERROR(
            Annotate(CheckTensor(weights[i], o.weight->type, &symbols_), "@",
                     o.weight->name));
      }
      DS_RETURN_IF_ERROR(Annotate(weight.status(), "@", o.weight->name));
      call.operands[i] = &weights[i];
    }
    call.attrs = node.attrs.data();
    if (node.state != nullptr) call.state = &(*states_)[node.state->name];
    return RunReference(node.op, call, result);
  }

  absl::Status Finish(const Node& node, RefTensor result) {
    DS_RETURN_IF_ERROR(
        Annotate(CheckTensor(result, node.result->type, &symbols_), where(),
                 node.def().spelling, " made %", node.result->name));
    if (options_.observer) options_.observer(rank_, *node.result, result);
    if (uses_left_[node.result] > 0) values_[node.result] = std::move(result);
    for (const Operand& o : node.operands) {
      if (o.value != nullptr && --uses_left_[o.value] == 0) {
        values_.erase(o.value);
      }
    }
    return absl::OkStatus();
  }

  const int rank_;
  const Graph& graph_;
  const WeightProvider& weights_;
  std::map<std::string, RefState>* const states_;
  const EvaluateOptions& options_;
  std::map<std::string, int64_t> symbols_;
  absl::flat_hash_map<const Value*, RefTensor> values_;
  absl::flat_hash_map<const Value*, int> uses_left_;
  size_t next_ = 0;
};

// All ranks wait at equal collectives.
absl::Status CheckAgreement(const std::vector<RankRun>& runs) {
  const int t = static_cast<int>(runs.size());
  const Node* first = runs[0].waiting();
  for (int r = 1; r < t; ++r) {
    const Node* other = runs[r].waiting();
    bool agree = (first == nullptr) == (other == nullptr);
    if (agree && first != nullptr) {
      agree = first->op == other->op;
      for (size_t a = 0; agree && a < first->attrs.size(); ++a) {
        agree = first->i(a) == other->i(a);
      }
      // The parts of an all_gather differ in columns only.
      agree = agree && runs[0].sent().rows() == runs[r].sent().rows() &&
              (first->op == OpKind::kAllGather ||
               runs[0].sent().cols() == runs[r].sent().cols());
    }
    if (!agree) {
      return absl::InvalidArgumentError(absl::StrCat(
          "collectives disagree: ", runs[0].Waits(), "; ", runs[r].Waits()));
    }
  }
  if (first == nullptr || first->op != OpKind::kAllGather) {
    return absl::OkStatus();
  }
  const int64_t total = first->i(attr::AllGather::total);
  for (int r = 0; r < t; ++r) {
    const int64_t part = PartBegin(total, t, r + 1) - PartBegin(total, t, r);
    if (runs[r].sent().cols() != part) {
      return absl::InvalidArgumentError(
          absl::StrCat(runs[r].Waits(), "; allowed: ", part, " columns, part ",
                       r, " of ", total, " over ", t, " ranks"));
    }
  }
  return absl::OkStatus();
}

RefTensor Collect(const std::vector<RankRun>& runs) {
  RefTensor out = runs[0].sent();
  if (runs[0].waiting()->op == OpKind::kAllReduce) {
    for (size_t r = 1; r < runs.size(); ++r) {
      const RefTensor& part = runs[r].sent();
      for (size_t i = 0; i < out.data.size(); ++i) out.data[i] += part.data[i];
    }
    return out;
  }
  const int64_t rows = out.rows();
  out.shape[1] = runs[0].waiting()->i(attr::AllGather::total);
  out.data.clear();
  for (int64_t row = 0; row < rows; ++row) {
    for (const RankRun& run : runs) {
      const RefTensor& part = run.sent();
      out.data.insert(out.data.end(), part.row(row),
                      part.row(row) + part.cols());
    }
  }
  return out;
}

absl::Status CheckInputNames(absl::Span<const Graph* const> ranks,
                             const NamedTensors& inputs) {
  for (const auto& [name, tensor] : inputs) {
    bool known = false;
    for (const Graph* graph : ranks) {
      const Value* value = graph->FindValue(name);
      known = known || (value != nullptr && value->producer == nullptr);
    }
    if (!known) {
      return absl::InvalidArgumentError(absl::StrCat(
          "input %", name, ": no rank has a parameter of this name"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<RefTensor>> Evaluate(
    absl::Span<const Graph* const> ranks, const WeightProvider& weights,
    const NamedTensors& inputs, EvaluationStates* states,
    const EvaluateOptions& options) {
  if (ranks.empty()) return absl::InvalidArgumentError("no rank to evaluate");
  DS_RETURN_IF_ERROR(CheckInputNames(ranks, inputs));
  if (states->empty()) states->resize(ranks.size());
  if (states->size() != ranks.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("found states of ", states->size(),
                     " ranks; allowed: as many as graphs, ", ranks.size()));
  }
  std::vector<RankRun> runs;
  runs.reserve(ranks.size());
  for (size_t r = 0; r < ranks.size(); ++r) {
    runs.emplace_back(static_cast<int>(r), *ranks[r], weights, &(*states)[r],
                      options);
    DS_RETURN_IF_ERROR(runs[r].Start(inputs));
  }
  while (true) {
    for (RankRun& run : runs) DS_RETURN_IF_ERROR(run.RunToCollective());
    DS_RETURN_IF_ERROR(CheckAgreement(runs));
    if (runs[0].waiting() == nullptr) return runs[0].Returned();
    const RefTensor result = Collect(runs);
    for (RankRun& run : runs) DS_RETURN_IF_ERROR(run.Receive(result));
  }
}

}  // namespace deepslice
