// The test program starts itself as ranks: what a rank then does is named by
// its last argument.
#include "runtime/spawn.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "runtime/comm/shm.h"
#include "schema/base/exit_code.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

int FailRank(const SpawnedRank& place, const absl::Status& why) {
  ReportFailure(place.report_fd, why);
  return ExitCodeOf(why);
}

int RankMain(const SpawnedRank& place, const std::string& deed) {
  if (deed == "damaged" && place.rank == 2) {
    return FailRank(place, absl::DataLossError("rank_0002.plan: damaged"));
  }
  if (deed == "interrupted" && place.rank == 0) return kExitInterrupted;
  if (deed == "interrupted young" && place.rank == 0) raise(SIGINT);
  if (deed == "silent" && place.rank == 1) return 7;
  ShmOptions options = {.rank = place.rank, .world = place.world};
  options.sockets = place.sockets;
  options.plan_set_id = "set";
  auto comm = ConnectShm(options);
  if (!comm.ok()) return FailRank(place, comm.status());
  for (int i = 0; deed == "forever" || i < 20; ++i) {
    const int killed = deed == "killed0" ? 0 : deed == "killed1" ? 1 : -1;
    if (i == 7 && place.rank == killed) raise(SIGKILL);
    if (deed == "forever") absl::SleepFor(absl::Milliseconds(1));
    const absl::Status status = (*comm)->Barrier();
    if (!status.ok()) return FailRank(place, status);
  }
  // Rank 0 alone can read; all see the same byte.
  char byte = 0;
  const bool got = read(STDIN_FILENO, &byte, 1) == 1;
  if (got != (deed == "reads" && place.rank == 0)) {
    return FailRank(place, absl::InternalError(absl::StrCat("rank ", place.rank,
                                                            " read ", got)));
  }
  return kExitDone;
}

LaunchEnd Launched(const std::string& deed, int world = 3) {
  auto end = RunRanks({deed}, world);
  EXPECT_TRUE(end.ok()) << end.status().ToString();
  return end.value_or(LaunchEnd{-1, end.status()});
}

// Whether any process still holds the write end of `fd`, for up to 2 s.
bool AllGone(int fd) {
  char byte;
  for (int i = 0; i < 200; ++i) {
    if (read(fd, &byte, 1) == 0) return true;
    absl::SleepFor(absl::Milliseconds(10));
  }
  return false;
}

// A supervisor in a process of its own that runs ranks "forever", and a pipe
// that all its processes hold.
struct Launch {
  Launch() {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    pid = fork();
    if (pid == 0) {
      close(ends[0]);
      const auto end = RunRanks({"forever"}, 3);
      _exit(end.ok() ? end->exit_code : 99);
    }
    close(ends[1]);
    gone_fd = ends[0];
    absl::SleepFor(absl::Milliseconds(300));  // the ranks are at work
  }
  ~Launch() { close(gone_fd); }
  pid_t pid;
  int gone_fd;
};

TEST(RunRanks, DoneWhenAllRanksAre) {
  const LaunchEnd end = Launched("done");
  EXPECT_EQ(end.exit_code, 0) << end.why.ToString();
  DS_ASSERT_OK(end.why);
}

TEST(RunRanks, OnlyRankZeroReadsStdin) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(write(ends[1], "abc", 3), 3);
  const int saved = dup(STDIN_FILENO);
  dup2(ends[0], STDIN_FILENO);
  const LaunchEnd end = Launched("reads");
  dup2(saved, STDIN_FILENO);
  for (int fd : {ends[0], ends[1], saved}) close(fd);
  EXPECT_EQ(end.exit_code, 0) << end.why.ToString();
}

TEST(RunRanks, KilledRankEndsAllAndIsNamed) {
  for (const int rank : {0, 1}) {
    const absl::Time start = absl::Now();
    const LaunchEnd end = Launched(absl::StrCat("killed", rank));
    EXPECT_LT(absl::Now() - start, absl::Seconds(2));
    EXPECT_EQ(end.exit_code, kExitRankFailed);
    DS_EXPECT_ERROR(end.why, kUnavailable,
                    absl::StrCat("rank ", rank, " (pid"));
    DS_EXPECT_ERROR(end.why, kUnavailable, "signal 9 (Killed)");
  }
}

TEST(RunRanks, ARanksOwnFailureOutranksWhatOthersSayOfIt) {
  const LaunchEnd end = Launched("damaged");
  EXPECT_EQ(end.exit_code, kExitBadInput);
  DS_EXPECT_ERROR(end.why, kDataLoss, "rank_0002.plan: damaged");
}

TEST(RunRanks, ARankThatEndsWithoutAReasonIsNamedByTheOthers) {
  const LaunchEnd end = Launched("silent");
  EXPECT_EQ(end.exit_code, kExitRankFailed);
  EXPECT_TRUE(absl::StrContains(end.why.message(), "rank 1"))
      << end.why.ToString();
}

TEST(RunRanks, InterruptedRankZeroEndsAllInSilence) {
  for (const char* deed : {"interrupted", "interrupted young"}) {
    const LaunchEnd end = Launched(deed);
    EXPECT_EQ(end.exit_code, kExitInterrupted);
    DS_ASSERT_OK(end.why);
  }
}

TEST(RunRanks, SigtermEndsAllRanks) {
  Launch launch;
  kill(launch.pid, SIGTERM);
  int status = 0;
  ASSERT_EQ(waitpid(launch.pid, &status, 0), launch.pid);
  EXPECT_EQ(WEXITSTATUS(status), 143);
  EXPECT_TRUE(AllGone(launch.gone_fd));
}

TEST(RunRanks, NoRankOutlivesAKilledSupervisor) {
  Launch launch;
  kill(launch.pid, SIGKILL);
  ASSERT_EQ(waitpid(launch.pid, nullptr, 0), launch.pid);
  EXPECT_TRUE(AllGone(launch.gone_fd));
}

TEST(SpawnedRank, FlagIsReadBackAndHandwrittenOnesAreRefused) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const SpawnedRank place = {1, 3, {ends[0]}, ends[1]};
  DS_ASSERT_OK_AND_ASSIGN(const SpawnedRank back,
                          SpawnedRank::FromFlag(place.ToFlag()));
  EXPECT_EQ(back.rank, 1);
  EXPECT_EQ(back.world, 3);
  EXPECT_EQ(back.sockets, place.sockets);
  EXPECT_EQ(back.report_fd, ends[1]);
  for (const char* text : {"", "1", "1/3", "1/3:4", "3/3:0:1", "1/3:x:1",
                           "0/3:0:1", "1/3:999:1", "1/3:0:999"}) {
    DS_EXPECT_ERROR(SpawnedRank::FromFlag(text), kInvalidArgument,
                    "--spawned=");
  }
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace deepslice

int main(int argc, char** argv) {
  const std::string flag = "--spawned=";
  if (argc == 3 && std::strncmp(argv[1], flag.c_str(), flag.size()) == 0) {
    const auto place = deepslice::SpawnedRank::FromFlag(argv[1] + flag.size());
    if (!place.ok()) return 98;
    return deepslice::RankMain(*place, argv[2]);
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
