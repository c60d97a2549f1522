#include "runtime/launch.h"

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

using Env = std::map<std::string, std::string>;

// With a plan of 3 ranks.
absl::StatusOr<std::optional<RankPlace>> Discover(const RankFlags& flags,
                                                  const Env& env) {
  const auto get = [&env](const char* name) -> const char* {
    const auto at = env.find(name);
    return at == env.end() ? nullptr : at->second.c_str();
  };
  return DiscoverRank(flags, get, 3);
}

RankPlace Place(const RankFlags& flags, const Env& env) {
  auto place = Discover(flags, env);
  EXPECT_TRUE(place.ok()) << place.status().ToString();
  if (!place.ok() || !place->has_value()) return {.rank = -1};
  return **place;
}

void ExpectPlace(const RankPlace& got, int rank, int world, int local_rank,
                 int local_world, const std::string& source) {
  EXPECT_EQ(got.rank, rank);
  EXPECT_EQ(got.world, world);
  EXPECT_EQ(got.local_rank, local_rank);
  EXPECT_EQ(got.local_world, local_world);
  EXPECT_EQ(got.source, source);
}

TEST(DiscoverRank, NothingGivenNamesNoRank) {
  DS_ASSERT_OK_AND_ASSIGN(auto place, Discover({}, {{"PATH", "/bin"}}));
  EXPECT_FALSE(place.has_value());
}

