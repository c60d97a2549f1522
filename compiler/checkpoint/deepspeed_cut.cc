#include "compiler/checkpoint/deepspeed_cut.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "compiler/checkpoint/matrix_view.h"
#include "compiler/checkpoint/megatron_merge.h"
#include "compiler/checkpoint/stored_elements.h"
#include "compiler/checkpoint/untrusted_text.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

using pickle::Kind;
using pickle::Value;

constexpr size_t kMostRanks = 65'536;
// Values looked at in all: one may be there under many names.
constexpr int64_t kMostValues = 4'000'000;

bool IsList(const Value& v) {
  return v.kind() == Kind::kList || v.kind() == Kind::kTuple;
}

// The name that a pattern like ^a\.b$ matches, false for any other.
bool NameOfPattern(absl::string_view pattern, std::string* name) {
  if (!absl::ConsumePrefix(&pattern, "^") ||
      !absl::ConsumeSuffix(&pattern, "$")) {
    return false;
  }
  name->clear();
  for (size_t i = 0; i < pattern.size(); ++i) {
    char c = pattern[i];
    if (c == '\\') {
      // A letter or digit behind it would be a class.
      if (++i == pattern.size() || absl::ascii_isalnum(pattern[i])) {
        return false;
      }
      c = pattern[i];
    } else if (!absl::ascii_isalnum(c) && c != '_' && c != '/' && c != '-' &&
               c != ':') {
      return false;
    }
    name->push_back(c);
  }
  return true;
}

class Reader {
 public:
  RankCuts Read(const Value& info) {
    const Value* dict = info.AsDict();
    if (dict == nullptr) {
      Bad("is ", info);
      return std::move(out_);
    }
    // The later count more.
    List(*dict, "tp_replicated_parameter_patterns", {RankCut::kCopy});
    List(*dict, "parameter_to_average_patterns", {RankCut::kCopy});
    List(*dict, "parameter_with_row_parallelism_patterns", {RankCut::kColumns});
    List(*dict, "vocabulary_parameter_patterns", {RankCut::kVocab});
    RankCut halves{RankCut::kBlocks};
    halves.blocks = 2;
    List(*dict, "parameter_with_2_sub_params_cat_dim_0", halves);
    Blocks(*dict);
    Refused(*dict);
    Scaled(*dict);
    const Value* vocab = dict->Find("original_vocab_size");
    if (vocab != nullptr && vocab->is_int()) out_.vocab = vocab->as_int();
    return std::move(out_);
  }

 private:
  void Bad(absl::string_view what, const Value& v) {
    if (out_.bad.empty()) out_.bad = absl::StrCat(what, v.Describe());
  }

  bool Name(absl::string_view key, const Value& pattern, std::string* name) {
    if (pattern.is_text() && NameOfPattern(pattern.bytes(), name)) return true;
    Bad(absl::StrCat(key, ": no pattern of one name: "), pattern);
    return false;
  }

  void List(const Value& info, absl::string_view key, const RankCut& cut) {
    const Value* list = info.Find(key);
    if (list == nullptr || list->is_none()) return;
    if (!IsList(*list)) return Bad(absl::StrCat(key, ": is "), *list);
    std::string name;
    for (const Value* pattern : list->items()) {
      if (!Name(key, *pattern, &name)) return;
      out_.by_name[name] = cut;
    }
  }

  // Widths by rank of each block: [[2, 1], [2, 1]].
  bool Widths(const Value& v, std::vector<std::vector<int64_t>>* out) {
    if (!IsList(v) || v.items().size() > kMostRanks) return false;
    for (const Value* block : v.items()) {
      if (!IsList(*block) || block->items().size() > kMostRanks) return false;
      out->emplace_back();
      for (const Value* width : block->items()) {
        if (++values_ > kMostValues) return false;
        if (!width->is_int() || width->as_int() < 0 ||
            width->as_int() > limits::kTensorBytes) {
          return false;
        }
        out->back().push_back(width->as_int());
      }
    }
    return true;
  }

