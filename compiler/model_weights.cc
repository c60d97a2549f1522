// Resolves names in one walk over the policy's patterns, then accounts for
// every tensor that the walk did not take.
#include "compiler/model_weights.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/config_value.h"
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

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

// The first prefix under which any pattern finds a tensor.
std::string ChoosePrefix(const Policy& policy, const Checkpoint& checkpoint) {
  for (const std::string& prefix : policy.prefixes) {
    for (const WeightPattern& p : policy.weights) {
      if (!p.flag.empty()) continue;
      for (const std::string& name : p.names) {
        if (absl::StrContains(name, "{prefix}") &&
            checkpoint.Find(NamePattern(name, prefix).Name()) != nullptr) {
          return prefix;
        }
      }
    }
  }
  return policy.prefixes[0];
}

// How many parts of a path the names of two tensors begin with.
size_t CommonParts(absl::string_view a, absl::string_view b) {
  size_t parts = 0;
  for (size_t n = 0; n < a.size() && n < b.size() && a[n] == b[n]; ++n) {
    parts += a[n] == '.';
  }
  return parts;
}

// Leaves of a pattern's names the first that a tensor has; if none has one,
// those in a stack that is there, so that errors speak of this checkpoint.
void ChooseName(const std::string& prefix, const Checkpoint& checkpoint,
                WeightPattern* p) {
  if (p->names.size() == 1) return;
  std::vector<std::string> near;
  size_t most = 0;
  for (const std::string& name : p->names) {
    const NamePattern pattern(name, prefix);
    const std::string before_layer =
        NamePattern(name.substr(0, name.find("{i}")), prefix).Name();
    size_t parts = 0;
    for (const TensorInfo& t : checkpoint.tensors()) {
      if (pattern.Match(t.name) >= 0) {
        p->name = name;
        p->names = {name};
        return;
      }
      parts = std::max(parts, CommonParts(t.name, before_layer));
    }
    if (parts > most) near.clear();
    most = std::max(most, parts);
    if (parts == most) near.push_back(name);
  }
  p->name = near[0];
  p->names = std::move(near);
}

// `policy` with the one prefix, and for each pattern the one name, that the
// checkpoint has.
Policy WithNamesChosen(Policy policy, const Checkpoint& checkpoint) {
  policy.prefixes = {ChoosePrefix(policy, checkpoint)};
  for (WeightPattern& p : policy.weights) {
    ChooseName(policy.prefixes[0], checkpoint, &p);
  }
  return policy;
}

class Resolver {
 public:
  Resolver(const Policy& policy, const ModelFlags& flags,
           const Checkpoint& checkpoint, const DescribeOptions& options,
           std::map<std::string, TensorUse>* uses, ModelDescription* model)
      : policy_(WithNamesChosen(policy, checkpoint)),
        flags_(flags),
        checkpoint_(checkpoint),
        options_(options),
        uses_(*uses),
        model_(*model),
        prefix_(policy_.prefixes[0]) {}

