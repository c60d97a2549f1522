#include "compiler/checkpoint/presharded_files.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compiler/checkpoint/untrusted_text.h"
#include "schema/base/file.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

std::string Kind(const json::Value& v) {
  return v.is_string() ? Quoted(v.as_string())
                       : std::string(json::KindName(v.kind()));
}

// RR and MM of tp_RR_MM.pt, or RR of tp_RR.pt, whatever stands before.
struct Place {
  int rank = 0, part = 0;
};
absl::optional<Place> ParsePlace(absl::string_view name) {
  if (!absl::ConsumeSuffix(&name, ".pt")) return absl::nullopt;
  const size_t at = name.rfind("tp_");
  // Not that of ..._non_tp_...
  if (at == name.npos || (at > 0 && absl::ascii_isalnum(name[at - 1]))) {
    return absl::nullopt;
  }
  const std::vector<absl::string_view> numbers =
      absl::StrSplit(name.substr(at + 3), '_');
  Place out;
  int* const to[] = {&out.rank, &out.part};
  if (numbers.size() > 2) return absl::nullopt;
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i].empty() || numbers[i].size() > 6 ||
        !std::all_of(numbers[i].begin(), numbers[i].end(),
                     absl::ascii_isdigit) ||
        !absl::SimpleAtoi(numbers[i], to[i])) {
      return absl::nullopt;
    }
  }
  return out;
}

class Finder {
 public:
  Finder(const json::Value& list, const std::string& path,
         std::vector<std::string>* notes)
      : list_(list), path_(path), notes_(*notes) {}

