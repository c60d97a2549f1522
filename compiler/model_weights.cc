// Resolves names in one walk over the policy's patterns, then accounts for
// every tensor that the walk did not take.
#include "compiler/model_weights.h"

#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/model_slots.h"
#include "compiler/model_tensors.h"
#include "compiler/policy_names.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// "9 tensors"; `names` quoted, the first few of them.
std::string Count(size_t n) {
  return absl::StrCat(n, n == 1 ? " tensor" : " tensors");
}
std::string FirstFew(const std::vector<std::string>& names) {
  constexpr size_t kShown = 3;
  std::string out;
  for (size_t i = 0; i < names.size() && i < kShown; ++i) {
    absl::StrAppend(&out, i == 0 ? "\"" : ", \"", names[i], "\"");
  }
  if (names.size() > kShown) {
    absl::StrAppend(&out, " and ", names.size() - kShown, " more");
  }
  return out;
}

class Resolver {
 public:
  Resolver(const Policy& policy, const ModelFlags& flags,
           const Checkpoint& checkpoint, const DescribeOptions& options,
           TensorUses* uses, ModelDescription* model)
      : policy_(WithNamesChosen(policy, checkpoint)),
        flags_(flags),
        checkpoint_(checkpoint),
        options_(options),
        uses_(*uses),
        model_(*model),
        prefix_(policy_.prefixes[0]) {}

  absl::Status Run() {
    DS_RETURN_IF_ERROR(CheckLayerCount());
    ReadVocabSize(policy_, checkpoint_, &model_);
    DS_RETURN_IF_ERROR(ReadRopeFactors(checkpoint_, &uses_, &model_));
    DS_RETURN_IF_ERROR(
        ReadLogitScale(policy_, checkpoint_, &uses_, &missing_, &model_));
    for (const WeightPattern& pattern : policy_.weights) {
      if (!IsOfHead(pattern, flags_)) continue;
      DS_RETURN_IF_ERROR(pattern.is_head() ? ResolveHead(pattern)
                                           : ResolvePattern(pattern));
    }
    if (!missing_.empty()) {
      return absl::NotFoundError(absl::StrCat(
          "policy ", policy_.name, ": ", Count(missing_.size()),
          missing_.size() == 1 ? " is" : " are",
          " not in the checkpoint: ", FirstFew(missing_),
          "; allowed: all that config.json asks for; copy the missing shards, "
          "or correct config.json"));
    }
    for (size_t i = 0; i < policy_.towers.size(); ++i) {
      ModelDescription& tower = model_.towers[i];
      DS_RETURN_IF_ERROR(Resolver(policy_.towers[i], flags_.towers[i],
                                  checkpoint_, options_, &uses_, &tower)
                             .Run());
      for (ModelWeight& w : tower.weights) {
        model_.weights.push_back(std::move(w));
      }
      tower.weights.clear();
    }
    return absl::OkStatus();
  }

  // What no pattern of any stack has taken.
  absl::Status CheckLeftOver() {
    std::vector<NamePattern> unused;
    for (const std::string& pattern : policy_.unused) {
      unused.emplace_back(pattern, prefix_);
    }
    std::vector<std::string> left;
    for (const TensorInfo& t : checkpoint_.tensors()) {
      if (uses_.contains(t.name)) continue;
      const std::string* rule = nullptr;
      for (size_t i = 0; i < unused.size(); ++i) {
        if (unused[i].Match(t.name) >= 0) rule = &policy_.unused[i];
      }
      // What belongs to another head of the same model.
      for (const WeightPattern& p : policy_.weights) {
        if (!IsOfHead(p, flags_) && Matches(p, t.name)) rule = &p.name;
      }
      if (rule == nullptr) {
        left.push_back(t.name);
      } else {
        uses_[t.name] = {t.name, TensorUse::Kind::kUnused, {}, *rule};
      }
    }
    if (left.empty()) return absl::OkStatus();
    return absl::NotFoundError(
        absl::StrCat("policy ", policy_.name, ": ", Count(left.size()),
                     left.size() == 1 ? " matches" : " match",
                     " no pattern: ", FirstFew(left),
                     "; add a pattern or list it under \"unused\" in "
                     "policies/",
                     policy_.name, ".json"));
  }

 private:
  // By a policy's name, or by the one that older files have.
  const TensorInfo* Find(const std::string& name) const {
    const TensorInfo* t = checkpoint_.Find(name);
    for (const auto& [old_end, end] : policy_.renames) {
      if (t != nullptr || !absl::EndsWith(name, end)) continue;
      t = checkpoint_.Find(absl::StrCat(
          absl::string_view(name).substr(0, name.size() - end.size()),
          old_end));
    }
    return t;
  }

