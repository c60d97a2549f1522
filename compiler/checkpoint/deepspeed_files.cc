#include "compiler/checkpoint/deepspeed_files.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "compiler/checkpoint/shard_set.h"
#include "compiler/checkpoint/untrusted_text.h"
#include "schema/base/file.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

constexpr absl::string_view kLatest = "latest";
constexpr size_t kMostTagBytes = 255;  // a folder's name

// Takes a rank's number off the front.
bool TakeNumber(absl::string_view* s, int* out) {
  size_t digits = 0;
  while (digits < s->size() && absl::ascii_isdigit((*s)[digits])) ++digits;
  if (digits == 0 || digits > 9 ||
      !absl::SimpleAtoi(s->substr(0, digits), out)) {
    return false;
  }
  s->remove_prefix(digits);
  return true;
}

bool Take(absl::string_view* s, absl::string_view text) {
  return absl::ConsumePrefix(s, text);
}

std::string ModelName(int mp) {
  return absl::StrFormat("mp_rank_%02d_model_states.pt", mp);
}

// `end` is model or optim.
std::string ZeroName(int mp, int dp, absl::string_view end) {
  return absl::StrFormat("zero_pp_rank_%d_mp_rank_%02d_%s_states.pt", dp, mp,
                         end);
}

using Ranks = std::map<std::pair<int, int>, std::string>;  // path by mp and dp

absl::Status Missing(const std::string& where, const std::string& name,
                     int64_t found, int64_t all) {
  return absl::NotFoundError(
      absl::StrFormat("%s: %s is missing: of %d such files %d are there; copy "
                      "all of them",
                      where, name, all, found));
}

// The files by mp and dp rank; every mp rank has as many dp ranks.
absl::StatusOr<std::vector<std::vector<std::string>>> OrderZero(
    const std::string& where, const Ranks& ranks, absl::string_view end) {
  int mps = 0, dps = 0;
  for (const auto& [at, path] : ranks) {
    mps = std::max(mps, at.first + 1);
    dps = std::max(dps, at.second + 1);
  }
  std::vector<std::vector<std::string>> out;
  if (ranks.empty()) return out;
  const int64_t all = int64_t{mps} * dps, found = ranks.size();
  auto next = ranks.begin();
  for (int mp = 0; mp < mps; ++mp) {
    out.emplace_back();
    for (int dp = 0; dp < dps; ++dp) {
      if (next == ranks.end() || next->first != std::make_pair(mp, dp)) {
        return Missing(where, ZeroName(mp, dp, end), found, all);
      }
      out.back().push_back(next->second);
      ++next;
    }
  }
  return out;
}

absl::StatusOr<DeepSpeedFiles> Arrange(const std::string& where,
                                       const std::vector<std::string>& paths) {
  DeepSpeedFiles out;
  out.where = where;
  Ranks models, zero_models, optims;
  for (const std::string& path : paths) {
    const auto name = ParseDeepSpeedName(Basename(path));
    if (!name.has_value()) continue;
    if (out.folder.empty()) out.folder = Dirname(path);
    Ranks* to = nullptr;
    switch (name->kind) {
      case DeepSpeedName::kModelStates:
        to = &models;
        break;
      case DeepSpeedName::kZeroModelStates:
        to = &zero_models;
        break;
      case DeepSpeedName::kOptimStates:
        to = &optims;
        break;
      case DeepSpeedName::kLayer:
        out.layers.push_back(path);
        continue;
      case DeepSpeedName::kExpert:
        out.experts.push_back(path);
        continue;
      case DeepSpeedName::kExpertOptim:
        continue;
    }
    if (name->mp >= limits::kShards || name->dp >= limits::kShards) {
      return absl::ResourceExhaustedError(
          absl::StrCat(path, ": ranks below ", limits::kShards, " are read"));
    }
    const auto [it, added] =
        to->emplace(std::make_pair(name->mp, name->dp), path);
    if (added) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        where, ": ", Quoted(path), " and ", Quoted(it->second),
        " are of the same rank; each rank's file must be there once"));
  }
  int next = 0;
  for (const auto& [at, path] : models) {
    if (at.first != next) {
      return Missing(where, ModelName(next), models.size(),
                     models.rbegin()->first.first + 1);
    }
    ++next;
    out.model_states.push_back(path);
  }
  DS_ASSIGN_OR_RETURN(out.zero_states, OrderZero(where, zero_models, "model"));
  DS_ASSIGN_OR_RETURN(out.optim_states, OrderZero(where, optims, "optim"));
  return out;
}

// Whether a folder has files of a step.
bool HoldsStep(const std::string& folder) {
  const auto names = ListDirectory(folder);
  return names.ok() &&
         std::any_of(names->begin(), names->end(), [](const std::string& n) {
           return ParseDeepSpeedName(n).has_value();
         });
}

// The folders in `folder` that do.
std::vector<std::string> StepsIn(const std::string& folder) {
  std::vector<std::string> out;
  const auto names = ListDirectory(folder);
  if (!names.ok()) return out;
  for (const std::string& name : *names) {
    const std::string path = JoinPath(folder, name);
    if (DirectoryExists(path) && HoldsStep(path)) out.push_back(name);
  }
  return out;
}

}  // namespace

