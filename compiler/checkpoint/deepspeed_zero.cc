#include "compiler/checkpoint/deepspeed_zero.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compiler/checkpoint/untrusted_text.h"
#include "schema/base/checked_math.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

std::string Dims(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

// Vectors one after the other, read from front to back as one.
class FlatRun {
 public:
  void Add(const TensorInfo& flat) {
    flats_.push_back(&flat);
    size_ += flat.num_elements();
  }
  int64_t size() const { return size_; }
  int64_t left() const { return size_ - taken_; }

  // Makes the next `count` elements, as many of which are left, those of `t`
  // from `at` on, or skips them when there is none. False when they are of
  // another type.
  bool Take(int64_t count, int64_t at, TensorInfo* t) {
    taken_ += count;
    while (count > 0) {
      const TensorInfo& flat = *flats_[next_];
      const int64_t part = std::min(count, flat.num_elements() - begin_);
      if (part > 0 && t != nullptr) {
        if (flat.dtype != t->dtype) return false;
        AddFlatSlice(flat, begin_, at, part, t);
      }
      at += part;
      count -= part;
      begin_ += part;
      if (begin_ == flat.num_elements()) {
        ++next_;
        begin_ = 0;
      }
    }
    return true;
  }
  // The type of what comes next.
  DType dtype() const {
    size_t i = next_;
    while (i < flats_.size() && flats_[i]->num_elements() == 0) ++i;
    return i < flats_.size() ? flats_[i]->dtype : DType::kF32;
  }

 private:
  std::vector<const TensorInfo*> flats_;
  size_t next_ = 0;
  int64_t begin_ = 0;  // in the next
  int64_t size_ = 0, taken_ = 0;
};

class Joiner {
 public:
  Joiner(const std::vector<DeepSpeedShard>& states,
         const std::vector<ZeroShard>& optims)
      : states_(states), optims_(optims), stage_(optims[0].stage) {}

  absl::StatusOr<std::vector<TensorInfo>> Run() {
    DS_RETURN_IF_ERROR(CheckAlike());
    DS_RETURN_IF_ERROR(stage_ == 3 ? JoinStage3() : JoinStage2());
    DS_RETURN_IF_ERROR(AddFrozen());
    if (!states_.empty()) {
      AddShared();
      AddModule();
    }
    return std::move(out_);
  }

 private:
  const ParamShapes& Shapes() const {
    return !states_.empty() && !states_[0].param_shapes.empty()
               ? states_[0].param_shapes
               : optims_[0].param_shapes;
  }
  int64_t ranks() const { return static_cast<int64_t>(optims_.size()); }

  // The ranks are parts of one run, and tell the shapes.
  absl::Status CheckAlike() const {
    for (const ZeroShard& o : optims_) {
      const auto differs = [&](absl::string_view what, int64_t a, int64_t b) {
        return absl::InvalidArgumentError(absl::StrCat(
            o.path, ": ", what, " ", b, ", but in ", optims_[0].path, " ", a,
            "; the ranks are of different runs, copy them again"));
      };
      if (o.stage != stage_) return differs("is of ZeRO", stage_, o.stage);
      if (o.groups.size() != optims_[0].groups.size()) {
        return differs("groups of parameters:", optims_[0].groups.size(),
                       o.groups.size());
      }
      if (o.gaps != optims_[0].gaps) {
        return absl::InvalidArgumentError(absl::StrCat(
            o.path, ": param_alignment_paddings: differ from those in ",
            optims_[0].path,
            "; the ranks are of different runs, copy them again"));
      }
      if (o.partitions != 0 && o.partitions != ranks()) {
        return absl::InvalidArgumentError(absl::StrCat(
            o.path, ": partition_count: is ", o.partitions,
            ", but the files of ", ranks(), ranks() == 1 ? " rank" : " ranks",
            " are there; give those of all ranks and no others"));
      }
    }
    for (const DeepSpeedShard& s : states_) {
      DS_RETURN_IF_ERROR(CheckShapes(s));
    }
    if (!Shapes().empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        states_.empty() ? optims_[0].path : states_[0].state.path,
        ": holds no param_shapes; without the names and shapes of the tensors "
        "the partitions of optim_states can't be told apart: give the files of "
        "model_states that were saved with them"));
  }

  absl::Status CheckShapes(const DeepSpeedShard& s) const {
    const DeepSpeedShard& first = states_[0];
    if (s.param_shapes.size() != first.param_shapes.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          s.state.path, ": param_shapes: has ", s.param_shapes.size(),
          " groups, in ", first.state.path, " ", first.param_shapes.size(),
          "; the ranks are of different runs, copy them again"));
    }
    for (size_t g = 0; g < first.param_shapes.size(); ++g) {
      DS_RETURN_IF_ERROR(CheckSame("param_shapes", first, s,
                                   first.param_shapes[g], s.param_shapes[g]));
    }
    return CheckSame("frozen_param_shapes", first, s, first.frozen_shapes,
                     s.frozen_shapes);
  }

  static absl::Status CheckSame(absl::string_view key, const DeepSpeedShard& a,
                                const DeepSpeedShard& b,
                                const std::vector<NamedShape>& first,
                                const std::vector<NamedShape>& second) {
    const auto at = [](const std::vector<NamedShape>& v, size_t i) {
      return i < v.size()
                 ? absl::StrCat(Quoted(v[i].name), " of ", Dims(v[i].shape))
                 : std::string("no more");
    };
    for (size_t i = 0; i < std::max(first.size(), second.size()); ++i) {
      if (i < first.size() && i < second.size() && first[i] == second[i]) {
        continue;
      }
      return absl::InvalidArgumentError(
          absl::StrCat(b.state.path, ": ", key, ": tensor ", i, ": is ",
                       at(second, i), ", in ", a.state.path, " ", at(first, i),
                       "; the ranks are of different runs, copy them again"));
    }
    return absl::OkStatus();
  }

  // A tensor of that shape without elements yet.
  absl::StatusOr<TensorInfo> New(const NamedShape& named) {
    if (static_cast<int64_t>(out_.size()) == limits::kTensorsPerCheckpoint) {
      return absl::ResourceExhaustedError(absl::StrCat(
          Where(), ": more than ", limits::kTensorsPerCheckpoint, " tensors"));
    }
    int64_t count = 1;
    for (const int64_t dim : named.shape) {
      if (!CheckedMul(count, dim, &count) || count > limits::kTensorBytes) {
        return absl::ResourceExhaustedError(
            absl::StrCat(Where(), ": tensor ", Quoted(named.name), ": is ",
                         Dims(named.shape), ", too large"));
      }
    }
    if (!names_.insert(named.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(Where(), ": tensor ", Quoted(named.name),
                       ": is there twice; names must be unique"));
    }
    TensorInfo t;
    t.name = named.name;
    t.shape = named.shape;
    t.file = optims_[0].groups.empty() ? 0 : optims_[0].groups[0].file;
    t.dtype = DType::kF32;
    return t;
  }

  std::string Where() const {
    return absl::StrCat(
        states_.empty() ? optims_[0].path : states_[0].state.path,
        ": param_shapes");
  }

  absl::Status Mixed(const TensorInfo& t) const {
    return absl::InvalidArgumentError(absl::StrCat(
        Where(), ": tensor ", Quoted(t.name),
        ": its partitions are of different types; must be of one"));
  }

  // Finishes a tensor whose elements were taken.
  void Keep(TensorInfo t) {
    t.bytes = t.num_elements() * DTypeSize(t.dtype);
    // Elements that lie side by side are no parts.
    if (t.parts.size() == 1) {
      t.file = t.parts[0].file;
      t.offset = t.parts[0].offset;
      t.parts.clear();
    } else if (!t.parts.empty()) {
      t.file = t.parts[0].file;
    }
    out_.push_back(std::move(t));
  }

  // Every tensor is cut over the ranks by itself: rank r holds part r of as
  // many alike, the last of them padded. The groups follow on one another.
  absl::Status JoinStage3() {
    std::vector<FlatRun> runs(optims_.size());
    for (size_t r = 0; r < optims_.size(); ++r) {
      for (const TensorInfo& flat : optims_[r].groups) runs[r].Add(flat);
    }
    for (const auto& group : Shapes()) {
      for (const NamedShape& named : group) {
        DS_ASSIGN_OR_RETURN(TensorInfo t, New(named));
        const int64_t count = t.num_elements();
        const int64_t share = CeilDiv(count, ranks());
        t.dtype = runs[0].dtype();
        for (size_t r = 0; r < runs.size(); ++r) {
          if (runs[r].left() < share) return TooShort(t, r, runs[r].size());
          const int64_t at = std::min(count, static_cast<int64_t>(r) * share);
          const int64_t part = std::min(share, count - at);
          if (!runs[r].Take(part, at, &t)) return Mixed(t);
          runs[r].Take(share - part, 0, nullptr);
        }
        Keep(std::move(t));
      }
    }
    for (size_t r = 0; r < runs.size(); ++r) {
      if (runs[r].left() == 0) continue;
      return absl::InvalidArgumentError(absl::StrFormat(
          "%s: fp32_flat_groups: has %d elements, param_shapes of %d ranks "
          "make it %d; the files are of different runs, copy them again",
          optims_[r].path, runs[r].size(), ranks(),
          runs[r].size() - runs[r].left()));
    }
    return absl::OkStatus();
  }

  absl::Status TooShort(const TensorInfo& t, size_t rank, int64_t size) const {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: %s: has %d elements, too few for tensor %s of param_shapes over "
        "%d ranks; the files are of different runs or cut, copy them again",
        optims_[rank].path,
        stage_ == 3 ? "fp32_flat_groups" : "single_partition_of_fp32_groups",
        size, Quoted(t.name), ranks()));
  }

  // A group's tensors stand side by side, and the ranks' partitions one after
  // the other are the group, padded at its end.
  absl::Status JoinStage2() {
    if (Shapes().size() != optims_[0].groups.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          optims_[0].path, ": single_partition_of_fp32_groups: has ",
          optims_[0].groups.size(), " groups, param_shapes ", Shapes().size(),
          "; the files are of different runs, copy them again"));
    }
    for (size_t g = 0; g < Shapes().size(); ++g) {
      DS_ASSIGN_OR_RETURN(const bool padded, CheckPartitions(g));
      DS_ASSIGN_OR_RETURN(const std::vector<int64_t> gaps, GapsOf(g));
      FlatRun run;
      for (const ZeroShard& o : optims_) run.Add(o.groups[g]);
      for (size_t i = 0; i < Shapes()[g].size(); ++i) {
        DS_ASSIGN_OR_RETURN(TensorInfo t, New(Shapes()[g][i]));
        t.dtype = run.dtype();
        if (run.left() < t.num_elements()) return TooShort(t, 0, run.size());
        if (!run.Take(t.num_elements(), 0, &t)) return Mixed(t);
        if (run.left() < gaps[i]) return TooShort(t, 0, run.size());
        run.Take(gaps[i], 0, nullptr);
        Keep(std::move(t));
      }
      // Padded up to a multiple, or not at all (elastic checkpoints).
      const int64_t align = padded ? 2 * ranks() : 1;
      const int64_t used = run.size() - run.left();
      if (RoundUp(used, align) == RoundUp(run.size(), align)) continue;
      return absl::InvalidArgumentError(absl::StrFormat(
          "%s: single_partition_of_fp32_groups: group %d: %d ranks have %d "
          "elements, param_shapes make it %d and less than %d more; the files "
          "are of different runs, copy them again",
          optims_[0].path, g, ranks(), run.size(), used, align));
    }
    return absl::OkStatus();
  }

  // Elements to skip after each parameter of a group.
  absl::StatusOr<std::vector<int64_t>> GapsOf(size_t group) const {
    const auto& gaps = optims_[0].gaps;
    const size_t count = Shapes()[group].size();
    if (gaps.empty()) return std::vector<int64_t>(count, 0);
    if (group < gaps.size() && gaps[group].size() == count) return gaps[group];
    return absl::InvalidArgumentError(absl::StrCat(
        optims_[0].path, ": param_alignment_paddings: group ", group, ": has ",
        group < gaps.size() ? gaps[group].size() : 0, " counts, param_shapes ",
        count, " tensors; the files are of different runs, copy them again"));
  }

  // Whether the ranks' partitions of a group are all of one size, as they are
  // when the group is padded. Without padding those at its end are shorter.
  absl::StatusOr<bool> CheckPartitions(size_t group) const {
    const auto size = [&](size_t r) {
      return optims_[r].groups[group].num_elements();
    };
    bool padded = true;
    for (size_t r = 1; r < optims_.size(); ++r) {
      const bool fits = padded ? size(r) <= size(0) : size(r) == 0;
      if (!fits) {
        return absl::InvalidArgumentError(absl::StrFormat(
            "%s: single_partition_of_fp32_groups: group %d: has %d elements, "
            "in %s %d; all ranks' are alike but those at the end: the files "
            "are of different runs or cut, copy them again",
            optims_[r].path, group, size(r), optims_[r - 1].path, size(r - 1)));
      }
      padded = padded && size(r) == size(0);
    }
    return padded;
  }

  // Parameters that were not trained: whole, or of ZeRO 3 cut like the others.
  absl::Status AddFrozen() {
    if (states_.empty() || states_[0].frozen_shapes.empty()) {
      return absl::OkStatus();
    }
    const size_t cuts = stage_ == 3 ? states_.size() : 1;
    std::vector<absl::flat_hash_map<absl::string_view, const TensorInfo*>>
        fragments(cuts);
    for (size_t r = 0; r < cuts; ++r) {
      for (const TensorInfo& t : states_[r].frozen) fragments[r][t.name] = &t;
    }
    for (const NamedShape& named : states_[0].frozen_shapes) {
      DS_ASSIGN_OR_RETURN(TensorInfo t, New(named));
      const int64_t count = t.num_elements();
      const int64_t share = CeilDiv(count, static_cast<int64_t>(cuts));
      for (size_t r = 0; r < cuts; ++r) {
        const auto refuse = [&](const std::string& why) {
          return absl::InvalidArgumentError(absl::StrCat(
              states_[r].state.path, ": frozen_param_fragments: tensor ",
              Quoted(named.name), ": ", why,
              "; the file is damaged or of another run"));
        };
        const auto it = fragments[r].find(named.name);
        if (it == fragments[r].end()) return refuse("is not there");
        const TensorInfo& part = *it->second;
        const int64_t at = std::min(count, static_cast<int64_t>(r) * share);
        const int64_t want = std::min(share, count - at);
        if (!part.unreadable.empty()) {
          t.unreadable = part.unreadable;
          continue;
        }
        if (part.num_elements() < want || !part.strides.empty() ||
            (cuts == 1 && part.num_elements() != want)) {
          return refuse(absl::StrCat(
              "is ", Dims(part.shape), part.strides.empty() ? "" : " with gaps",
              "; must hold ", want, " elements side by side of ",
              Dims(named.shape)));
        }
        if (r == 0) t.dtype = part.dtype;
        if (part.dtype != t.dtype) return Mixed(t);
        AddFlatSlice(part, 0, at, want, &t);
      }
      Keep(std::move(t));
    }
    return absl::OkStatus();
  }

  // Other names of the same tensors.
  void AddShared() {
    absl::flat_hash_map<absl::string_view, size_t> by_name;
    for (size_t i = 0; i < out_.size(); ++i) by_name[out_[i].name] = i;
    const size_t own = out_.size();
    std::vector<TensorInfo> others;
    for (const auto& [other, name] : states_[0].shared) {
      const auto it = by_name.find(name);
      if (it == by_name.end() || !names_.insert(other).second) continue;
      others.push_back(out_[it->second]);
      others.back().name = other;
      others.back().stored_name = name;
    }
    by_name.clear();
    out_.reserve(own + others.size());
    for (TensorInfo& t : others) out_.push_back(std::move(t));
  }

  // Buffers, which every rank has whole.
  void AddModule() {
    for (const TensorInfo& t : states_[0].module()) {
      if (!names_.insert(t.name).second) continue;
      out_.push_back(t);
      if (t.num_elements() > 0) continue;
      out_.back().unreadable =
          "is a placeholder of ZeRO 3, and no partition holds it; copy all "
          "files of the step";
    }
  }

  const std::vector<DeepSpeedShard>& states_;
  const std::vector<ZeroShard>& optims_;
  const int stage_;
  absl::flat_hash_set<std::string> names_;
  std::vector<TensorInfo> out_;
};

}  // namespace

void AddFlatSlice(const TensorInfo& flat, int64_t from, int64_t at,
                  int64_t count, TensorInfo* t) {
  const int64_t width = t->row_elements();
  const int64_t size = DTypeSize(flat.dtype);
  const auto add = [&](int64_t rows, int64_t columns) {
    TensorPart part;
    part.row = at / width;
    part.column = at % width;
    part.rows = rows;
    part.columns = columns;
    part.file = flat.file;
    part.offset = flat.offset + from * size;
    part.row_stride = width;
    t->parts.push_back(part);
    at += rows * columns;
    from += rows * columns;
    count -= rows * columns;
  };
  if (count <= 0) return;
  if (at % width != 0) add(1, std::min(count, width - at % width));
  if (count >= width) add(count / width, width);
  if (count > 0) add(1, count);
}

absl::StatusOr<std::vector<TensorInfo>> JoinZeroPartitions(
    const std::vector<DeepSpeedShard>& states,
    const std::vector<ZeroShard>& optims) {
  return Joiner(states, optims).Run();
}

}  // namespace deepslice
