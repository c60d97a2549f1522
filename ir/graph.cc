// Building and editing graphs.
#include "ir/graph.h"

#include <algorithm>
#include <cstdio>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "ir/shape_rules.h"
#include "schema/base/check.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

template <typename T>
T* FindByName(const std::vector<std::unique_ptr<T>>& list,
              absl::string_view name) {
  for (const auto& item : list) {
    if (item->name == name) return item.get();
  }
  return nullptr;
}

template <typename T>
std::vector<Node*> UsersOf(const std::vector<std::unique_ptr<Node>>& nodes,
                           const T* what, T* Operand::*field) {
  std::vector<Node*> users;
  for (const auto& node : nodes) {
    for (const Operand& o : node->operands) {
      if (o.*field == what) {
        users.push_back(node.get());
        break;
      }
    }
  }
  return users;
}

}  // namespace

Value* Graph::AddParam(absl::string_view name, TensorType type) {
  auto value = std::make_unique<Value>();
  value->name = std::string(name);
  value->type = std::move(type);
  params_.push_back(std::move(value));
  return params_.back().get();
}

Weight* Graph::AddWeight(absl::string_view name, TensorType type, Role role) {
  auto weight = std::make_unique<Weight>();
  weight->name = std::string(name);
  weight->type = std::move(type);
  weight->role = role;
  weights_.push_back(std::move(weight));
  return weights_.back().get();
}

State* Graph::AddState(absl::string_view name, StateKind kind, int64_t kv_heads,
                       int64_t head_dim) {
  auto state = std::make_unique<State>();
  state->name = std::string(name);
  state->kind = kind;
  state->kv_heads = kv_heads;
  state->head_dim = head_dim;
  states_.push_back(std::move(state));
  return states_.back().get();
}

Node* Graph::AddNode(OpKind op, std::vector<Operand> operands,
                     std::vector<Attr> attrs, absl::string_view result_name,
                     State* state, Node* before) {
  auto node = std::make_unique<Node>();
  node->op = op;
  node->operands = std::move(operands);
  const size_t num_operands = node->def().operands.size();
  if (node->operands.size() < num_operands) node->operands.resize(num_operands);
  node->attrs = std::move(attrs);
  node->state = state;

  absl::StatusOr<TensorType> type = InferType(*node);
  if (!type.ok()) {
    const std::string text(type.status().message());
    std::fprintf(stderr, "internal error: new node %%%s: %s\n",
                 std::string(result_name).c_str(), text.c_str());
  }
  DS_CHECK(type.ok());
  auto result = std::make_unique<Value>();
  result->name = std::string(result_name);
  result->type = *std::move(type);
  result->producer = node.get();
  node->result = result.get();
  results_.push_back(std::move(result));

  auto place = nodes_.end();
  if (before != nullptr) {
    place = std::find_if(nodes_.begin(), nodes_.end(),
                         [&](const auto& n) { return n.get() == before; });
    DS_CHECK(place != nodes_.end());
  }
  return nodes_.insert(place, std::move(node))->get();
}

void Graph::ReplaceUses(Value* from, Value* to) {
  for (const auto& node : nodes_) {
    if (node.get() == to->producer) continue;
    for (Operand& o : node->operands) {
      if (o.value == from) o.value = to;
    }
  }
  std::replace(returns_.begin(), returns_.end(), from, to);
}

void Graph::EraseNode(Node* node) {
  DS_CHECK(Users(node->result).empty() && !IsReturned(node->result));
  const Value* result = node->result;
  results_.erase(
      std::find_if(results_.begin(), results_.end(),
                   [&](const auto& v) { return v.get() == result; }));
  nodes_.erase(std::find_if(nodes_.begin(), nodes_.end(),
                            [&](const auto& n) { return n.get() == node; }));
}

void Graph::EraseUnused() {
  absl::flat_hash_set<const void*> used;
  for (const auto& node : nodes_) {
    for (const Operand& o : node->operands) used.insert(o.weight);
    used.insert(node->state);
  }
  const auto unused = [&](const auto& item) {
    return !used.contains(item.get());
  };
  weights_.erase(std::remove_if(weights_.begin(), weights_.end(), unused),
                 weights_.end());
  states_.erase(std::remove_if(states_.begin(), states_.end(), unused),
                states_.end());
}

void Graph::SortWeightsByUse() {
  absl::flat_hash_map<const Weight*, size_t> first;
  for (const auto& n : nodes_) {
    for (const Operand& o : n->operands) {
      if (o.weight != nullptr) first.emplace(o.weight, first.size());
    }
  }
  const auto place = [&](const std::unique_ptr<Weight>& w) {
    const auto found = first.find(w.get());
    return found == first.end() ? first.size() : found->second;
  };
  std::stable_sort(
      weights_.begin(), weights_.end(),
      [&](const auto& a, const auto& b) { return place(a) < place(b); });
}

Value* Graph::FindValue(absl::string_view value_name) const {
  Value* value = FindByName(params_, value_name);
  return value != nullptr ? value : FindByName(results_, value_name);
}

Weight* Graph::FindWeight(absl::string_view weight_name) const {
  return FindByName(weights_, weight_name);
}

State* Graph::FindState(absl::string_view state_name) const {
  return FindByName(states_, state_name);
}

std::vector<Node*> Graph::Users(const Value* v) const {
  return UsersOf<Value>(nodes_, v, &Operand::value);
}

std::vector<Node*> Graph::Users(const Weight* w) const {
  return UsersOf<Weight>(nodes_, w, &Operand::weight);
}

bool Graph::IsReturned(const Value* v) const {
  return std::find(returns_.begin(), returns_.end(), v) != returns_.end();
}

absl::Status Graph::InferShapes() {
  for (const auto& node : nodes_) {
    absl::StatusOr<TensorType> type = InferType(*node);
    if (!type.ok()) return Annotate(type.status(), "%", node->result->name);
    node->result->type = *std::move(type);
  }
  return absl::OkStatus();
}

Graph Graph::Clone() const {
  Graph copy;
  copy.name = name;
  absl::flat_hash_map<const Value*, Value*> values;
  absl::flat_hash_map<const Weight*, Weight*> weights;
  absl::flat_hash_map<const State*, State*> states;
  for (const auto& p : params_) {
    copy.params_.push_back(std::make_unique<Value>(*p));
    values[p.get()] = copy.params_.back().get();
  }
  for (const auto& w : weights_) {
    copy.weights_.push_back(std::make_unique<Weight>(*w));
    weights[w.get()] = copy.weights_.back().get();
  }
  for (const auto& s : states_) {
    copy.states_.push_back(std::make_unique<State>(*s));
    states[s.get()] = copy.states_.back().get();
  }
  for (const auto& v : results_) {
    copy.results_.push_back(std::make_unique<Value>(*v));
    values[v.get()] = copy.results_.back().get();
  }
  for (const auto& n : nodes_) {
    auto node = std::make_unique<Node>(*n);
    for (Operand& o : node->operands) {
      if (o.value != nullptr) o.value = values.at(o.value);
      if (o.weight != nullptr) o.weight = weights.at(o.weight);
    }
    if (node->state != nullptr) node->state = states.at(node->state);
    node->result = values.at(node->result);
    node->result->producer = node.get();
    copy.nodes_.push_back(std::move(node));
  }
  for (const Value* v : returns_) copy.returns_.push_back(values.at(v));
  return copy;
}

}  // namespace deepslice
