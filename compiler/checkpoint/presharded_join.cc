#include "compiler/checkpoint/presharded_join.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "compiler/checkpoint/matrix_view.h"
#include "compiler/checkpoint/torch_file.h"
#include "compiler/checkpoint/untrusted_text.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// The tensors of a file or a rank, by their names.
using Named = std::map<std::string, TensorInfo>;

// A linear's outputs as they are published: which tensor, and where in it.
struct Target {
  std::string name;
  int64_t begin = 0, count = 0;  // outputs of the layer's joined linear
};

class Joiner {
 public:
  Joiner(const InjectedFamily& family, const PreshardedFiles& files,
         CheckpointParts* parts)
      : family_(family), files_(files), parts_(*parts) {}

  absl::Status Run() {
    Named whole;
    for (const std::string& path : files_.whole) {
      DS_RETURN_IF_ERROR(Read(path, &whole));
    }
    parts_.training_mp_size = static_cast<int>(files_.of_ranks.size());
    for (const auto& paths : files_.of_ranks) {
      ranks_.emplace_back();
      for (const std::string& path : paths) {
        DS_RETURN_IF_ERROR(Read(path, &ranks_.back()));
      }
    }
    for (size_t i = 1; i < ranks_.size(); ++i) {
      DS_RETURN_IF_ERROR(CheckNames(ranks_[0], ranks_[i], i));
      DS_RETURN_IF_ERROR(CheckNames(ranks_[i], ranks_[0], 0));
    }
    for (const auto& [name, t] : ranks_[0]) {
      if (const auto at = whole.find(name); at != whole.end()) {
        return absl::InvalidArgumentError(absl::StrCat(
            Place(t), ": is in ", Path(at->second),
            " too; the files are of different models, copy them again"));
      }
    }
    for (const auto& [name, t] : ranks_[0]) {
      const auto injected = ParseInjectedName(name);
      if (injected.has_value() && injected->what == Injected::kQkv &&
          !injected->is_bias && t.shape.size() == 2) {
        width_ = t.shape[0];
        break;
      }
    }
    for (auto& [name, t] : whole) {
      const std::vector<const TensorInfo*> alone = {&t};
      DS_RETURN_IF_ERROR(AddOther(alone));
    }
    for (const auto& [name, t] : ranks_[0]) {
      std::vector<const TensorInfo*> of_ranks;
      for (const Named& rank : ranks_) of_ranks.push_back(&rank.at(name));
      const auto injected = ParseInjectedName(name);
      DS_RETURN_IF_ERROR(injected.has_value() ? Add(*injected, of_ranks)
                                              : AddOther(of_ranks));
    }
    if (!has_layers_) {
      return absl::InvalidArgumentError(absl::StrCat(
          files_.of_ranks[0][0],
          ": has no tensor of an injected layer (attention.attn_qkvw); the "
          "files are none that save_mp_checkpoint_path writes"));
    }
    return absl::OkStatus();
  }

 private:
  const std::string& Path(const TensorInfo& t) const {
    return parts_.sources[t.file].path;
  }
  std::string Place(const TensorInfo& t) const {
    return absl::StrCat(Path(t), ": tensor ", Quoted(t.name));
  }

