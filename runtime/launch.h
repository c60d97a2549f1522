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
  // What told: "--rank", "torchrun", "OpenMPI", "PMI", "MVAPICH2", "Slurm".
  std::string source;
};

// Flags as typed; nullopt: not given.
struct RankFlags {
  std::optional<std::string> rank, world_size, local_rank;
};

// A variable's value, or nullptr when it is not set.
using GetEnv = absl::FunctionRef<const char*(const char* name)>;

// The place that flags or environment give, nullopt when neither names a rank.
// --rank wins; the world size is then --world-size, else that of a launcher
// whose own rank agrees, else `plan_world`. Without --rank the first complete
// set in the order torchrun (and deepspeed), OpenMPI, PMI, MVAPICH2, Slurm
// counts, and later sets are not compared: outer launchers leave theirs behind.
// --local-rank alone, which deepspeed appends, names no rank.
// InvalidArgument: an incomplete set that comes first, a number that is none or
// out of range, a --rank that is empty because a shell expanded it too early.
absl::StatusOr<std::optional<RankPlace>> DiscoverRank(const RankFlags& flags,
                                                      GetEnv env,
                                                      int plan_world);

// FailedPrecondition unless the launch has as many ranks as the plan, all on
// this host; the text holds the command that would be right.
absl::Status CheckPlace(const RankPlace& place, int plan_world,
                        absl::string_view plan_folder);

// A name that all ranks of one launch share and no other launch on this host
// does: made of TORCHELASTIC_RUN_ID, MASTER_ADDR and MASTER_PORT, and of
// OpenMPI's, PMI's or Slurm's job; of the plan set where none is set.
std::string LaunchId(GetEnv env, absl::string_view plan_set_id);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_LAUNCH_H_
