#include "compiler/checkpoint/meta_merge.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "compiler/checkpoint/matrix_view.h"
#include "compiler/checkpoint/shard_set.h"
#include "compiler/checkpoint/torch_weights.h"
#include "compiler/checkpoint/untrusted_text.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

enum class Cut { kCopy, kRows, kColumns, kQuery, kKey, kValue, kEmbedding };

// A dim of a whole tensor, by what it counts.
enum class Dim { kNone, kModel, kHeads, kKvHeads, kInner, kVocab };

struct Rule {
  absl::string_view name, published;  // below layers.N. where `layered`
  bool layered;
  Cut cut;
  Dim rows, columns;
};
constexpr Rule kRules[] = {
    {"tok_embeddings.weight", "model.embed_tokens.weight", false,
     Cut::kEmbedding, Dim::kVocab, Dim::kModel},
    {"norm.weight", "model.norm.weight", false, Cut::kCopy, Dim::kModel,
     Dim::kNone},
    {"output.weight", "lm_head.weight", false, Cut::kRows, Dim::kVocab,
     Dim::kModel},
    {"attention.wq.weight", "self_attn.q_proj.weight", true, Cut::kQuery,
     Dim::kHeads, Dim::kModel},
    {"attention.wk.weight", "self_attn.k_proj.weight", true, Cut::kKey,
     Dim::kKvHeads, Dim::kModel},
    {"attention.wv.weight", "self_attn.v_proj.weight", true, Cut::kValue,
     Dim::kKvHeads, Dim::kModel},
    {"attention.wo.weight", "self_attn.o_proj.weight", true, Cut::kColumns,
     Dim::kModel, Dim::kHeads},
    {"feed_forward.w1.weight", "mlp.gate_proj.weight", true, Cut::kRows,
     Dim::kInner, Dim::kModel},
    {"feed_forward.w3.weight", "mlp.up_proj.weight", true, Cut::kRows,
     Dim::kInner, Dim::kModel},
    {"feed_forward.w2.weight", "mlp.down_proj.weight", true, Cut::kColumns,
     Dim::kModel, Dim::kInner},
    {"attention_norm.weight", "input_layernorm.weight", true, Cut::kCopy,
     Dim::kModel, Dim::kNone},
    {"ffn_norm.weight", "post_attention_layernorm.weight", true, Cut::kCopy,
     Dim::kModel, Dim::kNone},
};

// Buffers that the model makes anew.
bool IsBuffer(absl::string_view name) {
  return name == "rope.freqs" || absl::EndsWith(name, ".rope.freqs");
}

// The rule of a tensor and its published name; nullptr when none is known.
const Rule* FindRule(absl::string_view name, std::string* published) {
  absl::string_view rest = name, layer;
  if (absl::ConsumePrefix(&rest, "layers.")) {
    layer = rest.substr(0, rest.find('.'));
    if (layer.size() == rest.size() || layer.empty() ||
        !std::all_of(layer.begin(), layer.end(), absl::ascii_isdigit)) {
      return nullptr;
    }
    rest.remove_prefix(layer.size() + 1);
  }
  for (const Rule& rule : kRules) {
    if (rule.name != rest || rule.layered != !layer.empty()) continue;
    *published = rule.layered
                     ? absl::StrCat("model.layers.", layer, ".", rule.published)
                     : std::string(rule.published);
    return &rule;
  }
  return nullptr;
}

class Merger {
 public:
  Merger(const MetaParams& params, const std::vector<std::string>& paths,
         CheckpointParts* parts)
      : params_(params), paths_(paths), parts_(*parts) {}

  absl::Status Run() {
    std::vector<std::map<std::string, TensorInfo>> ranks;
    for (size_t i = 0; i < paths_.size(); ++i) {
      DS_ASSIGN_OR_RETURN(SourceBytes source, MapSource(paths_[i]));
      DS_ASSIGN_OR_RETURN(TorchWeights weights,
                          ReadTorchWeights(source.bytes, paths_[i]));
      parts_.notes.insert(parts_.notes.end(), weights.notes.begin(),
                          weights.notes.end());
      parts_.sources.push_back(std::move(source));
      ranks.emplace_back();
      for (TensorInfo& t : weights.tensors) {
        if (IsBuffer(t.name)) continue;
        t.file = static_cast<int>(i);
        std::string name = t.name;
        ranks.back().emplace(std::move(name), std::move(t));
      }
    }
    for (size_t i = 1; i < ranks.size(); ++i) {
      DS_RETURN_IF_ERROR(CheckNames(ranks[0], ranks[i]));
      DS_RETURN_IF_ERROR(CheckNames(ranks[i], ranks[0]));
    }
    for (const auto& [name, t] : ranks[0]) {
      std::vector<const TensorInfo*> of_ranks;
      for (const auto& rank : ranks) of_ranks.push_back(&rank.at(name));
      DS_RETURN_IF_ERROR(Add(of_ranks));
    }
    return CheckAllThere(ranks[0]);
  }

  MetaShape shape() const { return {inner_size_, vocab_size_, has_head_}; }

