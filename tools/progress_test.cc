#include "tools/progress.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace deepslice {
namespace {

// Time and a screen of its own.
struct Screen {
  absl::Time time = absl::UnixEpoch();
  std::vector<std::string> written;

  Progress::Out Out(bool terminal, int columns = 80) {
    return {terminal, columns,
            [this](const std::string& text) { written.push_back(text); },
            [this] { return time; }};
  }
  void Pass(double seconds) { time += absl::Seconds(seconds); }
};

TEST(BytesText, HasThreeDigits) {
  EXPECT_EQ(BytesText(0), "0 bytes");
  EXPECT_EQ(BytesText(999), "999 bytes");
  EXPECT_EQ(BytesText(1000), "1.00 kB");
  EXPECT_EQ(BytesText(13.46e9), "13.5 GB");
  EXPECT_EQ(BytesText(999.6e6), "1.00 GB");
  EXPECT_EQ(BytesText(412e3), "412 kB");
  EXPECT_EQ(BytesText(2e18), "2000 PB");
}

TEST(Progress, IsALineEveryTenSecondsWhereThereIsNoTerminal) {
  Screen screen;
  Progress progress(true, screen.Out(false));
  for (int second = 0; second <= 25; ++second) {
    progress.Report("packed", 40e6 * second, 2e9);
    screen.Pass(1);
  }
  ASSERT_EQ(screen.written.size(), 2u);
  EXPECT_EQ(screen.written[0],
            "packed 400 MB of 2.00 GB, 40.0 MB/s, 40 s left\n");
  EXPECT_EQ(screen.written[1],
            "packed 800 MB of 2.00 GB, 40.0 MB/s, 30 s left\n");
}

TEST(Progress, IsRedrawnAndTakenAwayOnATerminal) {
  Screen screen;
  {
    Progress progress(true, screen.Out(true, 30));
    progress.Report("loaded", 0, 100e6);
    screen.Pass(0.1);
    progress.Report("loaded", 10e6, 100e6);  // too soon
    screen.Pass(0.4);
    progress.Report("loaded", 50e6, 100e6);
    ASSERT_EQ(screen.written.size(), 1u);
    // Cut to the width less one: a line that wraps stays.
    EXPECT_EQ(screen.written[0], "\r\033[Kloaded 50.0 MB of 100 MB, 100");
  }
  EXPECT_EQ(screen.written.back(), "\r\033[K");
}

TEST(Progress, CountsEachPhaseFromItsFirstReport) {
  Screen screen;
  Progress progress(true, screen.Out(false));
  progress.Report("compiled", 1, 9, "kernels");
  screen.Pass(20);
  progress.Report("compiled", 3, 9, "kernels");
  EXPECT_EQ(screen.written.back(),
            "compiled 3 of 9 kernels, 0.1/s, 60 s left\n");
  progress.Report("packed", 0, 1000);  // the kernels' time is not its own
  screen.Pass(10);
  progress.Report("packed", 100, 1000);
  EXPECT_EQ(screen.written.back(),
            "packed 100 bytes of 1.00 kB, 10 bytes/s, 90 s left\n");
}

TEST(Progress, SaysNothingWhenOff) {
  Screen screen;
  Progress progress(false, screen.Out(true));
  progress.Report("packed", 0, 10);
  screen.Pass(60);
  progress.Report("packed", 5, 10);
  progress.Clear();
  EXPECT_TRUE(screen.written.empty());
}

TEST(Progress, SurvivesTotalsThatAreExceeded) {
  Screen screen;
  Progress progress(true, screen.Out(false));
  progress.Report("packed", 10, 5);
  screen.Pass(11);
  progress.Report("packed", 9, 5);
  EXPECT_TRUE(absl::StartsWith(screen.written.back(), "packed 9 bytes of"));
}

}  // namespace
}  // namespace deepslice