  absl::StatusOr<PreshardedFiles> Run() {
    DS_RETURN_IF_ERROR(CheckHow());
    DS_RETURN_IF_ERROR(FindBase());
    const json::Value& files = *list_.Find("checkpoints");
    for (const auto& [key, value] : files.members()) {
      if (key == "tp" || key == "non_tp") continue;
      return absl::InvalidArgumentError(
          absl::StrCat(path_, ": checkpoints: key ", Quoted(key),
                       " is not known; must be tp and non_tp"));
    }
    PreshardedFiles out;
    DS_ASSIGN_OR_RETURN(out.whole, Paths(files, "non_tp"));
    DS_ASSIGN_OR_RETURN(const std::vector<std::string> cut, Paths(files, "tp"));
    if (cut.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path_,
                       ": checkpoints: tp: lists no files; must list "
                       "those of all ranks"));
    }
    const absl::flat_hash_set<absl::string_view> in_tp(cut.begin(), cut.end());
    for (const std::string& file : out.whole) {
      if (!in_tp.contains(file)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(path_, ": checkpoints: ", Quoted(file),
                       " is listed in tp and in non_tp; list it in one"));
    }
    DS_RETURN_IF_ERROR(Arrange(cut, &out));
    out.folder = Dirname(cut[0]);
    if (moved_ > 0) {
      notes_.push_back(absl::StrCat(path_, ": base_dir: ", Quoted(base_),
                                    " has not the files; those beside the "
                                    "list are read"));
    }
    return out;
  }

 private:
  absl::Status CheckHow() const {
    const json::Value* how = list_.Find("parallelization");
    if (how == nullptr || how->is_null()) {
      notes_.push_back(absl::StrCat(
          path_,
          ": has no parallelization; the files of tp are taken as those "
          "of ranks (\"tp\")"));
      return absl::OkStatus();
    }
    if (how->is_string() && how->as_string() == "tp") return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": parallelization: holds ", Kind(*how),
                     "; must be \"tp\" where checkpoints has files of tp"));
  }

  absl::Status FindBase() {
    const json::Value* base = list_.Find("base_dir");
    if (base == nullptr || base->is_null()) return absl::OkStatus();
    if (!base->is_string() || absl::StrContains(base->as_string(), '\0')) {
      return absl::InvalidArgumentError(absl::StrCat(
          path_, ": base_dir: holds ", Kind(*base), "; must be a path"));
    }
    base_ = base->as_string();
    return absl::OkStatus();
  }

  // Where a listed file is: in base_dir, else beside the list. The writer made
  // base_dir absolute, or relative to where it ran.
  absl::StatusOr<std::string> Locate(const std::string& name,
                                     absl::string_view key, size_t at) {
    const std::string beside = Dirname(path_);
    std::vector<std::string> tries;
    if (absl::StartsWith(name, "/")) {
      tries = {name, JoinPath(beside, Basename(name))};
    } else if (base_.empty()) {
      tries = {JoinPath(beside, name)};
    } else if (absl::StartsWith(base_, "/")) {
      tries = {JoinPath(base_, name), JoinPath(beside, name)};
    } else {
      tries = {JoinPath(JoinPath(beside, base_), name), JoinPath(beside, name)};
    }
    if (tries.back() == tries[0]) tries.resize(1);
    for (size_t i = 0; i < tries.size(); ++i) {
      if (!FileExists(tries[i])) continue;
      moved_ += i > 0;
      return tries[i];
    }
    return absl::NotFoundError(absl::StrCat(
        path_, ": checkpoints: ", key, ": file ", at + 1, ", ",
        Quoted(tries[0]),
        tries.size() > 1
            ? absl::StrCat(": neither it nor ", Quoted(tries[1]), " is there")
            : ": no such file",
        "; copy it beside the list"));
  }

  absl::StatusOr<std::vector<std::string>> Paths(const json::Value& files,
                                                 absl::string_view key) {
    std::vector<std::string> out;
    absl::flat_hash_set<std::string> seen;
    const json::Value* list = files.Find(key);
    if (list == nullptr || list->is_null()) return out;
    if (!list->is_array() ||
        static_cast<int64_t>(list->items().size()) > limits::kShards) {
      return absl::InvalidArgumentError(absl::StrCat(
          path_, ": checkpoints: ", key, ": holds ", Kind(*list),
          "; must be a list of at most ", limits::kShards, " files"));
    }
    for (const json::Value& item : list->items()) {
      if (!item.is_string() || item.as_string().empty() ||
          absl::StrContains(item.as_string(), '\0')) {
        return absl::InvalidArgumentError(
            absl::StrCat(path_, ": checkpoints: ", key, ": holds ", Kind(item),
                         "; must hold paths"));
      }
      DS_ASSIGN_OR_RETURN(std::string found,
                          Locate(item.as_string(), key, out.size()));
      if (!seen.insert(found).second) {
        return absl::InvalidArgumentError(
            absl::StrCat(path_, ": checkpoints: ", key, ": ", Quoted(found),
                         " is listed twice; list each file once"));
      }
      out.push_back(std::move(found));
    }
    return out;
  }

  // mp_size, else tp_size, else 0.
  absl::StatusOr<int64_t> ReadSize() const {
    for (const char* key : {"mp_size", "tp_size"}) {
      const json::Value* v = list_.Find(key);
      if (v == nullptr || v->is_null()) continue;
      if (v->is_int() && v->as_int() >= 1 && v->as_int() <= limits::kShards) {
        return v->as_int();
      }
      return absl::InvalidArgumentError(
          absl::StrCat(path_, ": ", key, ": holds ", json::Write(*v),
                       "; must be a number of ranks, from 1 on"));
    }
    return 0;
  }

  absl::Status Arrange(const std::vector<std::string>& cut,
                       PreshardedFiles* out) const {
    DS_ASSIGN_OR_RETURN(const int64_t size, ReadSize());
    std::map<std::pair<int, int>, std::string> placed;  // by rank and part
    int ranks = 0, parts = 0;
    for (const std::string& file : cut) {
      const auto place = ParsePlace(Basename(file));
      if (!place.has_value()) break;
      ranks = std::max(ranks, place->rank + 1);
      parts = std::max(parts, place->part + 1);
      placed[{place->rank, place->part}] = file;
    }
    if (placed.size() != cut.size()) {
      // By their order.
      const int64_t count = static_cast<int64_t>(cut.size());
      const int64_t all = size > 0 ? size : count;
      if (count % all != 0) {
        return absl::InvalidArgumentError(absl::StrFormat(
            "%s: checkpoints: tp: lists %d files for %d ranks; must list as "
            "many for each",
            path_, count, all));
      }
      out->of_ranks.resize(all);
      for (int64_t i = 0; i < count; ++i) {
        out->of_ranks[i % all].push_back(cut[i]);
      }
      return absl::OkStatus();
    }
    if (size > 0 && size != ranks) return WrongCount(ranks, size);
    out->of_ranks.resize(ranks);
    for (int r = 0; r < ranks; ++r) {
      for (int p = 0; p < parts; ++p) {
        const auto it = placed.find({r, p});
        if (it == placed.end()) {
          return absl::InvalidArgumentError(absl::StrFormat(
              "%s: checkpoints: tp: rank %d has no part %d of %d; list the "
              "files of all ranks",
              path_, r, p, parts));
        }
        out->of_ranks[r].push_back(it->second);
      }
    }
    return absl::OkStatus();
  }

  absl::Status WrongCount(size_t found, int64_t size) const {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: checkpoints: tp: lists the files of %d rank%s, but tp_size is %d; "
        "list those of all ranks",
        path_, found, found == 1 ? "" : "s", size));
  }

  const json::Value& list_;
  const std::string& path_;
  std::vector<std::string>& notes_;
  std::string base_;
  int moved_ = 0;
};

}  // namespace

absl::StatusOr<PreshardedFiles> FindPreshardedFiles(
    const json::Value& list, const std::string& path,
    std::vector<std::string>* notes) {
  return Finder(list, path, notes).Run();
}

}  // namespace deepslice
