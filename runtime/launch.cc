#include "runtime/launch.h"

#include <cstdint>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// The variables of one launcher. The table is in order of precedence.
struct Launcher {
  const char* name;
  const char* rank;
  const char* world;
  const char* local_rank;
  const char* local_world;
  // Also set where no rank was started (by salloc and sbatch), so that alone it
  // is no incomplete set, and it may be of a launch around this one.
  bool world_alone_is_normal;
};
constexpr Launcher kLaunchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", false},
    {"OpenMPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", false},
    {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS",
     false},
    {"MVAPICH2", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE",
     "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE", false},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", nullptr, true},
};

absl::StatusOr<int> ParseNumber(absl::string_view what, absl::string_view text,
                                int64_t low, int64_t high) {
  int64_t value;
  if (!absl::SimpleAtoi(text, &value) || value < low || value > high) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " is \"", text, "\"; a number from ", low, " to ",
                     high, " belongs there"));
  }
  return static_cast<int>(value);
}
constexpr int64_t kMaxWorld = limits::kWorldSize;

absl::Status EmptyFlag(absl::string_view flag) {
  return absl::InvalidArgumentError(absl::StrCat(
      flag,
      " is empty: the launcher's shell expanded its variable too early; "
      "leave ",
      flag,
      " away (the launcher's variables are read) or quote it: "
      "sh -c 'dsrun PLAN ",
      flag, " $LOCAL_RANK'"));
}

absl::StatusOr<int> FlagNumber(absl::string_view flag, const std::string& text,
                               int64_t low, int64_t high) {
  if (text.empty()) return EmptyFlag(flag);
  return ParseNumber(flag, text, low, high);
}

// The place that `launcher`'s variables give; nullopt when none of them counts.
absl::StatusOr<std::optional<RankPlace>> ReadLauncher(const Launcher& l,
                                                      GetEnv env) {
  const char* rank = env(l.rank);
  const char* world = env(l.world);
  const char* local_rank = env(l.local_rank);
  const char* local_world =
      l.local_world == nullptr ? nullptr : env(l.local_world);
  if (rank == nullptr || world == nullptr) {
    const bool lone_world = rank == nullptr && l.world_alone_is_normal;
    const char* found = rank != nullptr         ? l.rank
                        : lone_world            ? nullptr
                        : world != nullptr      ? l.world
                        : local_rank != nullptr ? l.local_rank
                                                : nullptr;
    if (found == nullptr) return std::nullopt;
    return absl::InvalidArgumentError(
        absl::StrCat("the environment has ", found, "=", env(found),
                     " but not ", rank == nullptr ? l.rank : l.world, "; ",
                     l.name, " sets ", l.rank, " and ", l.world,
                     " together: set both, give --rank, or unset ", found));
  }
  RankPlace place;
  place.source = l.name;
  DS_ASSIGN_OR_RETURN(place.world, ParseNumber(l.world, world, 1, kMaxWorld));
  DS_ASSIGN_OR_RETURN(place.rank,
                      ParseNumber(l.rank, rank, 0, place.world - 1));
  place.local_rank = place.rank;
  place.local_world = place.world;
  if (local_world != nullptr) {
    DS_ASSIGN_OR_RETURN(
        place.local_world,
        ParseNumber(l.local_world, local_world, 1, place.world));
  }
  if (local_rank != nullptr) {
    DS_ASSIGN_OR_RETURN(
        place.local_rank,
        ParseNumber(l.local_rank, local_rank, 0, place.local_world - 1));
  }
  return place;
}

absl::StatusOr<std::optional<RankPlace>> PlaceOfFlags(const RankFlags& flags,
                                                      GetEnv env,
                                                      int plan_world) {
  RankPlace place;
  place.source = "--rank";
  DS_ASSIGN_OR_RETURN(place.rank,
                      FlagNumber("--rank", *flags.rank, 0, kMaxWorld - 1));
  place.world = plan_world;
  place.local_rank = place.rank;
  int local_world = 0;
  for (const Launcher& l : kLaunchers) {
    // The flag's own launcher, not one around it: its rank is the flag's.
    if (l.world_alone_is_normal) continue;
    const auto set = ReadLauncher(l, env);
    if (!set.ok() || !set->has_value()) continue;
    if ((*set)->rank != place.rank && (*set)->local_rank != place.rank)
      continue;
    place.world = (*set)->world;
    local_world = (*set)->local_world;
    break;
  }
  if (flags.world_size.has_value()) {
    DS_ASSIGN_OR_RETURN(
        place.world,
        FlagNumber("--world-size", *flags.world_size, 1, kMaxWorld));
    local_world = 0;
  }
  place.local_world = local_world > 0 ? local_world : place.world;
  if (flags.local_rank.has_value()) {
    DS_ASSIGN_OR_RETURN(
        place.local_rank,
        FlagNumber("--local-rank", *flags.local_rank, 0, kMaxWorld - 1));
  }
  if (place.rank >= place.world) {
    return absl::InvalidArgumentError(
        absl::StrCat("--rank is ", place.rank, "; with ", place.world,
                     " ranks it is 0 to ", place.world - 1));
  }
  return place;
}

}  // namespace

absl::StatusOr<std::optional<RankPlace>> DiscoverRank(const RankFlags& flags,
                                                      GetEnv env,
                                                      int plan_world) {
  if (flags.rank.has_value()) return PlaceOfFlags(flags, env, plan_world);
  if (flags.world_size.has_value()) {
    return absl::InvalidArgumentError(
        "--world-size needs --rank; without both the ranks are started here");
  }
  for (const Launcher& l : kLaunchers) {
    DS_ASSIGN_OR_RETURN(std::optional<RankPlace> place, ReadLauncher(l, env));
    if (!place.has_value()) continue;
    if (flags.local_rank.has_value()) {
      DS_ASSIGN_OR_RETURN(place->local_rank,
                          FlagNumber("--local-rank", *flags.local_rank, 0,
                                     place->local_world - 1));
    }
    return place;
  }
  return std::nullopt;
}

absl::Status CheckPlace(const RankPlace& place, int plan_world,
                        absl::string_view plan_folder) {
  if (place.world != plan_world) {
    return absl::FailedPreconditionError(
        absl::StrCat(plan_folder, ": the launch has ", place.world,
                     " rank(s) (", place.source, "), the plan has ", plan_world,
                     "; start ", plan_world, " (torchrun --nproc-per-node ",
                     plan_world, " --no-python dsrun ", plan_folder,
                     "), or run dsrun outside the launcher: it starts its "
                     "ranks itself"));
  }
  if (place.local_world != place.world) {
    return absl::FailedPreconditionError(absl::StrCat(
        plan_folder, ": ", place.local_world, " of ", place.world,
        " ranks are on this host (", place.source,
        "); ranks of a cpu plan share one host's memory: start all of them on "
        "one"));
  }
  return absl::OkStatus();
}

std::string LaunchId(GetEnv env, absl::string_view plan_set_id) {
  std::vector<std::string> parts;
  // Only what is equal in all ranks of a launch.
  for (const char* name : {"TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT",
                           "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid",
                           "PMI_JOBID", "SLURM_JOB_ID", "SLURM_STEP_ID"}) {
    if (const char* value = env(name); value != nullptr && *value != '\0') {
      parts.push_back(absl::StrCat(name, "=", value));
    }
  }
  if (parts.empty()) return absl::StrCat("plan=", plan_set_id);
  return absl::StrJoin(parts, " ");
}

}  // namespace deepslice
