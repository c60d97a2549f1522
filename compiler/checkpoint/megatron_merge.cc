#include "compiler/checkpoint/megatron_merge.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compiler/checkpoint/stored_elements.h"
#include "compiler/checkpoint/untrusted_text.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// How a tensor is dealt over the ranks that share a layer.
enum class Cut {
  kCopy,     // each has it whole
  kFirst,    // each has its own, and the first counts
  kRows,     // each has some rows
  kColumns,  // each has some columns
  kQkv,      // each has the rows of its heads
  kGateUp,   // each has [gate; up] of its part
};

bool EndsWithAny(absl::string_view name,
                 std::initializer_list<absl::string_view> ends) {
  return std::any_of(ends.begin(), ends.end(), [&](absl::string_view end) {
    return absl::EndsWith(name, end) &&
           (name.size() == end.size() ||
            name[name.size() - end.size() - 1] == '.');
  });
}

Cut CutOf(absl::string_view name) {
  if (EndsWithAny(name, {"_extra_state"})) return Cut::kFirst;
  if (HasVocabRows(name)) return Cut::kRows;
  if (EndsWithAny(name, {"query_key_value.weight", "query_key_value.bias",
                         "linear_qkv.weight", "linear_qkv.bias"})) {
    return Cut::kQkv;
  }
  if (EndsWithAny(name, {"dense_h_to_4h.weight", "dense_h_to_4h.bias",
                         "linear_fc1.weight", "linear_fc1.bias"})) {
    return Cut::kGateUp;
  }
  if (EndsWithAny(name, {"attention.dense.weight",
                         "self_attention.dense.weight", "dense_4h_to_h.weight",
                         "linear_proj.weight", "linear_fc2.weight"})) {
    return Cut::kColumns;
  }
  return Cut::kCopy;
}

// A name of a layer's tensor around its number.
struct LayerName {
  std::string before;
  int64_t layer = 0;
  std::string after;
};

absl::optional<LayerName> ParseLayer(const std::string& name) {
  constexpr absl::string_view kKey = "layers.";
  size_t at = absl::StartsWith(name, kKey) ? 0 : name.find(".layers.");
  if (at == std::string::npos) return absl::nullopt;
  at += (at == 0 && absl::StartsWith(name, kKey) ? 0 : 1) + kKey.size();
  const size_t end = name.find('.', at);
  LayerName out;
  if (end == std::string::npos || end == at || end - at > 9 ||
      !absl::SimpleAtoi(name.substr(at, end - at), &out.layer) ||
      out.layer < 0 || out.layer >= limits::kLayers) {
    return absl::nullopt;
  }
  out.before = name.substr(0, at);
  out.after = name.substr(end);
  return out;
}

std::string Dims(const TensorInfo& t) {
  return absl::StrCat("[", absl::StrJoin(t.shape, ", "), "]");
}

class Merger {
 public:
  Merger(const MegatronFiles& files, const std::vector<MegatronShard>& shards,
         const MegatronShape& shape, const std::vector<SourceBytes>& sources)
      : files_(files), shards_(shards), shape_(shape), sources_(sources) {}

