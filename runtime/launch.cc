#include "runtime/launch.h"

#include <cstdint>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
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
  const char* hosts;    // number of hosts
  const char* command;  // before "dsrun PLAN", with $ for the number of ranks
  // The set counts only where this one is set, too; nullptr: always.
  const char* mark;
  // World size is also set where no rank was started (by salloc and sbatch), so
  // that alone it is no incomplete set, and it may be of a launch around this
  // one.
  bool world_alone_is_normal;
};
constexpr Launcher kLaunchers[] = {
    {"deepspeed", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_SIZE",
     "CROSS_SIZE", "deepspeed --num_gpus $ --no_python", "CROSS_SIZE", false},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
     "GROUP_WORLD_SIZE", "torchrun --nproc-per-node $ --no-python", nullptr,
     false},
    {"OpenMPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", nullptr,
     "mpirun -n $", nullptr, false},
    {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS",
     nullptr, "mpiexec -n $", nullptr, false},
    {"MVAPICH2", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE",
     "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE", nullptr,
     "mpiexec -n $", nullptr, false},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", nullptr,
     "SLURM_STEP_NUM_NODES", "srun -n $", nullptr, true},
    {"flux", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID", nullptr,
     "FLUX_JOB_NNODES", "flux run -n $", nullptr, false},
};

const char* EnvOf(GetEnv env, const char* name) {
  return name == nullptr ? nullptr : env(name);
}
bool IsSet(GetEnv env, const char* name) {
  const char* value = env(name);
  return value != nullptr && *value != '\0';
}

// Whether `l`'s variables can be those of the launcher that started this
// process.
bool Counts(const Launcher& l, GetEnv env) {
  // torchrun below deepspeed sets its own rank beside deepspeed's mark.
  if (l.mark != nullptr) {
    return IsSet(env, l.mark) && !IsSet(env, "TORCHELASTIC_RUN_ID");
  }
  // A batch script is no task of srun's, and its SLURM_PROCID is 0.
  const char* kind = env("ENVIRONMENT");
  return !l.world_alone_is_normal || kind == nullptr ||
         absl::string_view(kind) != "BATCH" || IsSet(env, "SLURM_STEP_ID") ||
         IsSet(env, "SLURM_STEPID");
}

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

absl::Status IncompleteSet(const Launcher& l, GetEnv env, const char* found) {
  return absl::InvalidArgumentError(absl::StrCat(
      "the environment has ", found, "=", env(found), " but not ",
      env(l.rank) == nullptr ? l.rank : l.world, "; ", l.name, " sets ", l.rank,
      " and ", l.world, " together: set both, give --rank, or unset ", found));
}

// The place that `l`'s variables give; nullopt when they name no rank, and then
// `lone` is set to an error when some of them are there nevertheless.
absl::StatusOr<std::optional<RankPlace>> ReadLauncher(const Launcher& l,
                                                      GetEnv env,
                                                      absl::Status* lone) {
  if (!Counts(l, env)) return std::nullopt;
  const char* rank = env(l.rank);
  const char* world = env(l.world);
  const char* local_rank = env(l.local_rank);
  const char* local_world = EnvOf(env, l.local_world);
  const char* hosts = EnvOf(env, l.hosts);
  if (rank == nullptr) {
    const char* found = world != nullptr && !l.world_alone_is_normal ? l.world
                        : local_rank != nullptr ? l.local_rank
                                                : nullptr;
    if (found != nullptr && lone->ok()) *lone = IncompleteSet(l, env, found);
    return std::nullopt;
  }
  if (world == nullptr) return IncompleteSet(l, env, l.rank);
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
  if (hosts != nullptr) {
    DS_ASSIGN_OR_RETURN(place.hosts, ParseNumber(l.hosts, hosts, 1, kMaxWorld));
  }
  if (local_rank != nullptr) {
    DS_ASSIGN_OR_RETURN(
        place.local_rank,
        ParseNumber(l.local_rank, local_rank, 0, place.local_world - 1));
  }
  place.knows_hosts = local_world != nullptr || hosts != nullptr;
  // RANK and WORLD_SIZE are also set by hand.
  place.launcher_stays = l.mark != nullptr ||
                         absl::string_view(l.rank) != "RANK" ||
                         IsSet(env, "TORCHELASTIC_RUN_ID");
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
    absl::Status lone;
    const auto set = ReadLauncher(l, env, &lone);
    if (!set.ok() || !set->has_value()) continue;
    if ((*set)->rank != place.rank && (*set)->local_rank != place.rank)
      continue;
    place.world = (*set)->world;
    place.hosts = (*set)->hosts;
    place.knows_hosts = (*set)->knows_hosts;
    place.launcher_stays = (*set)->launcher_stays;
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
  if (flags.spawn.has_value()) {
    if (flags.rank.has_value() || flags.world_size.has_value()) {
      return absl::InvalidArgumentError(
          "--spawn starts every rank, --rank is one of them: give one of the "
          "two");
    }
    return std::nullopt;
  }
  if (flags.rank.has_value()) return PlaceOfFlags(flags, env, plan_world);
  if (flags.world_size.has_value()) {
    return absl::InvalidArgumentError(
        "--world-size needs --rank; without both the ranks are started here");
  }
  absl::Status lone;
  for (const Launcher& l : kLaunchers) {
    DS_ASSIGN_OR_RETURN(std::optional<RankPlace> place,
                        ReadLauncher(l, env, &lone));
    if (!place.has_value()) continue;
    int local_rank;
    if (flags.local_rank.has_value() && env(l.local_rank) == nullptr &&
        absl::SimpleAtoi(*flags.local_rank, &local_rank) && local_rank >= 0 &&
        local_rank < place->local_world) {
      place->local_rank = local_rank;
    }
    return place;
  }
  if (!lone.ok()) return lone;
  return std::nullopt;
}