 private:
  std::string Place(const TensorInfo& t) const {
    return absl::StrCat(paths_[t.file], ": tensor ", Quoted(t.name));
  }

  absl::Status CheckNames(const std::map<std::string, TensorInfo>& a,
                          const std::map<std::string, TensorInfo>& b) const {
    for (const auto& [name, t] : a) {
      if (b.count(name) > 0) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          Place(t), ": is not in ",
          b.empty() ? "another rank" : paths_[b.begin()->second.file],
          "; the files are of different models, copy them again"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckAllThere(
      const std::map<std::string, TensorInfo>& tensors) const {
    std::vector<std::string> missing;
    const auto look = [&](std::string name) {
      if (tensors.count(name) == 0) missing.push_back(std::move(name));
    };
    for (const Rule& rule : kRules) {
      if (rule.name == "output.weight") continue;  // may be the embedding
      for (int64_t i = 0; i < (rule.layered ? params_.layers : 1); ++i) {
        look(rule.layered ? absl::StrCat("layers.", i, ".", rule.name)
                          : std::string(rule.name));
      }
    }
    if (!missing.empty()) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "%s: of %d layers %d tensor%s missing: %s; copy the files again, or "
          "correct n_layers in params.json",
          paths_[0], params_.layers, missing.size(),
          missing.size() == 1 ? " is" : "s are", ShortList(missing)));
    }
    const std::string next = absl::StrCat("layers.", params_.layers, ".");
    const auto more = tensors.lower_bound(next);
    if (more == tensors.end() || !absl::StartsWith(more->first, next)) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: is there, but n_layers in params.json is %d; correct it",
        Place(more->second), params_.layers));
  }

  absl::Status Add(const std::vector<const TensorInfo*>& of_ranks) {
    const TensorInfo& first = *of_ranks[0];
    std::string published;
    const Rule* rule = FindRule(first.name, &published);
    if (rule == nullptr) {
      return absl::UnimplementedError(
          absl::StrCat(Place(first),
                       ": is none of a text model of LLaMA 1 to 3; others are "
                       "not read in Meta's form, give their Hugging Face "
                       "folder"));
    }
    for (const TensorInfo* t : of_ranks) {
      if (t->shape.size() != first.shape.size() || t->dtype != first.dtype ||
          (t->shape != first.shape)) {
        return absl::InvalidArgumentError(absl::StrCat(
            Place(*t), ": is ", DimsText(t->shape), " of ", DTypeName(t->dtype),
            ", in ", paths_[first.file], " ", DimsText(first.shape), " of ",
            DTypeName(first.dtype),
            "; the ranks are of different checkpoints, copy them again"));
      }
    }
    const size_t dims = rule->columns == Dim::kNone ? 1 : 2;
    if (first.shape.size() != dims) {
      return absl::InvalidArgumentError(
          absl::StrCat(Place(first), ": is ", DimsText(first.shape),
                       "; must have ", dims, dims == 1 ? " dim" : " dims"));
    }
    return Merge(*rule, std::move(published), of_ranks);
  }

  absl::Status Merge(const Rule& rule, std::string published,
                     std::vector<const TensorInfo*> of_ranks) {
    const TensorInfo& first = *of_ranks[0];
    const int64_t count = static_cast<int64_t>(of_ranks.size());
    // Which dim the ranks are laid along; none when each has it whole.
    int along = rule.cut == Cut::kCopy ? -1 : rule.cut == Cut::kColumns ? 1 : 0;
    if (rule.cut == Cut::kEmbedding && first.shape[1] != params_.dim) along = 1;
    if (rule.cut == Cut::kKey || rule.cut == Cut::kValue) {
      DS_RETURN_IF_ERROR(DropCopies(&of_ranks));
    }
    if (along < 0) {
      for (const TensorInfo* t : of_ranks) {
        DS_RETURN_IF_ERROR(CheckEqual(first, *t));
      }
    }
    std::vector<int64_t> shape = first.shape;
    if (along >= 0) shape[along] *= static_cast<int64_t>(of_ranks.size());
    DS_RETURN_IF_ERROR(CheckDim(rule, first, shape, 0, rule.rows, count));
    if (shape.size() == 2) {
      DS_RETURN_IF_ERROR(CheckDim(rule, first, shape, 1, rule.columns, count));
    }
    if (rule.rows == Dim::kVocab && published == "lm_head.weight") {
      has_head_ = true;
    }
    TensorInfo whole = WholeOf(first, std::move(published), std::move(shape));
    for (const TensorInfo* t : of_ranks) {
      if (!t->unreadable.empty()) whole.unreadable = t->unreadable;
    }
    if (whole.num_elements() > limits::kTensorBytes) {
      return absl::ResourceExhaustedError(absl::StrCat(
          Place(first), ": of ", count, " ranks is ", DimsText(whole.shape),
          "; allowed are ", limits::kTensorBytes, " elements"));
    }
    if (!whole.unreadable.empty()) {
      whole.bytes = 0;
    } else if (rule.cut == Cut::kQuery || rule.cut == Cut::kKey) {
      for (size_t i = 0; i < of_ranks.size(); ++i) {
        const MatrixView view = ViewOf(*of_ranks[i]);
        AddHeadRows(view, i * view.rows, &whole);
      }
    } else if (along < 0 || of_ranks.size() == 1) {
      // As it stands in the file.
      whole.offset = first.offset;
      whole.bytes = first.bytes;
      whole.strides = first.strides;
    } else {
      for (size_t i = 0; i < of_ranks.size(); ++i) {
        const MatrixView view = ViewOf(*of_ranks[i]);
        AddPart(view, along == 0 ? i * view.rows : 0,
                along == 1 ? i * view.columns : 0, &whole);
      }
    }
    parts_.tensors.push_back(std::move(whole));
    return absl::OkStatus();
  }

  // More ranks than heads of keys: neighbours have copies of one.
  absl::Status DropCopies(std::vector<const TensorInfo*>* of_ranks) const {
    const int64_t count = static_cast<int64_t>(of_ranks->size());
    if (count <= params_.kv_heads || count % params_.kv_heads != 0 ||
        (*of_ranks)[0]->rows() != params_.head_dim) {
      return absl::OkStatus();
    }
    const int64_t copies = count / params_.kv_heads;
    std::vector<const TensorInfo*> kept;
    for (int64_t i = 0; i < count; ++i) {
      if (i % copies == 0) {
        kept.push_back((*of_ranks)[i]);
      } else {
        DS_RETURN_IF_ERROR(CheckEqual(*kept.back(), *(*of_ranks)[i]));
      }
    }
    *of_ranks = std::move(kept);
    return absl::OkStatus();
  }

  absl::Status CheckEqual(const TensorInfo& a, const TensorInfo& b) const {
    if (&a == &b || !a.unreadable.empty() || !b.unreadable.empty() ||
        SameElements(parts_.sources, a, b)) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        Place(b), ": differs from that in ", paths_[a.file],
        "; these ranks must hold the same: the files are of different runs or "
        "damaged"));
  }

  // Checks a dim of the whole against the parameters, or learns it.
  absl::Status CheckDim(const Rule& rule, const TensorInfo& first,
                        const std::vector<int64_t>& shape, int dim, Dim counts,
                        int64_t ranks) {
    int64_t want = 0;
    const char* what = "";
    switch (counts) {
      case Dim::kNone:
        return absl::OkStatus();
      case Dim::kModel:
        want = params_.dim;
        what = "dim";
        break;
      case Dim::kHeads:
        want = params_.heads * params_.head_dim;
        what = "n_heads times the width of a head";
        break;
      case Dim::kKvHeads:
        want = params_.kv_heads * params_.head_dim;
        what = "n_kv_heads times the width of a head";
        break;
      case Dim::kInner:
        if (inner_size_ == 0) inner_size_ = shape[dim];
        want = inner_size_;
        what = "what the other tensors of the feed-forward have";
        break;
      case Dim::kVocab:
        if (vocab_size_ == 0) vocab_size_ = params_.vocab_size;
        // The names are sorted: output comes first.
        if (vocab_size_ == 0) vocab_size_ = shape[dim];
        want = vocab_size_;
        what = params_.vocab_size > 0 ? "vocab_size" : "as output has";
        break;
    }
    if (shape[dim] == want) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: is %s of %d rank%s together; its %s must be %d, %s: give the "
        "files of all ranks and their own params.json",
        Place(first), DimsText(shape), ranks, ranks == 1 ? "" : "s",
        dim == 0 ? "rows" : "columns", want, what));
  }

  // Puts rows [begin, ...) of Meta's order, pairs side by side, where Hugging
  // Face has them: the first elements of a head's pairs, then the second.
  void AddHeadRows(const MatrixView& rows, int64_t begin,
                   TensorInfo* whole) const {
    const int64_t width = params_.head_dim;
    for (int64_t at = 0; at < rows.rows;) {
      const int64_t head = (begin + at) / width;
      const int64_t from = (begin + at) % width;
      const int64_t count = std::min(width - from, rows.rows - at);
      for (int64_t second = 0; second < 2; ++second) {
        const int64_t skip = (from + second) % 2;
        if (skip >= count) continue;
        const int64_t pair = (from + skip) / 2;
        const int64_t half = (from + skip) % 2;
        AddPart(rows.Rows(at + skip, (count - skip + 1) / 2, 2),
                head * width + half * (width / 2) + pair, 0, whole);
      }
      at += count;
    }
  }

  const MetaParams& params_;
  const std::vector<std::string>& paths_;
  CheckpointParts& parts_;
  int64_t inner_size_ = 0, vocab_size_ = 0;
  bool has_head_ = false;
};

}  // namespace

absl::StatusOr<MetaShape> MergeMetaRanks(const MetaParams& params,
                                         const std::vector<std::string>& paths,
                                         CheckpointParts* parts) {
  Merger merger(params, paths, parts);
  DS_RETURN_IF_ERROR(merger.Run());
  return merger.shape();
}

}  // namespace deepslice