  absl::StatusOr<std::vector<TensorInfo>> Run() {
    const size_t chunks = shards_[0].chunks.size();
    for (const MegatronShard& s : shards_) {
      if (s.chunks.size() == chunks) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          s.path, ": has ", s.chunks.size(), " parts of a virtual pipeline, ",
          shards_[0].path, " has ", chunks, "; all ranks must have as many"));
    }
    // The layers of a virtual pipeline go round: part 0 of every stage first.
    for (size_t chunk = 0; chunk < chunks; ++chunk) {
      for (int stage = 0; stage < files_.stages; ++stage) {
        DS_RETURN_IF_ERROR(AddStage(stage, chunk));
      }
    }
    std::vector<TensorInfo> out;
    for (Whole& w : wholes_) out.push_back(std::move(w.merged));
    return out;
  }

 private:
  // A tensor, and what the ranks hold of it.
  struct Whole {
    TensorInfo merged;
    std::vector<TensorInfo> of_ranks;
  };

  const std::string& PathOf(const TensorInfo& t) const {
    return sources_[t.file].path;
  }

  absl::Status AddStage(int stage, size_t chunk) {
    const auto& first = Chunk(stage, 0, chunk);
    std::vector<absl::flat_hash_map<std::string, const TensorInfo*>> others;
    for (int rank = 1; rank < files_.tensor_ranks; ++rank) {
      others.emplace_back();
      for (const TensorInfo& t : Chunk(stage, rank, chunk)) {
        others.back()[t.name] = &t;
      }
    }
    int64_t layers = 0;
    for (const TensorInfo& t : first) {
      std::vector<TensorInfo> of_ranks = {t};
      for (auto& other : others) {
        const auto it = other.find(t.name);
        const int rank = static_cast<int>(of_ranks.size());
        if (it == other.end()) return Missing(t, stage, rank);
        of_ranks.push_back(*it->second);
        other.erase(it);
      }
      std::string name = t.name;
      if (const auto layer = ParseLayer(name); layer.has_value()) {
        layers = std::max(layers, layer->layer + 1);
        name = absl::StrCat(layer->before, next_layer_ + layer->layer,
                            layer->after);
      }
      DS_RETURN_IF_ERROR(Add(std::move(name), std::move(of_ranks)));
    }
    for (const auto& other : others) {
      if (other.empty()) continue;
      // The first by name: the map has no order.
      const TensorInfo* extra = nullptr;
      for (const auto& [name, t] : other) {
        if (extra == nullptr || name < extra->name) extra = t;
      }
      return Missing(*extra, stage, 0);
    }
    next_layer_ += layers;
    return absl::OkStatus();
  }

  const std::vector<TensorInfo>& Chunk(int stage, int rank,
                                       size_t chunk) const {
    return shards_[stage * files_.tensor_ranks + rank].chunks[chunk];
  }

  absl::Status Missing(const TensorInfo& t, int stage, int rank) const {
    return absl::InvalidArgumentError(
        absl::StrCat(files_.path(stage, rank), ": tensor ", Quoted(t.name),
                     ": is not there, but in ", PathOf(t),
                     "; the files are of different models, copy them again"));
  }

  absl::Status Add(std::string name, std::vector<TensorInfo> of_ranks) {
    // Of the last stage, whose head it is.
    constexpr absl::string_view kCopy = "word_embeddings_for_head.weight";
    if (EndsWithAny(name, {kCopy})) {
      for (const Whole& w : wholes_) {
        if (EndsWithAny(w.merged.name, {"word_embeddings.weight"})) {
          return CheckCopies(w.of_ranks, of_ranks);
        }
      }
      return absl::InvalidArgumentError(
          absl::StrCat(PathOf(of_ranks[0]), ": tensor ", Quoted(name),
                       ": is a copy of an embedding that no stage has"));
    }
    const auto it = by_name_.find(name);
    if (it != by_name_.end()) {
      return CheckCopies(wholes_[it->second].of_ranks, of_ranks);
    }
    if (wholes_.size() == static_cast<size_t>(limits::kTensorsPerCheckpoint)) {
      return absl::ResourceExhaustedError(
          absl::StrCat(files_.where, ": more than ",
                       limits::kTensorsPerCheckpoint, " tensors"));
    }
    Whole whole;
    whole.of_ranks = std::move(of_ranks);
    DS_RETURN_IF_ERROR(Merge(whole.of_ranks, &whole.merged));
    if (whole.merged.name != name) {
      whole.merged.stored_name = whole.merged.name;
    }
    whole.merged.name = name;
    by_name_[std::move(name)] = wholes_.size();
    wholes_.push_back(std::move(whole));
    return absl::OkStatus();
  }

  // A tensor that two stages have.
  absl::Status CheckCopies(const std::vector<TensorInfo>& first,
                           const std::vector<TensorInfo>& again) const {
    for (size_t i = 0; i < first.size(); ++i) {
      DS_RETURN_IF_ERROR(CheckEqual(first[i], again[i]));
    }
    return absl::OkStatus();
  }

  absl::Status CheckEqual(const TensorInfo& a, const TensorInfo& b) const {
    if (a.shape != b.shape || a.dtype != b.dtype) {
      return absl::InvalidArgumentError(absl::StrCat(
          PathOf(b), ": tensor ", Quoted(b.name), ": is ", Dims(b), " of ",
          DTypeName(b.dtype), ", in ", PathOf(a), " ", Dims(a), " of ",
          DTypeName(a.dtype), "; all ranks must hold the same"));
    }
    if (!a.unreadable.empty() || !b.unreadable.empty()) return absl::OkStatus();
    std::string room_a, room_b;
    if (StoredElements(sources_, a, &room_a) ==
        StoredElements(sources_, b, &room_b)) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrCat(PathOf(b), ": tensor ", Quoted(b.name),
                     ": differs from that in ", PathOf(a),
                     "; all ranks must hold the same: the files are of "
                     "different runs or damaged"));
  }

  absl::Status Merge(const std::vector<TensorInfo>& of_ranks,
                     TensorInfo* out) const {
    const TensorInfo& first = of_ranks[0];
    *out = first;
    const Cut cut = !shape_.cut_experts &&
                            absl::StrContains(first.name, ".deepspeed_moe.")
                        ? Cut::kCopy
                        : CutOf(first.name);
    if (cut == Cut::kFirst) return absl::OkStatus();
    if (cut == Cut::kQkv) DS_RETURN_IF_ERROR(CheckHeads(first));
    if (cut == Cut::kGateUp && shape_.gated && first.rows() % 2 != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(PathOf(first), ": tensor ", Quoted(first.name), ": has ",
                       first.rows(),
                       " rows; must be a gate and as much "
                       "beside it"));
    }
    for (size_t i = 1; i < of_ranks.size(); ++i) {
      const TensorInfo& t = of_ranks[i];
      if (cut == Cut::kCopy) {
        DS_RETURN_IF_ERROR(CheckEqual(first, t));
        continue;
      }
      if (t.shape != first.shape || t.dtype != first.dtype) {
        return absl::InvalidArgumentError(absl::StrCat(
            PathOf(t), ": tensor ", Quoted(t.name), ": is ", Dims(t), " of ",
            DTypeName(t.dtype), ", in ", PathOf(first), " ", Dims(first),
            " of ", DTypeName(first.dtype),
            "; parts of one tensor are alike: the ranks are of different "
            "checkpoints"));
      }
      if (!t.unreadable.empty()) out->unreadable = t.unreadable;
    }
    if (cut == Cut::kCopy || of_ranks.size() == 1) return absl::OkStatus();
    const size_t dim = cut == Cut::kColumns ? 1 : 0;
    if (first.shape.size() > 2 || first.shape.size() <= dim) {
      return absl::InvalidArgumentError(absl::StrCat(
          PathOf(first), ": tensor ", Quoted(first.name), ": is ", Dims(first),
          "; must be a ", dim == 1 ? "matrix" : "matrix or a vector"));
    }
    const int64_t ranks = static_cast<int64_t>(of_ranks.size());
    out->shape[dim] *= ranks;
    if (out->num_elements() > limits::kTensorBytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat(PathOf(first), ": tensor ", Quoted(first.name), ": of ",
                       ranks, " ranks is ", Dims(*out), ", too large"));
    }
    out->strides.clear();
    out->parts.clear();
    out->offset = 0;
    if (!out->unreadable.empty()) return absl::OkStatus();
    out->bytes = out->num_elements() * DTypeSize(out->dtype);
    for (size_t i = 0; i < of_ranks.size(); ++i) {
      AddParts(cut, of_ranks[i], i, ranks, out);
    }
    return absl::OkStatus();
  }

  // The parts of a rank: one, or one of each tensor that lies in it.
  void AddParts(Cut cut, const TensorInfo& t, int64_t rank, int64_t ranks,
                TensorInfo* out) const {
    std::vector<int64_t> blocks = {t.rows()};  // rows of each tensor in it
    if (cut == Cut::kGateUp && shape_.gated) {
      blocks = {t.rows() / 2, t.rows() / 2};
    } else if (cut == Cut::kQkv && shape_.thirds) {
      // Without the numbers of heads all three are alike.
      const int64_t heads = std::max<int64_t>(1, shape_.heads);
      const int64_t groups = std::max<int64_t>(1, shape_.groups);
      const int64_t sum = heads + 2 * groups;
      const int64_t keys = t.rows() * groups / sum;
      blocks = {t.rows() - 2 * keys, keys, keys};
    }
    const int64_t column = cut == Cut::kColumns ? rank * t.row_elements() : 0;
    int64_t begin = 0;  // of the block, in the rank's tensor
    for (const int64_t rows : blocks) {
      const int64_t row =
          cut == Cut::kColumns ? begin : begin * ranks + rank * rows;
      AddSlab(t, 0, begin, rows, row, column, out);
      begin += rows;
    }
  }

  // The rows of a rank's heads.
  absl::Status CheckHeads(const TensorInfo& t) const {
    const int64_t ranks = files_.tensor_ranks;
    const auto refuse = [&](const std::string& why) {
      return absl::InvalidArgumentError(
          absl::StrCat(PathOf(t), ": tensor ", Quoted(t.name), ": ", why));
    };
    if (shape_.heads == 0) {
      return shape_.thirds && t.rows() % 3 != 0
                 ? refuse(absl::StrCat("has ", t.rows(),
                                       " rows; must be queries, keys and "
                                       "values in equal parts"))
                 : absl::OkStatus();
    }
    if (shape_.heads % ranks != 0 || shape_.groups % ranks != 0) {
      return refuse(absl::StrCat(
          shape_.heads, " heads in ", shape_.groups, " groups over ", ranks,
          " ranks; both must be multiples of the ranks: the arguments are of "
          "another checkpoint"));
    }
    const int64_t want =
        (shape_.heads + 2 * shape_.groups) / ranks * shape_.head_dim;
    if (t.rows() == want) return absl::OkStatus();
    return refuse(absl::StrFormat(
        "has %d rows; the arguments make it %d: %d heads in %d groups of width "
        "%d over %d ranks",
        t.rows(), want, shape_.heads, shape_.groups, shape_.head_dim, ranks));
  }

  const MegatronFiles& files_;
  const std::vector<MegatronShard>& shards_;
  const MegatronShape& shape_;
  const std::vector<SourceBytes>& sources_;
  int64_t next_layer_ = 0;
  std::vector<Whole> wholes_;
  absl::flat_hash_map<std::string, size_t> by_name_;
};

}  // namespace

