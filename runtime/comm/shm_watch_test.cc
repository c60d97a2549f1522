// Ranks that are stopped, slow, or starved.
#include "runtime/comm/shm_watch.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "runtime/comm/ranks_for_test.h"
#include "runtime/comm/shm.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

using Body = std::function<std::string()>;

ShmOptions Options(const std::string& address, int rank, int world) {
  ShmOptions o;
  o.rank = rank;
  o.world = world;
  o.address = address;
  o.plan_set_id = "one set";
  o.init_timeout = absl::Seconds(10);
  o.stopped_timeout = absl::Seconds(1);
  return o;
}

// Stops this process from another, which lets it go on after `time`.
void StopMyselfFor(absl::Duration time) {
  const pid_t me = getpid();
  if (fork() == 0) {
    kill(me, SIGSTOP);
    absl::SleepFor(time);
    kill(me, SIGCONT);
    _exit(0);
  }
  absl::SleepFor(absl::Milliseconds(100));  // the stop has come
}

// Steps until a call fails; its status, after how many steps.
std::string StepUntilFailure(Comm* comm) {
  for (int step = 0;; ++step) {
    comm->SetStep(step);
    const absl::Status s = comm->Barrier();
    if (!s.ok()) return s.ToString();
    absl::SleepFor(absl::Milliseconds(5));
  }
}

void StoppedRankIsLost(int stopped) {
  const std::string address = NewTestAddress();
  std::vector<Body> bodies;
  for (int r = 0; r < 3; ++r) {
    bodies.push_back([&, r]() -> std::string {
      auto comm = ConnectShm(Options(address, r, 3));
      if (!comm.ok()) return comm.status().ToString();
      if (r == stopped) {
        std::thread([] {
          absl::SleepFor(absl::Milliseconds(100));
          kill(getpid(), SIGSTOP);
        }).detach();
      }
      return StepUntilFailure(comm->get());
    });
  }
  const absl::Time start = absl::Now();
  const auto results = RunProcesses(bodies);
  EXPECT_LT(absl::Now() - start, absl::Seconds(4));
  for (int r = 0; r < 3; ++r) {
    if (r == stopped) {  // or it would stay for ever
      EXPECT_EQ(results[r], "killed");
      continue;
    }
    EXPECT_TRUE(absl::StrContains(
        results[r], absl::StrCat("ABORTED: rank ", stopped, " (pid ")))
        << results[r];
    EXPECT_TRUE(absl::StrContains(
        results[r], "no heartbeat for 1.0 s, the process is stopped"))
        << results[r];
  }
}

TEST(ShmWatch, StoppedRankIsLost) { StoppedRankIsLost(1); }
TEST(ShmWatch, StoppedRankZeroIsLost) { StoppedRankIsLost(0); }

TEST(ShmWatch, RankThatGoesOnInTimeIsNotLost) {
  const std::string address = NewTestAddress();
  std::vector<Body> bodies;
  for (int r = 0; r < 2; ++r) {
    bodies.push_back([&, r]() -> std::string {
      ShmOptions options = Options(address, r, 2);
      options.stopped_timeout = absl::Seconds(2);
      auto comm = ConnectShm(options);
      if (!comm.ok()) return comm.status().ToString();
      if (r == 1) StopMyselfFor(absl::Milliseconds(700));
      const absl::Status first = (*comm)->Barrier();
      if (!first.ok()) return first.ToString();
      return (*comm)->Barrier().ToString();
    });
  }
  for (const std::string& r : RunProcesses(bodies)) EXPECT_EQ(r, "OK");
}

TEST(ShmWatch, AllStoppedTogetherGoOnTogether) {
  // Ctrl-Z, then fg: each stood still for longer than the limit.
  const std::string address = NewTestAddress();
  std::vector<Body> bodies;
  for (int r = 0; r < 2; ++r) {
    bodies.push_back([&, r]() -> std::string {
      auto comm = ConnectShm(Options(address, r, 2));
      if (!comm.ok()) return comm.status().ToString();
      if (!(*comm)->Barrier().ok()) return "first";
      StopMyselfFor(absl::Milliseconds(2500));
      const absl::Status status = (*comm)->Barrier();
      absl::SleepFor(absl::Milliseconds(600));
      return status.ok() ? (*comm)->Barrier().ToString() : status.ToString();
    });
  }
  for (const std::string& r : RunProcesses(bodies)) EXPECT_EQ(r, "OK");
}

