#include "runtime/comm/process_stat.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gtest/gtest.h"

namespace deepslice {
namespace {

TEST(ProcessStat, NameMayHoldBlanksAndBrackets) {
  const auto stat = ParseProcessStat(
      "77 (a) S (b) T 5 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 998 0 0\n");
  ASSERT_TRUE(stat.has_value());
  EXPECT_EQ(stat->name, "a) S (b");
  EXPECT_EQ(stat->state, 'T');
  EXPECT_EQ(stat->parent, 5);
  EXPECT_EQ(stat->start, 998u);
}

TEST(ProcessStat, OtherLinesAreNone) {
  for (const char* line :
       {"", "77", "77 (a", "77 )a( S 5", "77 (a) S 5 1",
        "77 (a) SS 5 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 998",
        "77 (a) S x 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 998"}) {
    EXPECT_FALSE(ParseProcessStat(line).has_value()) << line;
  }
}

TEST(ProcessStat, TellsOfAStoppedChild) {
  const pid_t pid = fork();
  if (pid == 0) {
    raise(SIGSTOP);
    _exit(0);
  }
  int status;
  ASSERT_EQ(waitpid(pid, &status, WUNTRACED), pid);
  const auto stat = ReadProcessStat(pid);
  ASSERT_TRUE(stat.has_value());
  EXPECT_EQ(stat->state, 'T');
  EXPECT_EQ(stat->parent, getpid());
  EXPECT_TRUE(RunsSameProgram(pid, getpid()));
  EXPECT_EQ(ReadCommandLine(pid), ReadCommandLine(getpid()));
  EXPECT_FALSE(ReadCommandLine(pid).empty());
  kill(pid, SIGKILL);
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_FALSE(ReadProcessStat(pid).has_value());
  EXPECT_FALSE(RunsSameProgram(pid, getpid()));
}

}  // namespace
}  // namespace deepslice