namespace {

// The command that starts `world` ranks the way `source` does.
std::string RightCommand(absl::string_view source, int world,
                         absl::string_view plan_folder) {
  for (const Launcher& l : kLaunchers) {
    if (source != l.name) continue;
    return absl::StrCat(
        absl::StrReplaceAll(l.command, {{"$", absl::StrCat(world)}}), " dsrun ",
        plan_folder);
  }
  return absl::StrCat("dsrun ", plan_folder, " --rank R --world-size ", world,
                      " for each R from 0 to ", world - 1);
}

absl::Status OtherWorld(absl::string_view plan_folder, int plan_world,
                        absl::string_view found, absl::string_view command) {
  return absl::FailedPreconditionError(
      absl::StrCat(plan_folder, ": ", found, ", the plan has ", plan_world,
                   "; start ", plan_world, " (", command, ")"));
}

}  // namespace

absl::Status CheckPlace(const RankPlace& place, int plan_world,
                        absl::string_view plan_folder) {
  if (place.world != plan_world) {
    const std::string right =
        RightCommand(place.source, plan_world, plan_folder);
    return OtherWorld(
        plan_folder, plan_world,
        absl::StrCat("the launch has ", place.world, " rank(s) (", place.source,
                     ")"),
        plan_world == 1
            ? absl::StrCat(right, "; several sequences run in one process")
            : absl::StrCat(right, ", or dsrun ", plan_folder, " --spawn ",
                           plan_world, ", which starts them itself"));
  }
  if (place.local_world != place.world || place.hosts > 1) {
    return absl::FailedPreconditionError(absl::StrCat(
        plan_folder, ": the launch spans several hosts (", place.source, ": ",
        place.local_world != place.world
            ? absl::StrCat(place.local_world, " of ", place.world,
                           " ranks are on this one")
            : absl::StrCat(place.hosts, " hosts"),
        "); ranks share one host's memory: start all ", place.world,
        " on one host"));
  }
  return absl::OkStatus();
}

absl::Status CheckSpawn(absl::string_view spawn, int plan_world,
                        absl::string_view plan_folder) {
  DS_ASSIGN_OR_RETURN(const int count,
                      ParseNumber("--spawn", spawn, 1, kMaxWorld));
  if (count == plan_world) return absl::OkStatus();
  return OtherWorld(plan_folder, plan_world,
                    absl::StrCat("--spawn starts ", count, " rank(s)"),
                    absl::StrCat("dsrun ", plan_folder));
}

std::string LaunchLine(const RankPlace& place, GetEnv env,
                       absl::string_view host, absl::string_view plan_set_id) {
  std::string master = "a Unix socket";
  if (IsSet(env, "MASTER_ADDR") && place.source != "started here") {
    master = env("MASTER_ADDR");
    if (IsSet(env, "MASTER_PORT")) {
      absl::StrAppend(&master, ":", env("MASTER_PORT"));
    }
  }
  const int last = place.world - 1;
  return absl::StrCat("world ", place.world, " (", place.source,
                      "), rank map 0", last > 0 ? absl::StrCat("-", last) : "",
                      " on ", host, ", master ", master, ", plan set ",
                      plan_set_id);
}

std::string LaunchId(GetEnv env, absl::string_view launcher,
                     absl::string_view plan_set_id) {
  std::vector<std::string> parts;
  // Only what is equal in all ranks of a launch.
  for (const char* name :
       {"TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "PMIX_NAMESPACE",
        "OMPI_MCA_ess_base_jobid", "PMI_JOBID", "SLURM_JOB_ID", "SLURM_STEP_ID",
        "FLUX_JOB_ID"}) {
    if (IsSet(env, name)) parts.push_back(absl::StrCat(name, "=", env(name)));
  }
  if (parts.empty()) parts.push_back(absl::StrCat("plan=", plan_set_id));
  if (!launcher.empty()) parts.push_back(absl::StrCat("launcher=", launcher));
  return absl::StrJoin(parts, " ");
}

}  // namespace deepslice