  absl::Status Run() {
    DS_RETURN_IF_ERROR(CheckLayerCount());
    DS_RETURN_IF_ERROR(ReadVocabSize());
    DS_RETURN_IF_ERROR(ReadRopeFactors());
    DS_RETURN_IF_ERROR(ReadScale());
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
      t = checkpoint_.Find(
          absl::StrCat(absl::string_view(name).substr(
                           0, name.size() - end.size()),
                       old_end));
    }
    return t;
  }

  std::string FileOf(const TensorInfo& t) const {
    return checkpoint_.files()[t.file].path;
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
        "\" in ", FileOf(*example),
        "; take the config.json that belongs to the weights, or copy the "
        "missing shards"));
  }

  absl::Status ReadVocabSize() {
    if (model_.vocab_size > 0) return absl::OkStatus();
    for (const WeightPattern& p : policy_.weights) {
      if (p.slots[0]->name != "embed") continue;
      const TensorInfo* t =
          checkpoint_.Find(NamePattern(p.name, prefix_).Name());
      if (t == nullptr || t->shape.size() != 2) continue;
      model_.vocab_size = t->shape[0];
      model_.notes.push_back(
          absl::StrCat("config.json: no vocab_size; the "
                       "embedding has ",
                       model_.vocab_size, " rows"));
    }
    return absl::OkStatus();
  }

  // GGUF keeps scaled rotary frequencies as a tensor of divisors.
  absl::Status ReadRopeFactors() {
    const ConfigValue name =
        FindConfig(checkpoint_.config(), "rope_freq_factors_tensor");
    if (!name.present() || model_.positions != PositionKind::kRope) {
      return absl::OkStatus();
    }
    DS_ASSIGN_OR_RETURN(const std::string tensor, ConfigString(name));
    if (model_.rope.formula != "rope_freqs") {
      return ConfigUnsupported(name, "one scaling of rotary frequencies");
    }
    const TensorInfo* t = checkpoint_.Find(tensor);
    const int64_t pairs = model_.rope.rotary_dim / 2;
    if (t == nullptr || t->shape != std::vector<int64_t>{pairs}) {
      return ConfigError(name, absl::StrCat("a tensor of shape [", pairs, "]"));
    }
    std::vector<float> factors(pairs);
    DS_RETURN_IF_ERROR(
        checkpoint_.ReadRows(*t, 0, pairs, absl::MakeSpan(factors)));
    model_.rope.formula = "rope_freqs_factors";
    for (int64_t i = 0; i < pairs; ++i) {
      if (!(std::isfinite(factors[i]) && factors[i] > 0)) {
        return absl::InvalidArgumentError(absl::StrCat(
            FileOf(*t), ": tensor \"", tensor, "\": found ", factors[i],
            "; allowed: numbers above 0; copy the file again"));
      }
      model_.rope.arguments.emplace_back(absl::StrCat("factor_", i),
                                         factors[i]);
    }
    uses_[tensor] = {tensor, TensorUse::Kind::kUsed, {"rope_freqs"}, ""};
    return absl::OkStatus();
  }

  // CLIP keeps the factor of its logits as a tensor of one logarithm.
  absl::Status ReadScale() {
    if (policy_.scale_tensor.empty()) return absl::OkStatus();
    const TensorInfo* t = checkpoint_.Find(policy_.scale_tensor);
    if (t == nullptr) {
      missing_.push_back(policy_.scale_tensor);
      return absl::OkStatus();
    }
    float logarithm = 0;
    if (t->num_elements() == 1) {
      DS_RETURN_IF_ERROR(
          checkpoint_.ReadRows(*t, 0, 1, absl::MakeSpan(&logarithm, 1)));
    }
    // Far above what training allows.
    constexpr float kMost = 40;
    if (t->num_elements() != 1 || !(std::fabs(logarithm) <= kMost)) {
      return absl::InvalidArgumentError(absl::StrCat(
          FileOf(*t), ": tensor \"", t->name, "\": found shape ",
          ShapeText(t->shape), " and ", logarithm,
          "; allowed: one number, at most ", kMost, " in size"));
    }
    model_.logit_scale = std::exp(static_cast<double>(logarithm));
    uses_[t->name] = {t->name, TensorUse::Kind::kUsed, {"logit_scale"}, ""};
    return absl::OkStatus();
  }

  int64_t Size(SlotDim dim) const { return SlotSize(model_, dim); }
  int64_t Offset(const WeightPattern& pattern) const {
    return FirstRow(pattern, flags_);
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
          FileOf(t), ": tensor \"", t.name, "\": ", t.unreadable));
    }
    if (t.shape != want) {
      return absl::InvalidArgumentError(absl::StrCat(
          FileOf(t), ": tensor \"", t.name, "\": found shape ",
          ShapeText(t.shape), "; allowed: ", ShapeText(want),
          ", by the sizes in config.json; take the config.json that belongs to "
          "the weights"));
    }
    if (t.storage == Storage::kPlain && !IsFloat(t.dtype)) {
      return absl::InvalidArgumentError(absl::StrCat(
          FileOf(t), ": tensor \"", t.name, "\": found type ",
          DTypeName(t.dtype),
          "; allowed: f64, f32, f16, bf16; take the unquantised checkpoint"));
    }
    return absl::OkStatus();
  }

  // The weight of a slot at one layer, without its pieces.
  ModelWeight NewWeight(const WeightSlot& slot, int64_t layer) const {
    ModelWeight w;
    w.name = slot.per_layer ? absl::StrCat("layers.", layer, ".", slot.name)
                            : std::string(slot.name);
    if (!model_.tower.empty()) {
      w.name = absl::StrCat(model_.tower, ".", w.name);
    }
    w.role = SlotRole(model_, slot);
    w.shape = {Size(slot.rows)};
    if (slot.cols != SlotDim::kNone) w.shape.push_back(Size(slot.cols));
    const bool is_norm = w.role == Role::kNorm || w.role == Role::kAttnQNorm ||
                         w.role == Role::kAttnKNorm;
    if (is_norm && !absl::EndsWith(slot.name, ".bias")) {
      w.source.plus = model_.norm_offset;
    }
    return w;
  }

  // Where the rows of slot `index` lie in a tensor of that layout.
  void Place(const WeightPattern& pattern, size_t index,
             SourcePiece* piece) const {
    const int64_t dim = model_.head_dim;
    const auto slots = static_cast<int64_t>(pattern.slots.size());
    const auto at = static_cast<int64_t>(index);
    const int64_t group = model_.heads / model_.kv_heads;
    switch (LayoutOf(pattern)) {
      case RowLayout::kThirds:
        break;
      case RowLayout::kPerHead:
        // Parts may differ in size.
        for (int64_t i = 0; i < slots; ++i) {
          const int64_t rows = Size(pattern.slots[i]->rows) / model_.heads;
          piece->every += rows;
          if (i < at) piece->from += rows;
          if (i == at) piece->block = rows;
        }
        break;
      case RowLayout::kPerGroup:
        piece->block = at == 0 ? group * dim : dim;
        piece->every = (group + 2) * dim;
        piece->from = at == 0 ? 0 : (group + at - 1) * dim;
        break;
      case RowLayout::kPerRow:
        piece->block = 1;
        piece->every = slots;
        piece->from = at;
        break;
    }
  }

  // The weights of one pattern at one layer, from `t`.
  void AddWeights(const WeightPattern& pattern, const TensorInfo& t,
                  int64_t layer) {
    TensorUse& use = uses_[t.name];
    use.tensor = t.name;
    int64_t begin = Offset(pattern);
    for (size_t i = 0; i < pattern.slots.size(); ++i) {
      const WeightSlot* slot = pattern.slots[i];
      ModelWeight w = NewWeight(*slot, layer);
      SourcePiece piece;
      piece.tensor = t.name;
      piece.transposed = IsTransposed(pattern, t);
      Place(pattern, i, &piece);
      if (piece.block > 0) begin = 0;
      piece.rows = {begin, begin + w.shape[0]};
      piece.cols = {0, Size(slot->cols)};
      begin = piece.rows.end;
      w.source.pieces.push_back(std::move(piece));
      use.weights.push_back(w.name);
      model_.weights.push_back(std::move(w));
    }
  }

  // One weight out of a tensor for each head.
  absl::Status AddOfHeads(const WeightPattern& pattern,
                          const NamePattern& names, int64_t layer) {
    ModelWeight w = NewWeight(*pattern.slots[0], layer);
    const int64_t dim = model_.head_dim;
    for (int64_t h = 0; h < w.shape[0] / dim; ++h) {
      const TensorInfo* t = checkpoint_.Find(names.Name(layer, h));
      if (t == nullptr) {
        missing_.push_back(names.Name(layer, h));
        continue;
      }
      if (t->shape != std::vector<int64_t>{dim}) {
        return absl::InvalidArgumentError(
            absl::StrCat(FileOf(*t), ": tensor \"", t->name, "\": found shape ",
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
        model_.notes.push_back(absl::StrCat(
            "tensor \"", head->name,
            "\" differs from the embedding and is used",
            options_.trust_lm_head ? " (--trust-lm-head)" : ""));
        model_.tied_head = false;
      } else {
        return absl::InvalidArgumentError(absl::StrCat(
            FileOf(*head), ": tensor \"", head->name,
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
      const absl::string_view stem = absl::string_view(tensor).substr(
          0, tensor.size() - old_end.size());
      if (pattern.Match(absl::StrCat(stem, end)) >= 0) return true;
    }
    return false;
  }

  const Policy policy_;  // of one prefix, and one name a pattern
  const ModelFlags& flags_;
  const Checkpoint& checkpoint_;
  const DescribeOptions& options_;
  std::map<std::string, TensorUse>& uses_;
  ModelDescription& model_;
  const std::string prefix_;
  std::vector<std::string> missing_;
};

LatentSizes LatentOf(const ModelDescription& model) {
  return model.latent.value_or(LatentSizes());
}

// Whether one weight serves the norm of every head.
bool NormsHeads(const ModelDescription& model) {
  return model.qk_norm == QkNorm::kHeadRms ||
         model.qk_norm == QkNorm::kHeadLayerShared;
}

}  // namespace

int64_t SlotSize(const ModelDescription& model, SlotDim dim) {
  switch (dim) {
    case SlotDim::kNone:
      return 1;
    case SlotDim::kVocab:
      return model.vocab_size;
    case SlotDim::kPositions:
      return model.max_positions;
    case SlotDim::kHidden:
      return model.hidden_size;
    case SlotDim::kQuery:
      return model.heads * model.head_dim;
    case SlotDim::kKv:
      return model.kv_heads * model.head_dim;
    case SlotDim::kInner:
      return model.inner_size;
    case SlotDim::kEmbed:
      return model.embed_dim;
    case SlotDim::kTypes:
      return model.types;
    case SlotDim::kLabels:
      return static_cast<int64_t>(model.labels.size());
    case SlotDim::kOne:
      return 1;
    case SlotDim::kHeads:
      return model.heads;
    case SlotDim::kBuckets:
      return model.rel_buckets;
    case SlotDim::kPatch:
      return model.channels * model.patch_size * model.patch_size;
    case SlotDim::kProjection:
      return model.projection_size;
    case SlotDim::kQueryNorm:
      return NormsHeads(model) ? model.head_dim : model.heads * model.head_dim;
    case SlotDim::kQueryNope:
      return model.heads * LatentOf(model).nope_dim;
    case SlotDim::kQueryRope:
      return model.heads * LatentOf(model).rope_dim;
    case SlotDim::kValue:
      return model.heads * LatentOf(model).value_dim;
    case SlotDim::kRope:
      return LatentOf(model).rope_dim;
    case SlotDim::kLatent:
      return LatentOf(model).rank;
    case SlotDim::kQueryLatent:
      return LatentOf(model).query_rank;
    case SlotDim::kQuerySource:
      return LatentOf(model).query_rank > 0 ? LatentOf(model).query_rank
                                            : model.hidden_size;
    case SlotDim::kAttended:
      return model.heads * (model.latent.has_value() ? model.latent->value_dim
                                                     : model.head_dim);
    case SlotDim::kKeyNorm:
      return NormsHeads(model) ? model.head_dim
                               : model.kv_heads * model.head_dim;
  }
  return 0;
}

bool IsOfHead(const WeightPattern& pattern, const ModelFlags& flags) {
  return pattern.of.empty() || std::find(pattern.of.begin(), pattern.of.end(),
                                         flags.head) != pattern.of.end();
}

bool IsWanted(const WeightPattern& pattern, const ModelFlags& flags) {
  return IsOfHead(pattern, flags) &&
         (pattern.flag.empty() || flags.biases.at(pattern.flag).value) &&
         (pattern.not_flag.empty() || !flags.biases.at(pattern.not_flag).value);
}

Role SlotRole(const ModelDescription& model, const WeightSlot& slot) {
  const bool of_heads =
      slot.rows == SlotDim::kQueryNorm || slot.rows == SlotDim::kKeyNorm;
  return of_heads && NormsHeads(model) ? Role::kNorm : slot.role;
}

int64_t FirstRow(const WeightPattern& pattern, const ModelFlags& flags) {
  return pattern.slots[0]->rows == SlotDim::kPositions ? flags.position_offset
                                                       : 0;
}

std::vector<int64_t> PublishedShape(const WeightPattern& pattern,
                                    const ModelDescription& model,
                                    const ModelFlags& flags) {
  int64_t rows = FirstRow(pattern, flags);
  for (const WeightSlot* slot : pattern.slots) {
    rows += SlotSize(model, slot->rows);
  }
  std::vector<int64_t> shape = {rows};
  if (pattern.slots[0]->cols == SlotDim::kPatch) {
    return {rows, model.channels, model.patch_size, model.patch_size};
  }
  if (pattern.slots[0]->cols != SlotDim::kNone) {
    shape.push_back(SlotSize(model, pattern.slots[0]->cols));
    if (pattern.transposed) std::swap(shape[0], shape[1]);
  }
  return shape;
}

absl::StatusOr<bool> TensorsEqual(const Checkpoint& checkpoint,
                                  const TensorInfo& a, const TensorInfo& b) {
  if (a.shape != b.shape) return false;
  constexpr int64_t kElementsAtOnce = 1 << 18;
  const int64_t rows_at_once = std::max<int64_t>(
      1, kElementsAtOnce / std::max<int64_t>(1, a.row_elements()));
  std::vector<float> x, y;
  for (int64_t begin = 0; begin < a.rows(); begin += rows_at_once) {
    const int64_t end = std::min(a.rows(), begin + rows_at_once);
    x.resize((end - begin) * a.row_elements());
    y.resize(x.size());
    DS_RETURN_IF_ERROR(checkpoint.ReadRows(a, begin, end, absl::MakeSpan(x)));
    DS_RETURN_IF_ERROR(checkpoint.ReadRows(b, begin, end, absl::MakeSpan(y)));
    for (size_t i = 0; i < x.size(); ++i) {
      if (x[i] != y[i] && !(std::isnan(x[i]) && std::isnan(y[i]))) return false;
    }
  }
  return true;
}

absl::Status ResolveWeights(const Policy& policy, const ModelFlags& flags,
                            const Checkpoint& checkpoint,
                            const DescribeOptions& options,
                            ModelDescription* model) {
  std::map<std::string, TensorUse> uses;
  Resolver resolver(policy, flags, checkpoint, options, &uses, model);
  DS_RETURN_IF_ERROR(resolver.Run());
  DS_RETURN_IF_ERROR(resolver.CheckLeftOver());
  for (auto& [name, use] : uses) model->coverage.tensors.push_back(use);
  return absl::OkStatus();
}

}  // namespace deepslice