TEST(DiscoverRank, ReadsEachLaunchersVariables) {
  ExpectPlace(Place({}, {{"RANK", "5"},
                         {"WORLD_SIZE", "6"},
                         {"LOCAL_RANK", "1"},
                         {"LOCAL_WORLD_SIZE", "2"}}),
              5, 6, 1, 2, "torchrun");
  ExpectPlace(Place({}, {{"OMPI_COMM_WORLD_RANK", "2"},
                         {"OMPI_COMM_WORLD_SIZE", "3"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"}}),
              2, 3, 2, 3, "OpenMPI");
  ExpectPlace(Place({}, {{"PMI_RANK", "1"},
                         {"PMI_SIZE", "3"},
                         {"MPI_LOCALRANKID", "1"},
                         {"MPI_LOCALNRANKS", "3"}}),
              1, 3, 1, 3, "PMI");
  ExpectPlace(Place({}, {{"MV2_COMM_WORLD_RANK", "1"},
                         {"MV2_COMM_WORLD_SIZE", "4"},
                         {"MV2_COMM_WORLD_LOCAL_RANK", "0"},
                         {"MV2_COMM_WORLD_LOCAL_SIZE", "2"}}),
              1, 4, 0, 2, "MVAPICH2");
  ExpectPlace(Place({}, {{"SLURM_PROCID", "2"},
                         {"SLURM_NTASKS", "3"},
                         {"SLURM_LOCALID", "2"}}),
              2, 3, 2, 3, "Slurm");
  ExpectPlace(Place({}, {{"FLUX_TASK_RANK", "2"},
                         {"FLUX_JOB_SIZE", "3"},
                         {"FLUX_TASK_LOCAL_ID", "1"}}),
              2, 3, 1, 3, "flux");
  ExpectPlace(Place({}, {{"RANK", "3"},
                         {"WORLD_SIZE", "4"},
                         {"LOCAL_RANK", "1"},
                         {"LOCAL_SIZE", "2"},
                         {"CROSS_RANK", "1"},
                         {"CROSS_SIZE", "2"}}),
              3, 4, 1, 2, "deepspeed");
}

TEST(DiscoverRank, TorchrunBelowDeepspeedIsTorchrun) {
  const Env env = {{"RANK", "1"},
                   {"WORLD_SIZE", "2"},
                   {"CROSS_SIZE", "1"},
                   {"LOCAL_SIZE", "1"},
                   {"TORCHELASTIC_RUN_ID", "none"}};
  ExpectPlace(Place({}, env), 1, 2, 1, 2, "torchrun");
}

TEST(DiscoverRank, KnowsWhichLaunchersStay) {
  Env env = {{"RANK", "1"}, {"WORLD_SIZE", "2"}};
  EXPECT_FALSE(Place({}, env).launcher_stays);  // may be set by hand
  env["TORCHELASTIC_RUN_ID"] = "none";
  EXPECT_TRUE(Place({}, env).launcher_stays);
  EXPECT_TRUE(Place({.rank = "1"}, env).launcher_stays);
  EXPECT_TRUE(
      Place({}, {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"CROSS_SIZE", "1"}})
          .launcher_stays);
  EXPECT_TRUE(Place({}, {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}).launcher_stays);
  EXPECT_FALSE(Place({.rank = "1"}, {}).launcher_stays);
}

TEST(DiscoverRank, WithoutLocalVariablesAllRanksAreLocal) {
  ExpectPlace(Place({}, {{"RANK", "2"}, {"WORLD_SIZE", "3"}}), 2, 3, 2, 3,
              "torchrun");
}

TEST(DiscoverRank, FirstCompleteSetWinsAndLaterOnesAreNotCompared) {
  // torchrun under mpirun inside sbatch, whose SLURM_PROCID stays 0.
  const Env env = {{"RANK", "1"},
                   {"WORLD_SIZE", "2"},
                   {"OMPI_COMM_WORLD_RANK", "0"},
                   {"OMPI_COMM_WORLD_SIZE", "1"},
                   {"SLURM_PROCID", "0"},
                   {"SLURM_NTASKS", "1"}};
  ExpectPlace(Place({}, env), 1, 2, 1, 2, "torchrun");
  Env no_torch = env;
  no_torch.erase("RANK");
  no_torch.erase("WORLD_SIZE");
  ExpectPlace(Place({}, no_torch), 0, 1, 0, 1, "OpenMPI");
}

TEST(DiscoverRank, IncompleteSetIsAnErrorThatNamesWhatIsMissing) {
  DS_EXPECT_ERROR(Discover({}, {{"RANK", "1"}}), kInvalidArgument,
                  "RANK=1 but not WORLD_SIZE");
  DS_EXPECT_ERROR(Discover({}, {{"WORLD_SIZE", "2"}}), kInvalidArgument,
                  "WORLD_SIZE=2 but not RANK");
  DS_EXPECT_ERROR(Discover({}, {{"LOCAL_RANK", "1"}}), kInvalidArgument,
                  "LOCAL_RANK=1 but not RANK");
  DS_EXPECT_ERROR(Discover({}, {{"PMI_RANK", "1"}}), kInvalidArgument,
                  "PMI_RANK=1 but not PMI_SIZE");
  DS_EXPECT_ERROR(Discover({}, {{"FLUX_TASK_RANK", "1"}}), kInvalidArgument,
                  "FLUX_TASK_RANK=1 but not FLUX_JOB_SIZE");
  DS_EXPECT_ERROR(Discover({}, {{"SLURM_PROCID", "1"}}), kInvalidArgument,
                  "SLURM_PROCID=1 but not SLURM_NTASKS");
  // It doesn't fall through to a set of an outer launcher.
  DS_EXPECT_ERROR(
      Discover({},
               {{"RANK", "1"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}}),
      kInvalidArgument, "RANK=1 but not WORLD_SIZE");
}

TEST(DiscoverRank, SetWithoutItsRankLeavesTheLaterOnes) {
  // export WORLD_SIZE=$SLURM_NTASKS in a batch script, then srun; and mpirun of
  // a script that sets LOCAL_RANK.
  const Env slurm = {
      {"WORLD_SIZE", "3"}, {"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "3"}};
  ExpectPlace(Place({}, slurm), 1, 3, 1, 3, "Slurm");
  const Env mpi = {{"LOCAL_RANK", "1"},
                   {"OMPI_COMM_WORLD_RANK", "1"},
                   {"OMPI_COMM_WORLD_SIZE", "3"}};
  ExpectPlace(Place({}, mpi), 1, 3, 1, 3, "OpenMPI");
}

TEST(DiscoverRank, SlurmAllocationWithoutATaskNamesNoRank) {
  DS_ASSERT_OK_AND_ASSIGN(auto place, Discover({}, {{"SLURM_NTASKS", "4"}}));
  EXPECT_FALSE(place.has_value());
  // A batch script is no task, though sbatch sets its rank; srun's tasks are.
  Env batch = {{"ENVIRONMENT", "BATCH"},
               {"SLURM_JOB_ID", "7"},
               {"SLURM_PROCID", "0"},
               {"SLURM_LOCALID", "0"},
               {"SLURM_NTASKS", "4"}};
  DS_ASSERT_OK_AND_ASSIGN(place, Discover({}, batch));
  EXPECT_FALSE(place.has_value());
  batch["SLURM_STEP_ID"] = "0";
  ExpectPlace(Place({}, batch), 0, 4, 0, 4, "Slurm");
}

TEST(DiscoverRank, FlagsWinOverTheEnvironment) {
  const Env env = {{"RANK", "0"}, {"WORLD_SIZE", "2"}};
  ExpectPlace(Place({.rank = "2", .world_size = "3"}, env), 2, 3, 2, 3,
              "--rank");
  // The world is the plan's where no launcher agrees with the rank.
  ExpectPlace(Place({.rank = "2"}, env), 2, 3, 2, 3, "--rank");
  ExpectPlace(Place({.rank = "1"}, {}), 1, 3, 1, 3, "--rank");
  ExpectPlace(Place({.rank = "1", .local_rank = "0"}, {}), 1, 3, 0, 3,
              "--rank");
}

TEST(DiscoverRank, RankFlagTakesItsLaunchersWorldSize) {
  // dsrun PLAN --rank $LOCAL_RANK under torchrun with too few ranks.
  EXPECT_EQ(Place({.rank = "1"}, {{"RANK", "1"}, {"WORLD_SIZE", "2"}}).world,
            2);
  // Slurm's may be of an allocation around hand-started ranks.
  EXPECT_EQ(Place({.rank = "0"}, {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}})
                .world,
            3);
}

TEST(DiscoverRank, EmptyRankSaysWhoExpandedIt) {
  DS_EXPECT_ERROR(Discover({.rank = ""}, {}), kInvalidArgument,
                  "--rank is empty: the launcher's shell expanded");
  DS_EXPECT_ERROR(Discover({.rank = ""}, {{"RANK", "0"}, {"WORLD_SIZE", "3"}}),
                  kInvalidArgument, "too early");
}

TEST(DiscoverRank, LocalRankFlagAloneNamesNoRank) {
  DS_ASSERT_OK_AND_ASSIGN(auto place, Discover({.local_rank = "0"}, {}));
  EXPECT_FALSE(place.has_value());
  // deepspeed sets the variables and appends the flag.
  ExpectPlace(Place({.local_rank = "1"},
                    {{"RANK", "1"}, {"WORLD_SIZE", "3"}, {"LOCAL_RANK", "1"}}),
              1, 3, 1, 3, "torchrun");
  // Where the launcher tells itself, it is not looked at.
  for (const char* flag : {"-1", "7", "", "x"}) {
    ExpectPlace(
        Place({.local_rank = flag},
              {{"RANK", "1"}, {"WORLD_SIZE", "3"}, {"LOCAL_RANK", "1"}}),
        1, 3, 1, 3, "torchrun");
  }
  ExpectPlace(
      Place({.local_rank = "0"}, {{"PMI_RANK", "2"}, {"PMI_SIZE", "3"}}), 2, 3,
      0, 3, "PMI");
}

TEST(DiscoverRank, SpawnStartsRanksWhateverIsSet) {
  DS_ASSERT_OK_AND_ASSIGN(
      const auto place,
      Discover({.spawn = "3"}, {{"RANK", "0"}, {"WORLD_SIZE", "1"}}));
  EXPECT_FALSE(place.has_value());
  DS_EXPECT_ERROR(Discover({.rank = "0", .spawn = "3"}, {}), kInvalidArgument,
                  "give one of the two");
}

TEST(CheckSpawn, WantsThePlansRanks) {
  DS_ASSERT_OK(CheckSpawn("3", 3, "plan"));
  DS_EXPECT_ERROR(
      CheckSpawn("2", 3, "plan"), kFailedPrecondition,
      "plan: --spawn starts 2 rank(s), the plan has 3; start 3 (dsrun "
      "plan)");
  DS_EXPECT_ERROR(CheckSpawn("", 3, "plan"), kInvalidArgument,
                  "--spawn is \"\"");
}

TEST(DiscoverRank, RefusesNumbersThatAreNone) {
  DS_EXPECT_ERROR(Discover({.rank = "one"}, {}), kInvalidArgument,
                  "--rank is \"one\"");
  DS_EXPECT_ERROR(Discover({.rank = "-1"}, {}), kInvalidArgument,
                  "--rank is \"-1\"");
  DS_EXPECT_ERROR(Discover({.rank = "3"}, {}), kInvalidArgument,
                  "--rank is 3; with 3 ranks it is 0 to 2");
  DS_EXPECT_ERROR(Discover({.rank = "0", .world_size = "0"}, {}),
                  kInvalidArgument, "--world-size is \"0\"");
  DS_EXPECT_ERROR(Discover({.world_size = "3"}, {}), kInvalidArgument,
                  "--world-size needs --rank");
  DS_EXPECT_ERROR(Discover({}, {{"RANK", "3"}, {"WORLD_SIZE", "3"}}),
                  kInvalidArgument, "RANK is \"3\"; a number from 0 to 2");
  DS_EXPECT_ERROR(Discover({}, {{"RANK", ""}, {"WORLD_SIZE", "3"}}),
                  kInvalidArgument, "RANK is \"\"");
}

TEST(CheckPlace, RefusesAnotherWorldSizeWithTheRightCommand) {
  const struct {
    const char* source;
    const char* command;
  } cases[] = {
      {"torchrun", "torchrun --nproc-per-node 4 --no-python dsrun $plan"},
      {"deepspeed", "deepspeed --num_gpus 4 --no_python dsrun $plan"},
      {"OpenMPI", "mpirun -n 4 dsrun $plan"},
      {"PMI", "mpiexec -n 4 dsrun $plan"},
      {"MVAPICH2", "mpiexec -n 4 dsrun $plan"},
      {"Slurm", "srun -n 4 dsrun $plan"},
      {"flux", "flux run -n 4 dsrun $plan"},
      {"--rank", "dsrun $plan --rank R --world-size 4 for each R from 0 to 3"},
  };
  for (const auto& c : cases) {
    const RankPlace place = {
        .rank = 0, .world = 2, .local_world = 2, .source = c.source};
    DS_EXPECT_ERROR(
        CheckPlace(place, 4, "$plan"), kFailedPrecondition,
        absl::StrCat("$plan: the launch has 2 rank(s) (", c.source,
                     "), the plan has 4; start 4 (", c.command,
                     ", or dsrun $plan --spawn 4, which starts them itself)"));
    DS_ASSERT_OK(CheckPlace(place, 2, "$plan"));
  }
}

TEST(CheckPlace, RefusesRanksOnSeveralHosts) {
  const RankPlace some = {.rank = 3,
                          .world = 4,
                          .local_rank = 1,
                          .local_world = 2,
                          .source = "torchrun"};
  DS_EXPECT_ERROR(
      CheckPlace(some, 4, "plan"), kFailedPrecondition,
      "plan: the launch spans several hosts (torchrun: 2 of 4 ranks "
      "are on this one); ranks share one host's memory");
  const RankPlace counted = Place({}, {{"SLURM_PROCID", "2"},
                                       {"SLURM_NTASKS", "3"},
                                       {"SLURM_STEP_NUM_NODES", "2"}});
  EXPECT_TRUE(counted.knows_hosts);
  DS_EXPECT_ERROR(
      CheckPlace(counted, 3, "plan"), kFailedPrecondition,
      "(Slurm: 2 hosts); ranks share one host's memory: start all 3");
}

TEST(LaunchLine, TellsWorldLauncherMapMasterAndPlan) {
  const Env env = {{"MASTER_ADDR", "h"}, {"MASTER_PORT", "29500"}};
  const auto get = [&env](const char* name) -> const char* {
    const auto at = env.find(name);
    return at == env.end() ? nullptr : at->second.c_str();
  };
  RankPlace place = {.world = 4, .local_world = 4, .source = "torchrun"};
  EXPECT_EQ(LaunchLine(place, get, "box", "62bf"),
            "world 4 (torchrun), rank map 0-3 on box, master h:29500, plan set "
            "62bf");
  place.world = place.local_world = 1;
  place.source = "started here";
  EXPECT_EQ(LaunchLine(place, get, "box", "62bf"),
            "world 1 (started here), rank map 0 on box, master a Unix socket, "
            "plan set 62bf");
}

TEST(LaunchId, IsSharedWithinALaunchOnly) {
  const auto id = [](const Env& env, const char* launcher = "") {
    return LaunchId(
        [&env](const char* name) -> const char* {
          const auto at = env.find(name);
          return at == env.end() ? nullptr : at->second.c_str();
        },
        launcher, "plan-a");
  };
  const Env a0 = {{"RANK", "0"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "1"}};
  const Env a1 = {{"RANK", "1"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "1"}};
  const Env b = {{"RANK", "0"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "2"}};
  EXPECT_EQ(id(a0), id(a1));
  EXPECT_NE(id(a0), id(b));
  EXPECT_NE(id(a0), id({{"MASTER_ADDR", "h"},
                        {"MASTER_PORT", "1"},
                        {"TORCHELASTIC_RUN_ID", "x"}}));
  EXPECT_EQ(id({{"RANK", "0"}}), "plan=plan-a");
  // Two of hydra's at once.
  EXPECT_NE(id({{"PMI_RANK", "0"}}, "7@1"), id({{"PMI_RANK", "0"}}, "8@1"));
}

}  // namespace
}  // namespace deepslice
