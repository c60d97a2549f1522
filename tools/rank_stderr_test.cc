#include "tools/rank_stderr.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "absl/strings/str_format.h"
#include "gtest/gtest.h"

namespace deepslice {
namespace {

TEST(PrefixStderr, EveryLineHasThePrefixAndComesWhole) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    PrefixStderr("[rank 1] ");
    absl::FPrintF(stderr, "one %d", 1);
    std::fputs(", still one\ntwo\n\n", stderr);
    std::fputs((std::string(5000, 'x') + "\n").c_str(), stderr);
    std::fputs("not ended", stderr);
    std::fclose(stderr);
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char block[8192];
  for (ssize_t n; (n = read(ends[0], block, sizeof(block))) > 0;) {
    text.append(block, n);
  }
  close(ends[0]);
  waitpid(pid, nullptr, 0);
  EXPECT_EQ(text,
            "[rank 1] one 1, still one\n[rank 1] two\n[rank 1] \n"
            "[rank 1] " +
                std::string(5000, 'x') + "\n[rank 1] not ended\n");
}

}  // namespace
}  // namespace deepslice
