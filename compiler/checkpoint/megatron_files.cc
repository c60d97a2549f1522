#include "compiler/checkpoint/megatron_files.h"

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
#include "compiler/checkpoint/shard_set.h"
#include "compiler/checkpoint/untrusted_text.h"
#include "schema/base/file.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

constexpr absl::string_view kRankPrefix = "mp_rank_";
// The second is of Megatron-LM before 2022.
constexpr absl::string_view kFileNames[] = {"model_optim_rng.pt",
                                            "model_rng.pt"};

bool AllDigits(absl::string_view s) {
  return !s.empty() && s.size() <= 6 &&
         std::all_of(s.begin(), s.end(), absl::ascii_isdigit);
}

bool IsRankName(absl::string_view name) {
  return absl::StartsWith(name, kRankPrefix) &&
         name.size() > kRankPrefix.size() &&
         absl::ascii_isdigit(name[kRankPrefix.size()]);
}

bool IsIterationName(absl::string_view name) {
  return name == "release" ||
         (absl::ConsumePrefix(&name, "iter_") && !name.empty() &&
          std::all_of(name.begin(), name.end(), absl::ascii_isdigit));
}

std::string RankName(int tensor, int stage, bool staged) {
  return staged ? absl::StrFormat("mp_rank_%02d_%03d", tensor, stage)
                : absl::StrFormat("mp_rank_%02d", tensor);
}

// The file of weights in a rank's folder.
absl::StatusOr<std::string> FileIn(const std::string& folder) {
  for (const absl::string_view name : kFileNames) {
    std::string path = JoinPath(folder, name);
    if (FileExists(path)) return path;
  }
  return absl::NotFoundError(absl::StrCat(folder, ": has neither ",
                                          kFileNames[0], " nor ", kFileNames[1],
                                          "; copy the rank's folder again"));
}

struct Named {
  MegatronRank rank;
  bool staged = false;  // the name has a stage
  std::string path;
};

// Checks that every rank is there once, and puts them in order.
absl::StatusOr<MegatronFiles> Order(const std::string& where,
                                    std::vector<Named> found) {
  MegatronFiles out;
  out.where = where;
  std::map<std::pair<int, int>, const Named*> by_rank;
  for (const Named& f : found) {
    if (f.staged != found[0].staged) {
      return absl::InvalidArgumentError(absl::StrCat(
          where, ": holds ranks with a pipeline stage and without (",
          Quoted(f.path), " and ", Quoted(found[0].path),
          "); they are of two checkpoints: keep one"));
    }
    const auto added = by_rank.insert({{f.rank.stage, f.rank.tensor}, &f});
    if (!added.second) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": ", Quoted(f.path), " and ",
                       Quoted(added.first->second->path),
                       " are the same rank; give each "
                       "rank once"));
    }
    out.tensor_ranks = std::max(out.tensor_ranks, f.rank.tensor + 1);
    out.stages = std::max(out.stages, f.rank.stage + 1);
  }
  for (int s = 0; s < out.stages; ++s) {
    for (int t = 0; t < out.tensor_ranks; ++t) {
      const auto it = by_rank.find({s, t});
      if (it == by_rank.end()) {
        return absl::NotFoundError(absl::StrFormat(
            "%s: %s is missing: of %d ranks %d are there; copy all of them",
            where, RankName(t, s, found[0].staged),
            int64_t{out.stages} * out.tensor_ranks, found.size()));
      }
      out.paths.push_back(it->second->path);
    }
  }
  return out;
}

absl::StatusOr<MegatronFiles> RanksIn(const std::string& folder) {
  DS_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      ListDirectory(folder));
  std::vector<Named> found;
  for (const std::string& name : names) {
    const auto rank = ParseMegatronRank(name);
    if (!rank.ok()) return Annotate(rank.status(), folder);
    if (!rank->has_value()) continue;
    Named f;
    f.rank = **rank;
    f.staged = absl::StrContains(name.substr(kRankPrefix.size()), "_");
    DS_ASSIGN_OR_RETURN(f.path, FileIn(JoinPath(folder, name)));
    found.push_back(std::move(f));
  }
  if (!found.empty()) return Order(folder, std::move(found));
  if (FileExists(JoinPath(folder, ".metadata")) ||
      FileExists(JoinPath(folder, "common.pt"))) {
    return absl::UnimplementedError(absl::StrCat(
        folder,
        ": is in the torch_dist format, which is not read; convert it with "
        "Megatron's tools/checkpoint/convert.py --saver core or save it with "
        "--ckpt-format torch"));
  }
  return absl::NotFoundError(absl::StrCat(
      folder, ": has no rank's folder, mp_rank_00 and so on; copy them"));
}

// The name of the iteration's folder that the tracker names.
absl::StatusOr<std::string> TrackedIteration(const std::string& path) {
  DS_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, 4096));
  const absl::string_view tag = absl::StripAsciiWhitespace(text);
  int64_t iteration = 0;
  if (tag == "release") return std::string(tag);
  if (tag.empty() || !absl::ascii_isdigit(tag[0]) ||
      !absl::SimpleAtoi(tag, &iteration)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": holds ", Quoted(tag),
                     "; must be the number of an iteration, or release"));
  }
  return absl::StrFormat("iter_%07d", iteration);
}

}  // namespace