  // Adds the tensors of a file, which may hold none.
  absl::Status Read(const std::string& path, Named* out) {
    DS_ASSIGN_OR_RETURN(SourceBytes source, MapSource(path));
    DS_ASSIGN_OR_RETURN(const auto torch, TorchFile::Open(source.bytes, path));
    if (torch->root().AsDict() == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": holds ", torch->root().Describe(),
                       "; must be a dict of tensors"));
    }
    DS_ASSIGN_OR_RETURN(TorchTensors listed, torch->ListTensors(torch->root()));
    const int file = static_cast<int>(parts_.sources.size());
    parts_.sources.push_back(std::move(source));
    for (TensorInfo& t : listed.tensors) {
      t.file = file;
      // What has a scale is a list of both; it counts for 8 bits alone.
      absl::string_view name = t.name;
      if (absl::ConsumeSuffix(&name, ".1") && IsWeightName(name)) continue;
      name = t.name;
      if (absl::ConsumeSuffix(&name, ".0") && IsWeightName(name)) {
        if (t.stored_name.empty()) t.stored_name = t.name;
        t.name = std::string(name);
      }
      if (ParseInjectedName(t.name).has_value() && !IsFloat(t.dtype)) {
        return absl::UnimplementedError(absl::StrCat(
            Place(t), ": is of ", DTypeName(t.dtype),
            " with scales that fit other numbers of ranks only by rules of "
            "DeepSpeed's kernels; save the model with dtype fp16 or bf16, and "
            "quantise it here (--dtype int8)"));
      }
      if (IsSplitName(t.name)) {
        return absl::UnimplementedError(absl::StrCat(
            Place(t),
            ": is of the hybrid engine, which keeps linears apart that "
            "inference joins; save with init_inference and "
            "save_mp_checkpoint_path"));
      }
      std::string key = t.name;
      const auto added = out->emplace(std::move(key), std::move(t));
      if (added.second) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          path, ": tensor ", Quoted(added.first->first), ": is in ",
          Path(added.first->second),
          " too; each part of a rank holds other tensors: copy them again"));
    }
    return absl::OkStatus();
  }

  static bool IsWeightName(absl::string_view name) {
    return ParseInjectedName(name).has_value() ||
           absl::EndsWith(name, ".weight");
  }

  // Of a layer that was injected for training.
  static bool IsSplitName(absl::string_view name) {
    for (const char* end :
         {".attention.attn_qw", ".attention.attn_qb", ".attention.attn_kw",
          ".attention.attn_kb", ".attention.attn_vw", ".attention.attn_vb",
          ".mlp.inter_up_w", ".mlp.inter_up_b", ".mlp.inter_gate_w",
          ".mlp.inter_gate_b"}) {
      if (absl::EndsWith(name, end)) return true;
    }
    return false;
  }

  absl::Status CheckNames(const Named& a, const Named& b, size_t rank) const {
    for (const auto& [name, t] : a) {
      if (b.count(name) > 0) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          Place(t), ": is not in the files of rank ", rank,
          "; the ranks are of different models, copy their files again"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckEqual(const TensorInfo& a, const TensorInfo& b) const {
    if (a.shape != b.shape || a.dtype != b.dtype) return Unlike(a, b);
    if (&a == &b || !a.unreadable.empty() || !b.unreadable.empty() ||
        SameElements(parts_.sources, a, b)) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        Place(b), ": differs from that in ", Path(a),
        "; all ranks must hold the same: the files are of different models or "
        "damaged"));
  }

  absl::Status Unlike(const TensorInfo& a, const TensorInfo& b) const {
    return absl::InvalidArgumentError(absl::StrCat(
        Place(b), ": is ", DimsText(b.shape), " of ", DTypeName(b.dtype),
        ", in ", Path(a), " ", DimsText(a.shape), " of ", DTypeName(a.dtype),
        "; the ranks are of different models, copy their files again"));
  }

  absl::Status CheckDims(const TensorInfo& t, size_t dims) const {
    if (t.shape.size() == dims) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(Place(t), ": is ", DimsText(t.shape), "; must have ", dims,
                     dims == 1 ? " dim" : " dims"));
  }

  void Keep(TensorInfo t) { parts_.tensors.push_back(std::move(t)); }

  // What the injection left as it was: a copy on each rank, or the head, of
  // which each may have its columns.
  absl::Status AddOther(const std::vector<const TensorInfo*>& of_ranks) {
    const TensorInfo& first = *of_ranks[0];
    const bool head = absl::EndsWith(first.name, "lm_head.weight") ||
                      absl::EndsWith(first.name, "embed_out.weight");
    const int64_t ranks = static_cast<int64_t>(ranks_.size());
    if (head && first.shape.size() == 2 && width_ > 0 &&
        first.shape[1] != width_ && first.shape[1] * ranks == width_) {
      return AddHead(of_ranks);
    }
    for (const TensorInfo* t : of_ranks) {
      DS_RETURN_IF_ERROR(CheckEqual(first, *t));
    }
    Keep(first);
    return absl::OkStatus();
  }

  absl::Status AddHead(const std::vector<const TensorInfo*>& of_ranks) {
    const TensorInfo& first = *of_ranks[0];
    if (of_ranks.size() < ranks_.size()) {
      const json::Value* tied = parts_.config.Find("tie_word_embeddings");
      if (tied != nullptr && tied->is_bool() && !tied->as_bool()) {
        return absl::InvalidArgumentError(absl::StrCat(
            Place(first), ": is ", DimsText(first.shape),
            ", the columns of rank 0 alone, and is not the embedding "
            "(tie_word_embeddings); the other ranks' are in no file: give the "
            "Hugging Face folder"));
      }
      parts_.notes.push_back(
          absl::StrCat(Place(first),
                       ": is that of rank 0 alone and is left out: the head "
                       "is the embedding"));
      return absl::OkStatus();
    }
    TensorInfo whole = WholeOf(first, first.name, {first.shape[0], width_});
    DS_RETURN_IF_ERROR(ForEachRank(of_ranks, [&](const TensorInfo& t, int r) {
      AddPart(ViewOf(t), 0, r * first.shape[1], &whole);
    }));
    Keep(std::move(whole));
    return absl::OkStatus();
  }

  // Ranks' parts of one tensor are alike; then calls `add` for each that can
  // be read.
  template <typename F>
  absl::Status ForEachRank(const std::vector<const TensorInfo*>& of_ranks,
                           F add) const {
    const TensorInfo& first = *of_ranks[0];
    for (size_t r = 0; r < of_ranks.size(); ++r) {
      const TensorInfo& t = *of_ranks[r];
      if (t.shape != first.shape || t.dtype != first.dtype) {
        return Unlike(first, t);
      }
      if (!t.unreadable.empty()) {
        return absl::UnimplementedError(
            absl::StrCat(Place(t), ": ", t.unreadable));
      }
    }
    for (size_t r = 0; r < of_ranks.size(); ++r) {
      add(*of_ranks[r], static_cast<int>(r));
    }
    return absl::OkStatus();
  }

  absl::Status Add(const InjectedName& name,
                   const std::vector<const TensorInfo*>& of_ranks) {
    const TensorInfo& first = *of_ranks[0];
    has_layers_ = true;
    const bool is_norm =
        name.what == Injected::kNorm || name.what == Injected::kMlpNorm;
    DS_RETURN_IF_ERROR(CheckDims(first, name.is_bias || is_norm ? 1 : 2));
    switch (name.what) {
      case Injected::kNorm:
        return AddCopy(name, family_.norm, of_ranks);
      case Injected::kMlpNorm:
        if (family_.mlp_norm.empty()) {
          return absl::InvalidArgumentError(absl::StrCat(
              Place(first), ": is a norm that ", family_.model_type,
              " has not; take the config.json of the model"));
        }
        return AddCopy(name, family_.mlp_norm, of_ranks);
      case Injected::kOut:
        return name.is_bias ? AddCopy(name, family_.out, of_ranks)
                            : AddInputs(name, family_.out, of_ranks);
      case Injected::kDown:
        return name.is_bias ? AddCopy(name, family_.down, of_ranks)
                            : AddInputs(name, family_.down, of_ranks);
      case Injected::kQkv:
        return AddQkv(name, of_ranks);
      case Injected::kUp:
        return AddUp(name, of_ranks);
    }
    return absl::OkStatus();
  }

  static std::string Published(const InjectedName& name,
                               absl::string_view module) {
    return absl::StrCat(name.prefix, module,
                        name.is_bias ? ".bias" : ".weight");
  }

  // The same on all ranks.
  absl::Status AddCopy(const InjectedName& name, absl::string_view module,
                       const std::vector<const TensorInfo*>& of_ranks) {
    for (const TensorInfo* t : of_ranks) {
      DS_RETURN_IF_ERROR(CheckEqual(*of_ranks[0], *t));
    }
    TensorInfo t = *of_ranks[0];
    if (t.stored_name.empty()) t.stored_name = t.name;
    t.name = Published(name, module);
    Keep(std::move(t));
    return absl::OkStatus();
  }

  // A linear, stored as [in, out], of whose inputs each rank has its part.
  absl::Status AddInputs(const InjectedName& name, absl::string_view module,
                         const std::vector<const TensorInfo*>& of_ranks) {
    const TensorInfo& first = *of_ranks[0];
    const int64_t inputs = first.shape[0], outputs = first.shape[1];
    const int64_t all = inputs * static_cast<int64_t>(of_ranks.size());
    DS_RETURN_IF_ERROR(CheckSize(first, all * outputs));
    TensorInfo whole =
        WholeOf(first, Published(name, module), Shape(name, outputs, all));
    DS_RETURN_IF_ERROR(ForEachRank(of_ranks, [&](const TensorInfo& t, int r) {
      const MatrixView view = ViewOf(t);
      if (family_.is_conv1d) {
        AddPart(view, r * inputs, 0, &whole);
      } else {
        AddPart(view.Transposed(), 0, r * inputs, &whole);
      }
    }));
    Keep(std::move(whole));
    return absl::OkStatus();
  }

  absl::Status CheckSize(const TensorInfo& t, int64_t elements) const {
    if (elements <= limits::kTensorBytes) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat(Place(t), ": of all ranks has ", elements,
                     " elements; allowed are ", limits::kTensorBytes));
  }

  // The published shape of a linear's weight or bias.
  std::vector<int64_t> Shape(const InjectedName& name, int64_t outputs,
                             int64_t inputs) const {
    if (name.is_bias) return {outputs};
    return family_.is_conv1d ? std::vector<int64_t>{inputs, outputs}
                             : std::vector<int64_t>{outputs, inputs};
  }

  // Outputs as rows, whether of a weight stored as [in, out] or of a bias.
  static MatrixView Outputs(const InjectedName& name, const TensorInfo& t) {
    const MatrixView view = ViewOf(t);
    return name.is_bias ? view : view.Transposed();
  }

  void Put(const InjectedName& name, const MatrixView& outputs, int64_t at,
           TensorInfo* whole) const {
    if (family_.is_conv1d && !name.is_bias) {
      AddPart(outputs.Transposed(), 0, at, whole);
    } else {
      AddPart(outputs, at, 0, whole);
    }
  }

  // Outputs of which each rank has, of each of `blocks` equal parts of the
  // whole, its own; the whole is published as `targets`, and `place` gives an
  // output's place in its target with how many stay side by side from there.
  template <typename F>
  absl::Status AddOutputs(const InjectedName& name,
                          const std::vector<const TensorInfo*>& of_ranks,
                          int64_t blocks, const std::vector<Target>& targets,
                          F place) {
    const TensorInfo& first = *of_ranks[0];
    const int64_t inputs = name.is_bias ? 1 : first.shape[0];
    const int64_t outputs = first.shape.back();
    const int64_t ranks = static_cast<int64_t>(of_ranks.size());
    std::vector<TensorInfo> wholes;
    for (const Target& target : targets) {
      DS_RETURN_IF_ERROR(CheckSize(first, target.count * inputs));
      wholes.push_back(
          WholeOf(first, target.name, Shape(name, target.count, inputs)));
    }
    const int64_t of_block = outputs / blocks;
    DS_RETURN_IF_ERROR(ForEachRank(of_ranks, [&](const TensorInfo& t, int r) {
      const MatrixView view = Outputs(name, t);
      for (int64_t i = 0; i < outputs;) {
        // Output `at` of the whole, and how many follow it here.
        const int64_t block = i / of_block;
        const int64_t at =
            block * of_block * ranks + r * of_block + i % of_block;
        int64_t count = (block + 1) * of_block - i;
        size_t to = 0;
        while (to + 1 < targets.size() && at >= targets[to + 1].begin) ++to;
        const Target& target = targets[to];
        count = std::min(count, target.begin + target.count - at);
        const std::pair<int64_t, int64_t> where = place(at - target.begin);
        count = std::min(count, where.second);
        Put(name, view.Rows(i, count), where.first, &wholes[to]);
        i += count;
      }
    }));
    for (TensorInfo& t : wholes) Keep(std::move(t));
    return absl::OkStatus();
  }

  absl::Status Indivisible(const TensorInfo& t, int64_t size,
                           const std::string& what) const {
    return absl::InvalidArgumentError(
        absl::StrCat(Place(t), ": has ", size, " outputs; must be ", what));
  }

  absl::StatusOr<int64_t> Count(std::initializer_list<absl::string_view> keys,
                                int64_t otherwise) const {
    for (const absl::string_view key : keys) {
      const json::Value* v = parts_.config.Find(key);
      if (v == nullptr || v->is_null()) continue;
      if (v->is_int() && v->as_int() >= 1 && v->as_int() <= limits::kHeads) {
        return v->as_int();
      }
      return absl::InvalidArgumentError(
          absl::StrCat(files_.folder, "/config.json: ", key, ": holds ",
                       Quoted(json::Write(*v)), "; must be a number of heads"));
    }
    return otherwise;
  }

  absl::Status AddQkv(const InjectedName& name,
                      const std::vector<const TensorInfo*>& of_ranks) {
    const TensorInfo& first = *of_ranks[0];
    const int64_t all =
        first.shape.back() * static_cast<int64_t>(of_ranks.size());
    const auto in_place = [&](int64_t at) { return std::make_pair(at, all); };
    const std::string fused = Published(name, family_.query);
    if (family_.keeps_qkv) {
      return AddOutputs(name, of_ranks, 1, {{fused, 0, all}}, in_place);
    }
    if (first.shape.back() % 3 != 0) {
      return Indivisible(first, first.shape.back(),
                         "queries, keys and values, in three equal parts");
    }
    if (family_.published == PublishedQkv::kFused) {
      return AddOutputs(name, of_ranks, 3, {{fused, 0, all}}, in_place);
    }
    if (family_.published == PublishedQkv::kPerHead) {
      DS_ASSIGN_OR_RETURN(const int64_t heads,
                          Count({"num_attention_heads", "n_head"}, 0));
      if (heads == 0 || all / 3 % heads != 0) {
        return Indivisible(first, all,
                           heads == 0
                               ? "of the heads that config.json says nothing of"
                               : absl::StrCat("of ", heads, " heads"));
      }
      const int64_t width = all / 3 / heads;
      return AddOutputs(name, of_ranks, 3, {{fused, 0, all}}, [&](int64_t at) {
        const int64_t part = at / (all / 3), head = at % (all / 3) / width;
        const int64_t in_head = at % width;
        return std::make_pair((head * 3 + part) * width + in_head,
                              width - in_head);
      });
    }
    // One after another; with fewer heads of keys the writer still deals three
    // equal parts of what it joined.
    DS_ASSIGN_OR_RETURN(const int64_t heads,
                        Count({"num_attention_heads", "n_heads", "n_head"}, 1));
    DS_ASSIGN_OR_RETURN(const int64_t groups,
                        Count({"num_key_value_heads"}, heads));
    if (groups > heads || all % (heads + 2 * groups) != 0) {
      return Indivisible(first, all,
                         absl::StrCat("of ", heads, " heads of queries and ",
                                      groups, " of keys and values"));
    }
    const int64_t keys = all / (heads + 2 * groups) * groups;
    const int64_t queries = all - 2 * keys;
    return AddOutputs(name, of_ranks, 3,
                      {{fused, 0, queries},
                       {Published(name, family_.key), queries, keys},
                       {Published(name, family_.value), queries + keys, keys}},
                      in_place);
  }

  absl::Status AddUp(const InjectedName& name,
                     const std::vector<const TensorInfo*>& of_ranks) {
    const TensorInfo& first = *of_ranks[0];
    const int64_t all =
        first.shape.back() * static_cast<int64_t>(of_ranks.size());
    const auto in_place = [&](int64_t at) { return std::make_pair(at, all); };
    const std::string up = Published(name, family_.up);
    if (family_.gate.empty()) {
      return AddOutputs(name, of_ranks, 1, {{up, 0, all}}, in_place);
    }
    if (first.shape.back() % 2 != 0) {
      return Indivisible(first, first.shape.back(),
                         "a gate and as much beside it");
    }
    return AddOutputs(
        name, of_ranks, 2,
        {{up, 0, all / 2}, {Published(name, family_.gate), all / 2, all / 2}},
        in_place);
  }

  const InjectedFamily& family_;
  const PreshardedFiles& files_;
  CheckpointParts& parts_;
  std::vector<Named> ranks_;
  int64_t width_ = 0;  // of the model; 0: not known
  bool has_layers_ = false;
};

}  // namespace

absl::Status JoinPresharded(const InjectedFamily& family,
                            const PreshardedFiles& files,
                            CheckpointParts* parts) {
  return Joiner(family, files, parts).Run();
}

}  // namespace deepslice