absl::StatusOr<std::string> ReadDeepSpeedTag(const std::string& folder,
                                             absl::string_view file) {
  const std::string path = JoinPath(folder, file);
  DS_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, 4096));
  const absl::string_view tag = absl::StripAsciiWhitespace(text);
  const auto refuse = [&](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": holds ", Quoted(tag), ", ", why,
                     "; must be the name of a step's folder beside it"));
  };
  if (tag.empty()) return refuse("which is nothing");
  if (tag.size() > kMostTagBytes) return refuse("which is no folder's name");
  if (tag == "." || tag == ".." || tag.find('/') != absl::string_view::npos) {
    return refuse("which is a path");
  }
  for (const char c : tag) {
    if (c == '\n' || c == '\r') return refuse("which is more than one line");
    if (absl::ascii_iscntrl(c)) return refuse("which is no text");
  }
  if (!DirectoryExists(JoinPath(folder, tag))) {
    const std::vector<std::string> steps = StepsIn(folder);
    return absl::NotFoundError(absl::StrCat(
        path, ": names ", Quoted(tag), ", which is not in the folder; ",
        steps.empty() ? "copy it"
                      : absl::StrCat("copy it, or give the folder of ",
                                     ShortList(steps))));
  }
  return std::string(tag);
}

namespace {

bool HasHuggingFaceWeights(const std::string& folder) {
  for (const char* weights :
       {"model.safetensors", "model.safetensors.index.json",
        "pytorch_model.bin", "pytorch_model.bin.index.json"}) {
    if (FileExists(JoinPath(folder, weights))) return true;
  }
  return false;
}

}  // namespace

int DeepSpeedFiles::mp_ranks() const {
  return static_cast<int>(
      std::max({model_states.size(), zero_states.size(), optim_states.size()}));
}

absl::optional<DeepSpeedName> ParseDeepSpeedName(absl::string_view name) {
  DeepSpeedName out{DeepSpeedName::kModelStates};
  int other = 0;
  absl::string_view s = name;
  const auto is = [&](bool matches, DeepSpeedName::Kind kind) {
    out.kind = kind;
    return matches && s.empty();
  };
  const auto from = [&](absl::string_view text) {
    s = name;
    return Take(&s, text);
  };
  if (is(from("mp_rank_") && TakeNumber(&s, &out.mp) &&
             Take(&s, "_model_states.pt"),
         DeepSpeedName::kModelStates) ||
      is(from("layer_") && TakeNumber(&s, &other) && Take(&s, "-model_") &&
             TakeNumber(&s, &out.mp) && Take(&s, "-model_states.pt"),
         DeepSpeedName::kLayer) ||
      is(from("layer_") && TakeNumber(&s, &other) &&
             Take(&s, "-model_states.pt"),
         DeepSpeedName::kLayer) ||
      is(from("layer_") && TakeNumber(&s, &other) && Take(&s, "_expert_") &&
             TakeNumber(&s, &other) && Take(&s, "_mp_rank_") &&
             TakeNumber(&s, &out.mp) && Take(&s, "_model_states.pt"),
         DeepSpeedName::kExpert) ||
      is(from("expert_") && TakeNumber(&s, &other) && Take(&s, "_mp_rank_") &&
             TakeNumber(&s, &out.mp) && Take(&s, "_model_states.pt"),
         DeepSpeedName::kExpert) ||
      is(from("expp_rank_") && TakeNumber(&s, &other) &&
             Take(&s, "_mp_rank_") && TakeNumber(&s, &out.mp) &&
             Take(&s, "_optim_states.pt"),
         DeepSpeedName::kExpertOptim)) {
    return out;
  }
  s = name;
  if (!Take(&s, "bf16_")) Take(&s, "fp16_");
  if (!Take(&s, "zero_pp_rank_") || !TakeNumber(&s, &out.dp) ||
      !Take(&s, "_mp_rank_") || !TakeNumber(&s, &out.mp)) {
    return absl::nullopt;
  }
  if (s == "_model_states.pt") {
    out.kind = DeepSpeedName::kZeroModelStates;
    return out;
  }
  // Versions of 2020 left the line out.
  if (s == "_optim_states.pt" || s == "optim_states.pt") {
    out.kind = DeepSpeedName::kOptimStates;
    return out;
  }
  return absl::nullopt;
}

bool LooksLikeDeepSpeed(const std::string& folder) {
  if (HoldsStep(folder)) return true;
  if (HasHuggingFaceWeights(folder)) return false;
  return FileExists(JoinPath(folder, kLatest)) || !StepsIn(folder).empty();
}

absl::StatusOr<std::string> FindDeepSpeedStep(const std::string& folder,
                                              std::vector<std::string>* notes) {
  if (HoldsStep(folder)) return folder;
  if (FileExists(JoinPath(folder, kLatest))) {
    DS_ASSIGN_OR_RETURN(const std::string tag,
                        ReadDeepSpeedTag(folder, kLatest));
    return JoinPath(folder, tag);
  }
  const std::vector<std::string> steps = StepsIn(folder);
  if (steps.size() == 1) {
    notes->push_back(absl::StrCat(folder, ": no file ", kLatest, "; ",
                                  Quoted(steps[0]), " is read"));
    return JoinPath(folder, steps[0]);
  }
  if (steps.empty()) {
    return absl::NotFoundError(
        absl::StrCat(folder, ": has no file ", kLatest,
                     " and no step of a training run; copy the step's folder"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(folder, ": no file ", kLatest, " says which of ",
                   ShortList(steps), " is meant; give one's folder"));
}

absl::StatusOr<DeepSpeedFiles> ListDeepSpeedStep(const std::string& folder) {
  DS_ASSIGN_OR_RETURN(std::vector<std::string> names, ListDirectory(folder));
  for (std::string& name : names) name = JoinPath(folder, name);
  DS_ASSIGN_OR_RETURN(DeepSpeedFiles out, Arrange(folder, names));
  out.folder = folder;
  return out;
}

absl::StatusOr<DeepSpeedFiles> ArrangeDeepSpeedFiles(
    const std::vector<std::string>& paths, const std::string& where) {
  return Arrange(where, paths);
}

}  // namespace deepslice