  // Tensors that hold several: {patterns, shape, partition_dim}, where the
  // shape has their number at that dim, or the width of each.
  void Blocks(const Value& info) {
    constexpr absl::string_view kKey = "parameter_with_sub_params";
    const Value* list = info.Find(kKey);
    if (list == nullptr || list->is_none()) return;
    if (!IsList(*list)) return Bad(absl::StrCat(kKey, ": is "), *list);
    absl::flat_hash_map<absl::string_view, const Value*> widths;
    if (const Value* dict = info.Find("sub_param_shard_widths");
        dict != nullptr && dict->is_dict()) {
      for (size_t i = 0; i + 1 < dict->items().size(); i += 2) {
        const Value& pattern = *dict->items()[i];
        if (pattern.is_text()) widths[pattern.bytes()] = dict->items()[i + 1];
      }
    }
    for (const Value* item : list->items()) {
      values_ += item->items().size();
      if (!item->is_dict() || values_ > kMostValues) {
        return Bad(absl::StrCat(kKey, ": holds "), *item);
      }
      const Value* patterns = item->Find("patterns");
      const Value* shape = item->Find("shape");
      const Value* dim = item->Find("partition_dim");
      if (patterns == nullptr || !IsList(*patterns) || shape == nullptr ||
          !IsList(*shape) || dim == nullptr || !dim->is_int() ||
          dim->as_int() < 0 || dim->as_int() > 1 ||
          dim->as_int() >= static_cast<int64_t>(shape->items().size())) {
        return Bad(absl::StrCat(kKey, ": holds "), *item);
      }
      RankCut cut{RankCut::kBlocks};
      cut.dim = static_cast<int>(dim->as_int());
      const Value& sizes = *shape->items()[cut.dim];
      const int64_t count = sizes.is_int() ? sizes.as_int()
                            : IsList(sizes)
                                ? static_cast<int64_t>(sizes.items().size())
                                : 0;
      if (count < 1 || count > limits::kTensorRank * 8) {
        return Bad(absl::StrCat(kKey, ": holds "), *item);
      }
      std::string name;
      for (const Value* pattern : patterns->items()) {
        if (++values_ > kMostValues) return Bad("holds too much: ", info);
        if (!Name(kKey, *pattern, &name)) return;
        cut.blocks = count;
        cut.widths.clear();
        const auto found = widths.find(pattern->bytes());
        const Value* own = found == widths.end() ? nullptr : found->second;
        if (own != nullptr && !Widths(*own, &cut.widths)) {
          return Bad("sub_param_shard_widths: holds ", *own);
        }
        if (own == nullptr && !sizes.is_int()) {
          // Blocks of different sizes, each cut evenly: known with the ranks.
          for (const Value* size : sizes.items()) {
            if (!size->is_int() || size->as_int() < 0) {
              return Bad(absl::StrCat(kKey, ": holds "), *item);
            }
            cut.widths.push_back({size->as_int()});
          }
          cut.blocks = 0;
        }
        out_.by_name[name] = cut;
      }
    }
  }

  void Refused(const Value& info) {
    constexpr absl::string_view kKey = "autotp_unsupported_parameter_patterns";
    const Value* dict = info.Find(kKey);
    if (dict == nullptr || dict->is_none()) return;
    if (!dict->is_dict()) return Bad(absl::StrCat(kKey, ": is "), *dict);
    std::string name;
    for (size_t i = 0; i + 1 < dict->items().size(); i += 2) {
      if (!Name(kKey, *dict->items()[i], &name)) return;
      RankCut cut{RankCut::kRefused};
      cut.why = absl::StrCat("DeepSpeed tells no way to join it: ",
                             dict->items()[i + 1]->Describe());
      out_.by_name[name] = cut;
    }
  }

  // Parts that are multiples of the tensor's.
  void Scaled(const Value& info) {
    const Value* map = info.Find("affine_map");
    const Value* params = map == nullptr ? nullptr : map->Find("params");
    if (params == nullptr || !params->is_dict()) return;
    std::string name;
    for (size_t i = 0; i + 1 < params->items().size(); i += 2) {
      const bool scaled = HasScale(*params->items()[i + 1]);
      if (values_ > kMostValues)
        return Bad("affine_map: holds too much: ", *map);
      if (!scaled) continue;
      if (!Name("affine_map", *params->items()[i], &name)) return;
      RankCut cut{RankCut::kRefused};
      cut.why = "the ranks hold multiples of it";
      out_.by_name[name] = cut;
    }
  }

  bool HasScale(const Value& param) {
    values_ += param.items().size();
    const Value* ranks = param.Find("ranks");
    if (ranks == nullptr || !ranks->is_dict()) return false;
    for (size_t i = 1; i < ranks->items().size(); i += 2) {
      values_ += ranks->items()[i]->items().size();
      const Value* pieces = ranks->items()[i]->Find("pieces");
      if (pieces == nullptr || !IsList(*pieces)) continue;
      for (const Value* piece : pieces->items()) {
        values_ += piece->items().size();
        if (values_ > kMostValues) return false;
        const Value* scale = piece->Find("scale");
        if (scale == nullptr || scale->is_none()) continue;
        const bool one = scale->is_int() ? scale->as_int() == 1
                                         : scale->kind() == Kind::kFloat &&
                                               scale->as_float() == 1;
        if (!one) return true;
      }
    }
    return false;
  }