bool HasVocabRows(absl::string_view name) {
  return EndsWithAny(name,
                     {"word_embeddings.weight", "output_layer.weight",
                      "output_layer.bias", "word_embeddings_for_head.weight"});
}

void CutRows(int64_t rows, TensorInfo* t) {
  t->shape[0] = rows;
  const int64_t size = DTypeSize(t->dtype);
  if (t->parts.empty() && !t->strides.empty()) {
    int64_t last = 0;
    for (size_t i = 0; i < t->shape.size(); ++i) {
      last += (t->shape[i] - 1) * t->strides[i];
    }
    t->bytes = t->num_elements() == 0 ? 0 : (last + 1) * size;
    return;
  }
  t->bytes = t->num_elements() * size;
  std::vector<TensorPart> kept;
  for (TensorPart part : t->parts) {
    part.rows = std::min(part.rows, rows - part.row);
    if (part.rows > 0) kept.push_back(part);
  }
  t->parts = std::move(kept);
}

absl::StatusOr<std::vector<TensorInfo>> MergeMegatron(
    const MegatronFiles& files, const std::vector<MegatronShard>& shards,
    const MegatronShape& shape, const std::vector<SourceBytes>& sources) {
  return Merger(files, shards, shape, sources).Run();
}

}  // namespace deepslice
