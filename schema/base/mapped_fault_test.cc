#include "schema/base/mapped_fault.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gtest/gtest.h"
#include "schema/base/file.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

char volatile sink;

std::string TwoPages(const std::string& name) {
  const std::string path = JoinPath(testing::TempDir(), name);
  EXPECT_TRUE(WriteFile(path, std::string(2 * getpagesize(), 'x')).ok());
  return path;
}

TEST(MappedFaultDeathTest, ACutFileIsNamed) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const std::string path = TwoPages("cut\nfile");
  EXPECT_EXIT(
      {
        ReportMappedFaults("prog");
        const auto file = MappedFile::Open(path);
        const size_t page = getpagesize();
        if (truncate(path.c_str(), page) != 0) _exit(9);
        sink = file->bytes()[page + 10];
      },
      testing::ExitedWithCode(3),
      "prog: .*cut.file: was cut while it was in use: byte 4106 of 8192 is "
      "gone; copy the file again");
  unlink(path.c_str());
}

TEST(MappedFaultDeathTest, OtherMemoryIsNotBlamedOnAFile) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const std::string path = TwoPages("other");
  EXPECT_EXIT(
      {
        ReportMappedFaults("prog");
        auto file = MappedFile::Open(path);
        const char* at = file->bytes().data();
        if (truncate(path.c_str(), 0) != 0) _exit(9);
        ForgetMapping(at);
        sink = *at;
      },
      testing::ExitedWithCode(1), "prog: memory behind a file is gone");
  unlink(path.c_str());
}

TEST(MappedFaultDeathTest, AKillIsStillAKill) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        ReportMappedFaults("prog");
        kill(getpid(), SIGBUS);
      },
      testing::KilledBySignal(SIGBUS), "");
}

TEST(MappedFault, MoreMappingsThanNamesAreFine) {
  const std::string path = TwoPages("many");
  std::vector<MappedFile> files;
  for (int i = 0; i < 600; ++i) files.push_back(*MappedFile::Open(path));
  files.clear();
  EXPECT_EQ(MappedFile::Open(path)->bytes().size(),
            2 * static_cast<size_t>(getpagesize()));
  unlink(path.c_str());
}

}  // namespace
}  // namespace deepslice
