#include "runtime/launch_host.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

TEST(CheckMasterIsHere, TakesThisHostByAnyName) {
  for (const std::string& name :
       {std::string("localhost"), std::string("127.0.0.1"),
        std::string("127.0.1.1"), std::string("::1"), std::string("0.0.0.0"),
        HostName()}) {
    const absl::Status status = CheckMasterIsHere(name);
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
}

TEST(CheckMasterIsHere, RefusesAnotherHost) {
  // 203.0.113.0/24 and 2001:db8::/32 are for documents: no host has them.
  for (const char* address : {"203.0.113.77", "2001:db8::77"}) {
    DS_EXPECT_ERROR(
        CheckMasterIsHere(address), kFailedPrecondition,
        absl::StrCat("MASTER_ADDR=", address, " is another host than this"));
  }
}

TEST(CheckMasterIsHere, NameWithoutAddressIsNamedWithTheTries) {
  const absl::Status status =
      CheckMasterIsHere("no such\nname", absl::Milliseconds(1));
  DS_EXPECT_ERROR(status, kUnavailable,
                  "MASTER_ADDR=no such\\nname does not resolve (");
  DS_EXPECT_ERROR(status, kUnavailable, "3 tries)");
}

TEST(LauncherProcess, IsTheProxyAboveAnyShells) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_EQ(LauncherProcess(), "");
  const pid_t proxy = fork();
  if (proxy == 0) {
    prctl(PR_SET_NAME, "hydra_pmi_proxy");
    const auto wanted = absl::StrCat(getpid(), "@");
    if (fork() == 0) {
      prctl(PR_SET_NAME, "sh");
      if (fork() == 0) {
        const std::string found = LauncherProcess();
        const char ok = found.rfind(wanted, 0) == 0 ? 'y' : 'n';
        _exit(write(ends[1], &ok, 1) == 1 ? 0 : 1);
      }
      wait(nullptr);
      _exit(0);
    }
    wait(nullptr);
    _exit(0);
  }
  char ok = 0;
  ASSERT_EQ(read(ends[0], &ok, 1), 1);
  EXPECT_EQ(ok, 'y');
  waitpid(proxy, nullptr, 0);
  close(ends[0]);
  close(ends[1]);
}

TEST(ParentWatch, TellsWhenTheParentHasEnded) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    const pid_t me = getpid();
    if (fork() == 0) {
      const ParentWatch watch(me, [&](pid_t ended) {
        _exit(ended == me && write(ends[1], "y", 1) == 1 ? 0 : 1);
      });
      absl::SleepFor(absl::Seconds(5));
      _exit(1);
    }
    absl::SleepFor(absl::Milliseconds(300));
    _exit(0);
  }
  close(ends[1]);
  const absl::Time start = absl::Now();
  char ok = 0;
  ASSERT_EQ(read(ends[0], &ok, 1), 1);
  EXPECT_EQ(ok, 'y');
  EXPECT_LT(absl::Now() - start, absl::Seconds(2));
  waitpid(parent, nullptr, 0);
  close(ends[0]);
}

TEST(ParentWatch, IsSilentWhileTheParentLives) {
  bool told = false;
  {
    const ParentWatch watch(getppid(), [&](pid_t) { told = true; });
    EXPECT_EQ(watch.Ended(), 0);
    absl::SleepFor(absl::Milliseconds(600));
  }
  EXPECT_FALSE(told);
}

}  // namespace
}  // namespace deepslice