absl::StatusOr<absl::optional<MegatronRank>> ParseMegatronRank(
    absl::string_view name) {
  absl::optional<MegatronRank> none;
  if (!IsRankName(name)) return none;
  const std::vector<absl::string_view> parts =
      absl::StrSplit(name.substr(kRankPrefix.size()), '_');
  if (!std::all_of(parts.begin(), parts.end(), AllDigits)) return none;
  if (parts.size() > 2) {
    return absl::UnimplementedError(absl::StrCat(
        Quoted(name),
        ": is a rank of expert parallel training, which is not read"));
  }
  MegatronRank rank;
  DS_RETURN_IF_ERROR(
      absl::SimpleAtoi(parts[0], &rank.tensor) &&
              (parts.size() == 1 || absl::SimpleAtoi(parts[1], &rank.stage)) &&
              rank.tensor < limits::kShards && rank.stage < limits::kShards
          ? absl::OkStatus()
          : absl::ResourceExhaustedError(absl::StrCat(
                Quoted(name), ": ranks below ", limits::kShards, " are read")));
  return absl::optional<MegatronRank>(rank);
}

bool IsMegatronRank(const std::string& path) {
  const std::string folder = DirectoryExists(path) ? path : Dirname(path);
  const auto rank = ParseMegatronRank(Basename(folder));
  return !rank.ok() || rank->has_value();
}

bool IsMegatronRankFile(const std::string& path) {
  const absl::string_view name = Basename(path);
  return std::find(std::begin(kFileNames), std::end(kFileNames), name) !=
             std::end(kFileNames) &&
         IsRankName(Basename(Dirname(path)));
}

std::string MegatronRankFileIn(const std::string& folder) {
  if (!IsRankName(Basename(folder))) return "";
  for (const absl::string_view name : kFileNames) {
    const std::string path = JoinPath(folder, name);
    if (FileExists(path)) return path;
  }
  return "";
}

bool LooksLikeMegatron(const std::string& folder) {
  if (FileExists(JoinPath(folder, kMegatronTracker))) return true;
  for (const char* weights :
       {"model.safetensors", "model.safetensors.index.json",
        "pytorch_model.bin", "pytorch_model.bin.index.json"}) {
    if (FileExists(JoinPath(folder, weights))) return false;
  }
  const auto names = ListDirectory(folder);
  return names.ok() &&
         std::any_of(names->begin(), names->end(), [&](const std::string& n) {
           return (IsRankName(n) || IsIterationName(n)) &&
                  DirectoryExists(JoinPath(folder, n));
         });
}

absl::StatusOr<MegatronFiles> FindMegatronFiles(const std::string& folder) {
  const std::string tracker = JoinPath(folder, kMegatronTracker);
  if (FileExists(tracker)) {
    DS_ASSIGN_OR_RETURN(const std::string name, TrackedIteration(tracker));
    const std::string iteration = JoinPath(folder, name);
    if (!DirectoryExists(iteration)) {
      return absl::NotFoundError(
          absl::StrCat(tracker, ": names ", name,
                       ", which is not in the "
                       "folder; copy it, or give a folder of ranks"));
    }
    return RanksIn(iteration);
  }
  DS_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      ListDirectory(folder));
  std::vector<std::string> iterations;
  for (const std::string& name : names) {
    if (IsRankName(name)) return RanksIn(folder);
    if (IsIterationName(name)) iterations.push_back(name);
  }
  if (iterations.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder, ": no ", kMegatronTracker, " says which of ",
                     ShortList(iterations), " is meant; give one's folder"));
  }
  if (iterations.empty()) return RanksIn(folder);
  DS_ASSIGN_OR_RETURN(MegatronFiles out,
                      RanksIn(JoinPath(folder, iterations[0])));
  out.notes.push_back(
      absl::StrCat(folder, ": no ", kMegatronTracker, "; ", iterations[0], " is read"));
  return out;
}

absl::StatusOr<MegatronFiles> ArrangeMegatronFiles(
    const std::vector<std::string>& paths, const std::string& where) {
  std::vector<Named> found;
  absl::flat_hash_set<std::string> seen;
  bool all_named = true, in_order = true;
  for (size_t i = 0; i < paths.size(); ++i) {
    Named f;
    f.path = paths[i];
    std::string folder = Dirname(paths[i]);
    if (DirectoryExists(paths[i])) {
      folder = paths[i];
      DS_ASSIGN_OR_RETURN(f.path, FileIn(paths[i]));
    } else if (!FileExists(paths[i])) {
      return absl::NotFoundError(absl::StrCat(
          where, ": checkpoints: file ", i + 1, " of ", paths.size(), ", ",
          Quoted(paths[i]), ": no such file; copy it or correct the list"));
    }
    const auto rank = ParseMegatronRank(Basename(folder));
    if (!rank.ok()) return Annotate(rank.status(), where);
    if (rank->has_value()) {
      f.rank = **rank;
      f.staged =
          absl::StrContains(Basename(folder).substr(kRankPrefix.size()), "_");
      in_order = in_order &&
                 (f.rank.stage > 0 || f.rank.tensor == static_cast<int>(i));
    } else {
      all_named = false;
    }
    if (!seen.insert(f.path).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": checkpoints: ", Quoted(f.path),
                       " is listed twice; list each rank's file once"));
    }
    found.push_back(std::move(f));
  }
  if (all_named) {
    DS_ASSIGN_OR_RETURN(MegatronFiles out, Order(where, std::move(found)));
    if (!in_order && out.stages == 1) {
      out.notes.push_back(absl::StrCat(
          where,
          ": checkpoints: are not in the order of their ranks; the "
          "folders' names count"));
    }
    return out;
  }
  for (size_t i = 0; i < found.size(); ++i) {
    found[i].rank = {static_cast<int>(i), 0};
    found[i].staged = false;
  }
  return Order(where, std::move(found));
}

}  // namespace deepslice
