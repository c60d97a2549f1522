#include "runtime/launch.h"

#include <map>
#include <string>

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
  DS_EXPECT_ERROR(Discover({}, {{"SLURM_PROCID", "1"}}), kInvalidArgument,
                  "SLURM_PROCID=1 but not SLURM_NTASKS");
  // It doesn't fall through to a set of an outer launcher.
  DS_EXPECT_ERROR(
      Discover({},
               {{"RANK", "1"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}}),
      kInvalidArgument, "RANK=1 but not WORLD_SIZE");
}

TEST(DiscoverRank, SlurmAllocationWithoutATaskNamesNoRank) {
  DS_ASSERT_OK_AND_ASSIGN(auto place, Discover({}, {{"SLURM_NTASKS", "4"}}));
  EXPECT_FALSE(place.has_value());
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
  const RankPlace place = {
      .rank = 0, .world = 2, .local_world = 2, .source = "torchrun"};
  DS_EXPECT_ERROR(CheckPlace(place, 4, "plan"), kFailedPrecondition,
                  "plan: the launch has 2 rank(s) (torchrun), the plan has 4");
  DS_EXPECT_ERROR(CheckPlace(place, 4, "plan"), kFailedPrecondition,
                  "torchrun --nproc-per-node 4 --no-python dsrun plan");
  DS_ASSERT_OK(CheckPlace(place, 2, "plan"));
}

TEST(CheckPlace, RefusesRanksOnSeveralHosts) {
  const RankPlace place = {.rank = 3,
                           .world = 4,
                           .local_rank = 1,
                           .local_world = 2,
                           .source = "Slurm"};
  DS_EXPECT_ERROR(CheckPlace(place, 4, "plan"), kFailedPrecondition,
                  "2 of 4 ranks are on this host");
}

TEST(LaunchId, IsSharedWithinALaunchOnly) {
  const auto id = [](const Env& env) {
    return LaunchId(
        [&env](const char* name) -> const char* {
          const auto at = env.find(name);
          return at == env.end() ? nullptr : at->second.c_str();
        },
        "plan-a");
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
}

}  // namespace
}  // namespace deepslice