  // The layers that have tensors against the layers of the config.
  absl::Status CheckLayerCount() const {
    int64_t last = -1;
    const TensorInfo* example = nullptr;
    for (const WeightPattern& p : policy_.weights) {
      if (!p.per_layer()) continue;
      const NamePattern pattern(p.name, prefix_);
      for (const TensorInfo& t : checkpoint_.tensors()) {
        const int64_t layer = pattern.Match(t.name);
        if (layer > last) {
          last = layer;
          example = &t;
        }
      }
    }
    if (last < 0 || last + 1 == model_.layers) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "config.json: ", flags_.layers_place, ": found ", model_.layers,
        "; allowed: ", last + 1, ", as the tensors go up to \"", example->name,
        "\" in ", FileOf(checkpoint_, *example),
        "; take the config.json that belongs to the weights, or copy the "
        "missing shards"));
  }

  static bool IsTransposed(const WeightPattern& p, const TensorInfo& t) {
    return p.transposed && !t.transposed_from_published;
  }

  absl::Status CheckTensor(const WeightPattern& pattern,
                           const TensorInfo& t) const {
    std::vector<int64_t> want = PublishedShape(pattern, model_, flags_);
    // A vector of all heads may be published as [heads, head_dim].
    const bool by_head = want.size() == 1 && t.shape.size() == 2 &&
                         t.shape[0] * t.shape[1] == want[0] &&
                         t.shape[1] == model_.head_dim;
    if (by_head) want = t.shape;
    // One row may be published as a vector.
    if (want.size() == 2 && want[1] == 1 && t.shape.size() == 1) {
      want.pop_back();
    }
    if (pattern.transposed && t.transposed_from_published && want.size() == 2) {
      std::swap(want[0], want[1]);
    }
    if (!t.unreadable.empty()) {
      return absl::UnimplementedError(absl::StrCat(
          FileOf(checkpoint_, t), ": tensor \"", t.name, "\": ", t.unreadable));
    }
    if (t.shape != want) {
      return absl::InvalidArgumentError(absl::StrCat(
          FileOf(checkpoint_, t), ": tensor \"", t.name, "\": found shape ",
          ShapeText(t.shape), "; allowed: ", ShapeText(want),
          ", by the sizes in config.json; take the config.json that belongs to "
          "the weights"));
    }
    if (t.storage == Storage::kPlain && !IsFloat(t.dtype)) {
      return absl::InvalidArgumentError(absl::StrCat(
          FileOf(checkpoint_, t), ": tensor \"", t.name, "\": found type ",
          DTypeName(t.dtype),
          "; allowed: f64, f32, f16, bf16; take the unquantised checkpoint"));
    }
    return absl::OkStatus();
  }

  // The weights of one pattern at one layer, from `t`.
  void AddWeights(const WeightPattern& pattern, const TensorInfo& t,
                  int64_t layer) {
    TensorUse& use = uses_[t.name];
    use.tensor = t.name;
    int64_t begin = FirstRow(pattern, flags_);
    for (size_t i = 0; i < pattern.slots.size(); ++i) {
      const WeightSlot* slot = pattern.slots[i];
      ModelWeight w = NewWeight(model_, *slot, layer);
      SourcePiece piece;
      piece.tensor = t.name;
      piece.transposed = IsTransposed(pattern, t);
      PlaceRows(model_, pattern, LayoutOf(pattern), i, &piece);
      if (piece.block > 0) begin = 0;
      piece.rows = {begin, begin + w.shape[0]};
      piece.cols = {0, SlotSize(model_, slot->cols)};
      begin = piece.rows.end;
      w.source.pieces.push_back(std::move(piece));
      use.weights.push_back(w.name);
      model_.weights.push_back(std::move(w));
    }
  }

  // One weight out of a tensor for each head.
  absl::Status AddOfHeads(const WeightPattern& pattern,
                          const NamePattern& names, int64_t layer) {
    ModelWeight w = NewWeight(model_, *pattern.slots[0], layer);
    const int64_t dim = model_.head_dim;
    for (int64_t h = 0; h < w.shape[0] / dim; ++h) {
      const TensorInfo* t = checkpoint_.Find(names.Name(layer, h));
      if (t == nullptr) {
        missing_.push_back(names.Name(layer, h));
        continue;
      }
      if (t->shape != std::vector<int64_t>{dim}) {
        return absl::InvalidArgumentError(absl::StrCat(
            FileOf(checkpoint_, *t), ": tensor \"", t->name, "\": found shape ",
            ShapeText(t->shape), "; allowed: ", ShapeText({dim}),
            ", by the sizes in config.json"));
      }
      SourcePiece piece;
      piece.tensor = t->name;
      piece.rows = {0, dim};
      piece.cols = {0, 1};
      w.source.pieces.push_back(std::move(piece));
      TensorUse& use = uses_[t->name];
      use.tensor = t->name;
      use.weights.push_back(w.name);
    }
    model_.weights.push_back(std::move(w));
    return absl::OkStatus();
  }

  // What a tensor that is not there could be called: "a" or "b".
  std::string AnyName(const WeightPattern& pattern, int64_t layer) const {
    return absl::StrJoin(pattern.names, "\" or \"",
                         [&](std::string* out, const std::string& name) {
                           absl::StrAppend(
                               out, NamePattern(name, prefix_).Name(layer));
                         });
  }

  // Whether a pattern of the same name takes the tensor instead.
  bool HasWantedTwin(const WeightPattern& pattern) const {
    for (const WeightPattern& p : policy_.weights) {
      if (p.name == pattern.name && IsWanted(p, flags_)) return true;
    }
    return false;
  }
  // Whether the tensor is asked for whatever the pattern's flag says.
  bool IsOneOfTwo(const WeightPattern& pattern) const {
    for (const WeightPattern& p : policy_.weights) {
      if (p.name == pattern.name && p.flag == pattern.not_flag &&
          p.not_flag == pattern.flag && p.flag != pattern.flag) {
        return true;
      }
    }
    return false;
  }
  // The value of the config under which it would be the other way round.
  absl::string_view OtherValue(const WeightPattern& p, bool wanted) const {
    if (!p.flag.empty() && !p.not_flag.empty()) return "other values";
    const std::string& flag = p.flag.empty() ? p.not_flag : p.flag;
    if (flags_.biases.at(flag).derived) return "another value";
    return wanted == p.flag.empty() ? "true" : "false";
  }
  // What the config says of a pattern that is (not) wanted.
  std::string WhyWanted(const WeightPattern& p) const {
    const bool by_not = p.flag.empty() ||
                        (flags_.biases.at(p.flag).value && !p.not_flag.empty());
    return flags_.biases.at(by_not ? p.not_flag : p.flag).text;
  }

  absl::Status ResolvePattern(const WeightPattern& pattern) {
    const int64_t layers = pattern.per_layer() ? model_.layers : 1;
    const bool wanted = IsWanted(pattern, flags_);
    const bool by_config =
        (!pattern.flag.empty() || !pattern.not_flag.empty()) &&
        !IsOneOfTwo(pattern);
    if (!wanted && HasWantedTwin(pattern)) return absl::OkStatus();
    DS_RETURN_IF_ERROR(CheckLayout(pattern, wanted));
    const NamePattern names(pattern.name, prefix_);
    for (int64_t layer = 0; layer < layers; ++layer) {
      const std::string name = names.Name(layer);
      const TensorInfo* t = Find(name);
      if (t == nullptr && !pattern.other_name.empty()) {
        t = Find(NamePattern(pattern.other_name, prefix_).Name(layer));
      }
      if (by_config && wanted != (t != nullptr)) {
        return absl::InvalidArgumentError(absl::StrCat(
            "config.json: ", WhyWanted(pattern), ", but tensor \"",
            AnyName(pattern, layer), "\" is ", wanted ? "not " : "",
            "there; allowed: ", OtherValue(pattern, wanted),
            ", or a checkpoint ", wanted ? "with" : "without",
            " these tensors; correct whichever is wrong"));
      }
      if (!wanted) continue;
      if (names.per_head()) {
        DS_RETURN_IF_ERROR(AddOfHeads(pattern, names, layer));
        continue;
      }
      if (t == nullptr) {
        if (!pattern.optional) missing_.push_back(AnyName(pattern, layer));
        continue;
      }
      DS_RETURN_IF_ERROR(CheckTensor(pattern, *t));
      AddWeights(pattern, *t, layer);
    }
    return absl::OkStatus();
  }

  RowLayout LayoutOf(const WeightPattern& pattern) const {
    return pattern.layout_by_config ? flags_.qkv_layout : pattern.layout;
  }

  absl::Status CheckLayout(const WeightPattern& pattern, bool wanted) const {
    const RowLayout layout = LayoutOf(pattern);
    const bool equal =
        layout == RowLayout::kPerHead || layout == RowLayout::kPerRow;
    if (!wanted || !equal || model_.heads == model_.kv_heads) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "config.json: found ", model_.heads, " query and ", model_.kv_heads,
        " KV heads; allowed: as many of each, as \"", pattern.name,
        "\" holds a query, a key and a value of every head"));
  }

  // The head is a tensor of its own, or the embedding once more.
  absl::Status ResolveHead(const WeightPattern& pattern) {
    const std::string name = NamePattern(pattern.name, prefix_).Name();
    const TensorInfo* head = Find(name);
    const ModelWeight* embed = model_.FindWeight("embed");
    if (embed == nullptr) return absl::OkStatus();  // reported as missing
    const std::string embed_name = embed->source.pieces[0].tensor;
    if (head != nullptr) DS_RETURN_IF_ERROR(CheckTensor(pattern, *head));
    if (head == nullptr && !model_.tied_head) {
      if (!options_.assume_tied) {
        return absl::NotFoundError(absl::StrCat(
            "config.json: ", flags_.tied_head.text, ", but tensor \"", name,
            "\" is not there; allowed: ",
            flags_.tied_head.derived ? "another value" : "true",
            " when the head is the embedding; copy the missing shard, or give "
            "--assume-tied"));
      }
      model_.notes.push_back(
          "the head is absent and taken to be the embedding "
          "(--assume-tied)");
      model_.tied_head = true;
    }
    if (head != nullptr && model_.tied_head) {
      DS_ASSIGN_OR_RETURN(
          const bool equal,
          TensorsEqual(checkpoint_, *head, *checkpoint_.Find(embed_name)));
      if (equal) {
        uses_[head->name] = {
            head->name, TensorUse::Kind::kTied, {"embed", "head"}, ""};
      } else if (options_.trust_lm_head || policy_.own_head_counts) {
        model_.notes.push_back(
            absl::StrCat("tensor \"", head->name,
                         "\" differs from the embedding and is used",
                         options_.trust_lm_head ? " (--trust-lm-head)" : ""));
        model_.tied_head = false;
      } else {
        return absl::InvalidArgumentError(absl::StrCat(
            FileOf(checkpoint_, *head), ": tensor \"", head->name,
            "\": found numbers that "
            "differ from \"",
            embed_name,
            "\"; allowed: the same, as config.json says that they are one (",
            flags_.tied_head.text, "); correct that, or give --trust-lm-head"));
      }
    }
    if (!model_.tied_head) {
      AddWeights(pattern, *head, 0);
      return absl::OkStatus();
    }
    ModelWeight tied = *embed;
    tied.name = std::string(pattern.slots[0]->name);
    tied.role = pattern.slots[0]->role;
    uses_[embed_name].weights.push_back(tied.name);
    model_.weights.push_back(std::move(tied));
    return absl::OkStatus();
  }

  // Under the pattern's name or an older one.
  bool Matches(const WeightPattern& p, const std::string& tensor) const {
    const NamePattern pattern(p.name, prefix_);
    if (pattern.Match(tensor) >= 0) return true;
    for (const auto& [old_end, end] : policy_.renames) {
      if (!absl::EndsWith(tensor, old_end)) continue;
      const absl::string_view stem =
          absl::string_view(tensor).substr(0, tensor.size() - old_end.size());
      if (pattern.Match(absl::StrCat(stem, end)) >= 0) return true;
    }
    return false;
  }

  const Policy policy_;  // of one prefix, and one name a pattern
  const ModelFlags& flags_;
  const Checkpoint& checkpoint_;
  const DescribeOptions& options_;
  TensorUses& uses_;
  ModelDescription& model_;
  const std::string prefix_;
  std::vector<std::string> missing_;
};

}  // namespace

absl::Status ResolveWeights(const Policy& policy, const ModelFlags& flags,
                            const Checkpoint& checkpoint,
                            const DescribeOptions& options,
                            ModelDescription* model) {
  TensorUses uses;
  Resolver resolver(policy, flags, checkpoint, options, &uses, model);
  DS_RETURN_IF_ERROR(resolver.Run());
  DS_RETURN_IF_ERROR(resolver.CheckLeftOver());
  for (auto& [name, use] : uses) model->coverage.tensors.push_back(use);
  return absl::OkStatus();
}

}  // namespace deepslice
