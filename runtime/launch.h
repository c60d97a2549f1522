// Which rank this process is: flags first, else what the launcher set in the
// environment, else nothing, and then the ranks are started by spawn.h.
#ifndef DEEPSLICE_RUNTIME_LAUNCH_H_
#define DEEPSLICE_RUNTIME_LAUNCH_H_

#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace deepslice {

struct RankPlace {
  int rank = 0;
  int world = 1;
  int local_rank = 0;
  int local_world = 1;  // ranks on this host; `world` where nothing tells
  int hosts = 1;        // of the launch; 1 where nothing tells
  // Whether the launcher told which ranks are on this host.
  bool knows_hosts = false;
  // What told: "--rank", "torchrun", "deepspeed", "OpenMPI", "PMI",
  // "MVAPICH2", "Slurm", "flux"; "started here" for a supervisor's.
  std::string source;
  // Whether the process that started this one is a launcher that stays as long
  // as its ranks, so that its end is theirs. Not so when variables are set by
  // hand: a shell that ends may leave its ranks at work.
  bool launcher_stays = false;
};

// Flags as typed; nullopt: not given.
struct RankFlags {
  std::optional<std::string> rank, world_size, local_rank;
  std::optional<std::string> spawn;  // start so many here, whatever is set
};

// A variable's value, or nullptr when it is not set.
using GetEnv = absl::FunctionRef<const char*(const char* name)>;

// The place that flags or environment give, nullopt when neither names a rank,
// or --spawn is given. --rank wins; the world size is then --world-size, else
// that of a launcher whose own rank agrees, else `plan_world`. Without --rank
// the first complete set (rank and world size) in the order torchrun and
// deepspeed, OpenMPI, PMI, MVAPICH2, Slurm, flux counts, and later sets are not
// compared: outer launchers leave theirs behind. A set without its rank names
// none, so a later one counts. --local-rank, which deepspeed appends, matters
// only where the variables do not tell, and alone names no rank.
// InvalidArgument: an incomplete set where none is complete, or one that has a
// rank but no world size, a number that is none or out of range, a --rank that
// is empty because a shell expanded it too early.
absl::StatusOr<std::optional<RankPlace>> DiscoverRank(const RankFlags& flags,
                                                      GetEnv env,
                                                      int plan_world);

// FailedPrecondition unless the launch has as many ranks as the plan, all on
// this host; the text holds the command that would be right.
absl::Status CheckPlace(const RankPlace& place, int plan_world,
                        absl::string_view plan_folder);
// The same for --spawn; InvalidArgument when `spawn` is no number.
absl::Status CheckSpawn(absl::string_view spawn, int plan_world,
                        absl::string_view plan_folder);

// "world 4 (torchrun), rank map 0-3 on HOST, master 127.0.0.1:29500, plan set
// 62bf...": what rank 0 tells of the launch, in one line without its end.
std::string LaunchLine(const RankPlace& place, GetEnv env,
                       absl::string_view host, absl::string_view plan_set_id);

// A name that all ranks of one launch share and no other launch on this host
// does: made of TORCHELASTIC_RUN_ID, MASTER_ADDR and MASTER_PORT, and of
// OpenMPI's, PMI's, Slurm's or flux's job; of the plan set and `launcher`, as
// LauncherProcess gives it, where none is set.
std::string LaunchId(GetEnv env, absl::string_view launcher,
                     absl::string_view plan_set_id);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_LAUNCH_H_