TEST(ShmWatch, RankThatIsOnlySlowIsNamedOnceAndWaitedFor) {
  const std::string address = NewTestAddress();
  std::vector<Body> bodies;
  for (int r = 0; r < 3; ++r) {
    bodies.push_back([&, r]() -> std::string {
      std::string told;
      ShmOptions options = Options(address, r, 3);
      options.slow_timeout = absl::Milliseconds(300);
      options.on_slow = [&](absl::string_view text) {
        absl::StrAppend(&told, "<", text, ">");
      };
      auto comm = ConnectShm(options);
      if (!comm.ok()) return comm.status().ToString();
      for (int step = 0; step < 4; ++step) {
        (*comm)->SetStep(step);
        // Slower than a stopped rank may be, twice.
        if (r == 1 && step >= 2) absl::SleepFor(absl::Milliseconds(1200));
        float v = 2;
        const absl::Status s = (*comm)->AllReduceSum(&v, 1);
        if (!s.ok() || v != 6) return absl::StrCat(s.ToString(), " ", v);
      }
      return absl::StrCat("OK", told);
    });
  }
  std::string told;
  for (const std::string& r : RunProcesses(bodies)) {
    ASSERT_TRUE(absl::StartsWith(r, "OK")) << r;
    told += r.substr(2);
  }
  EXPECT_TRUE(absl::StartsWith(told, "<rank 1 (pid ")) << told;
  EXPECT_TRUE(absl::EndsWith(told,
                             "is slow: the others have waited 300ms for it at "
                             "step 2, all_reduce of 1 floats>"))
      << told;
  EXPECT_EQ(told.find('<', 1), std::string::npos) << told;
}

TEST(ShmWatch, RankZeroMayTakeItsTimeBetweenSteps) {
  const std::string address = NewTestAddress();
  std::vector<Body> bodies;
  for (int r = 0; r < 2; ++r) {
    bodies.push_back([&, r]() -> std::string {
      std::string told;
      ShmOptions options = Options(address, r, 2);
      options.slow_timeout = absl::Milliseconds(200);
      options.on_slow = [&](absl::string_view text) {
        absl::StrAppend(&told, text);
      };
      auto comm = ConnectShm(options);
      if (!comm.ok()) return comm.status().ToString();
      (*comm)->SetStep(0);
      int word = 5;
      if (r == 0) absl::SleepFor(absl::Milliseconds(900));
      const absl::Status s = (*comm)->Broadcast(&word, sizeof(word));
      return absl::StrCat(s.ToString(), told);
    });
  }
  for (const std::string& r : RunProcesses(bodies)) EXPECT_EQ(r, "OK");
}

TEST(ShmWatch, StarvedRankIsNotLost) {
  // Every core is busy with threads of higher priority than rank 1's.
  const std::string address = NewTestAddress();
  std::atomic<bool> stop = false;
  std::vector<std::thread> hogs;
  for (unsigned i = 0; i < 4 * std::thread::hardware_concurrency(); ++i) {
    hogs.emplace_back([&stop] {
      while (!stop.load(std::memory_order_relaxed)) {
      }
    });
  }
  std::vector<Body> bodies;
  for (int r = 0; r < 2; ++r) {
    bodies.push_back([&, r]() -> std::string {
      if (r == 1 && nice(19) == -1) return "nice";
      ShmOptions options = Options(address, r, 2);
      options.stopped_timeout = absl::Milliseconds(1);  // any pause is enough
      auto comm = ConnectShm(options);
      if (!comm.ok()) return comm.status().ToString();
      const absl::Time end = absl::Now() + absl::Seconds(2);
      for (int64_t go = 1; go != 0;) {
        if (r == 0) go = absl::Now() < end;
        absl::Status s = (*comm)->Broadcast(&go, sizeof(go));
        if (!s.ok()) return s.ToString();
      }
      return "OK";
    });
  }
  const auto results = RunProcesses(bodies);
  stop = true;
  for (std::thread& t : hogs) t.join();
  for (const std::string& r : results) EXPECT_EQ(r, "OK");
}

}  // namespace
}  // namespace deepslice