  int64_t values_ = 0;
  RankCuts out_;
};

class Merger {
 public:
  Merger(const std::vector<const MegatronShard*>& ranks, const RankCuts& cuts,
         const std::vector<SourceBytes>& sources)
      : ranks_(ranks), cuts_(cuts), sources_(sources) {}

  absl::StatusOr<std::vector<TensorInfo>> Run() {
    if (!cuts_.bad.empty()) {
      return absl::UnimplementedError(absl::StrCat(
          ranks_[0]->path, ": universal_checkpoint_info: ", cuts_.bad,
          "; save the whole model (save_16bit_model)"));
    }
    std::vector<absl::flat_hash_map<absl::string_view, const TensorInfo*>> all;
    for (const MegatronShard* rank : ranks_) {
      all.emplace_back();
      for (const TensorInfo& t : rank->chunks[0]) all.back()[t.name] = &t;
    }
    for (size_t r = 1; r < ranks_.size(); ++r) {
      for (const TensorInfo& t : ranks_[r]->chunks[0]) {
        if (!all[0].contains(t.name)) return Missing(t.name, 0, r);
      }
    }
    std::vector<TensorInfo> out;
    for (const TensorInfo& t : ranks_[0]->chunks[0]) {
      std::vector<const TensorInfo*> of_ranks;
      for (size_t r = 0; r < all.size(); ++r) {
        const auto it = all[r].find(t.name);
        if (it == all[r].end()) return Missing(t.name, r, 0);
        of_ranks.push_back(it->second);
      }
      DS_ASSIGN_OR_RETURN(TensorInfo whole, Merge(of_ranks));
      out.push_back(std::move(whole));
    }
    return out;
  }

 private:
  absl::Status Missing(absl::string_view name, size_t rank,
                       size_t other) const {
    return absl::InvalidArgumentError(
        absl::StrCat(ranks_[rank]->path, ": tensor ", Quoted(name),
                     ": is not there, but in ", ranks_[other]->path,
                     "; the files are of different models, copy them again"));
  }

  absl::Status Refuse(size_t rank, const TensorInfo& t,
                      const std::string& why) const {
    return absl::InvalidArgumentError(
        absl::StrCat(ranks_[rank]->path, ": tensor ", Quoted(t.name), ": is ",
                     DimsText(t.shape), " of ", DTypeName(t.dtype), ", ", why,
                     "; the ranks are of different checkpoints, copy them "
                     "again"));
  }

  absl::StatusOr<TensorInfo> Merge(
      const std::vector<const TensorInfo*>& of_ranks) const {
    const TensorInfo& first = *of_ranks[0];
    const auto it = cuts_.by_name.find(first.name);
    RankCut cut;
    if (it != cuts_.by_name.end()) {
      cut = it->second;
    } else {
      cut.kind = RankCut::kBlocks;
    }
    if (cut.kind == RankCut::kRefused) {
      return absl::UnimplementedError(
          absl::StrCat(ranks_[0]->path, ": tensor ", Quoted(first.name), ": ",
                       cut.why, "; save the whole model (save_16bit_model)"));
    }
    if (cut.kind == RankCut::kCopy) {
      for (size_t r = 1; r < of_ranks.size(); ++r) {
        DS_RETURN_IF_ERROR(CheckCopy(r, first, *of_ranks[r]));
      }
      return first;
    }
    if (cut.kind == RankCut::kColumns) cut.dim = 1;
    DS_RETURN_IF_ERROR(CheckParts(cut.dim, of_ranks));
    return Join(cut, of_ranks);
  }

  absl::Status CheckCopy(size_t rank, const TensorInfo& a,
                         const TensorInfo& b) const {
    if (a.shape != b.shape || a.dtype != b.dtype) {
      return Refuse(rank, b,
                    absl::StrCat("in ", ranks_[0]->path, " ", DimsText(a.shape),
                                 " of ", DTypeName(a.dtype),
                                 ", although all ranks have it whole"));
    }
    if (!a.unreadable.empty() || !b.unreadable.empty()) return absl::OkStatus();
    std::string room_a, room_b;
    if (StoredElements(sources_, a, &room_a) ==
        StoredElements(sources_, b, &room_b)) {
      return absl::OkStatus();
    }
    return Refuse(rank, b,
                  absl::StrCat("and differs from that in ", ranks_[0]->path,
                               ", although all ranks have it whole"));
  }

  // Parts are alike in all but the dim that is cut.
  absl::Status CheckParts(
      int dim, const std::vector<const TensorInfo*>& of_ranks) const {
    const TensorInfo& first = *of_ranks[0];
    const size_t dims = first.shape.size();
    for (size_t r = 0; r < of_ranks.size(); ++r) {
      const TensorInfo& t = *of_ranks[r];
      if (dims <= static_cast<size_t>(dim) || dims > 2) {
        return Refuse(r, t,
                      dim == 1 ? "which must be a matrix"
                               : "which must be a matrix or a vector");
      }
      std::vector<int64_t> want = first.shape;
      if (t.shape.size() == dims) want[dim] = t.shape[dim];
      if (t.shape != want || t.dtype != first.dtype) {
        return Refuse(
            r, t,
            absl::StrCat("in ", ranks_[0]->path, " ", DimsText(first.shape),
                         " of ", DTypeName(first.dtype),
                         ", and both are parts of one tensor"));
      }
    }
    return absl::OkStatus();
  }

  // The widths of each block by rank.
  absl::StatusOr<std::vector<std::vector<int64_t>>> WidthsOf(
      const RankCut& cut,
      const std::vector<const TensorInfo*>& of_ranks) const {
    const size_t ranks = of_ranks.size();
    std::vector<std::vector<int64_t>> widths = cut.widths;
    if (cut.blocks == 0) {
      for (auto& block : widths) {
        const int64_t size = block[0];
        block.assign(ranks, size / static_cast<int64_t>(ranks));
      }
    } else if (widths.empty()) {
      widths.resize(cut.blocks);
      for (auto& block : widths) {
        for (const TensorInfo* t : of_ranks) {
          block.push_back(t->shape[cut.dim] / cut.blocks);
        }
      }
    }
    for (size_t r = 0; r < ranks; ++r) {
      int64_t sum = 0;
      for (const auto& block : widths) {
        if (block.size() != ranks) {
          return Refuse(r, *of_ranks[r],
                        absl::StrCat("cut over ", block.size(),
                                     " ranks by universal_checkpoint_info, "
                                     "but ",
                                     ranks, " are there"));
        }
        sum += block[r];
      }
      if (sum != of_ranks[r]->shape[cut.dim]) {
        return Refuse(r, *of_ranks[r],
                      absl::StrCat("but universal_checkpoint_info makes it ",
                                   sum, " along dim ", cut.dim));
      }
    }
    return widths;
  }

  absl::StatusOr<TensorInfo> Join(
      const RankCut& cut,
      const std::vector<const TensorInfo*>& of_ranks) const {
    const TensorInfo& first = *of_ranks[0];
    DS_ASSIGN_OR_RETURN(const auto widths, WidthsOf(cut, of_ranks));
    std::vector<int64_t> shape = first.shape;
    shape[cut.dim] = 0;
    for (const TensorInfo* t : of_ranks) shape[cut.dim] += t->shape[cut.dim];
    TensorInfo out = WholeOf(first, first.name, shape);
    if (out.stored_name == out.name) out.stored_name.clear();
    if (out.num_elements() > limits::kTensorBytes) {
      return Refuse(0, first, "which makes too large a tensor");
    }
    for (const TensorInfo* t : of_ranks) {
      if (!t->unreadable.empty()) out.unreadable = t->unreadable;
    }
    if (!out.unreadable.empty()) return out;
    std::vector<int64_t> begins(of_ranks.size(), 0);
    int64_t to = 0;
    for (const auto& block : widths) {
      for (size_t r = 0; r < of_ranks.size(); ++r) {
        AddSlab(*of_ranks[r], cut.dim, begins[r], block[r],
                cut.dim == 0 ? to : 0, cut.dim == 0 ? 0 : to, &out);
        begins[r] += block[r];
        to += block[r];
      }
    }
    if (cut.kind == RankCut::kVocab && cuts_.vocab > 0 &&
        cuts_.vocab < out.rows()) {
      CutRows(cuts_.vocab, &out);
    }
    return out;
  }

  const std::vector<const MegatronShard*>& ranks_;
  const RankCuts& cuts_;
  const std::vector<SourceBytes>& sources_;
};

}  // namespace

RankCuts ReadRankCuts(const Value& info) { return Reader().Read(info); }

absl::StatusOr<std::vector<TensorInfo>> MergeRanks(
    const std::vector<const MegatronShard*>& ranks, const RankCuts& cuts,
    const std::vector<SourceBytes>& sources) {
  return Merger(ranks, cuts, sources).Run();
}

}  // namespace deepslice
