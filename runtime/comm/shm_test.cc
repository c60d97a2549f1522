// What only processes can do: die, hang, start wrongly or not at all.
#include "runtime/comm/shm.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "runtime/comm/ranks_for_test.h"
#include "schema/base/file.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

using Body = std::function<std::string()>;

ShmOptions Options(const std::string& address, int rank, int world,
                   const std::string& set = "one set") {
  ShmOptions o;
  o.rank = rank;
  o.world = world;
  o.address = address;
  o.plan_set_id = set;
  o.init_timeout = absl::Seconds(10);
  return o;
}

Body Join(const ShmOptions& options) {
  return [options] {
    auto comm = ConnectShm(options);
    return comm.ok() ? (*comm)->Barrier().ToString() : comm.status().ToString();
  };
}

void ExpectAll(const std::vector<std::string>& results,
               const std::string& part) {
  for (size_t i = 0; i < results.size(); ++i) {
    EXPECT_TRUE(absl::StrContains(results[i], part))
        << "process " << i << ": " << results[i] << "\nwanted " << part;
  }
}

void KilledRankIsNamed(int killed) {
  const absl::Time start = absl::Now();
  const auto results =
      RunInRanks(CommKind::kShm, 4, [killed](Comm* comm) -> std::string {
        for (int step = 0;; ++step) {
          comm->SetStep(step);
          if (step == 3 && comm->rank() == killed) raise(SIGKILL);
          float v[3] = {};
          const absl::Status s = comm->AllReduceSum(v, 3);
          if (!s.ok()) return absl::StrCat(step, " ", s.ToString());
        }
      });
  EXPECT_LT(absl::Now() - start, absl::Seconds(3));
  for (int r = 0; r < 4; ++r) {
    if (r == killed) {
      EXPECT_EQ(results[r], "killed");
      continue;
    }
    EXPECT_TRUE(absl::StrContains(
        results[r], absl::StrCat("3 ABORTED: rank ", killed, " (pid ")))
        << results[r];
    EXPECT_TRUE(absl::StrContains(results[r], "was lost at step 3"))
        << results[r];
  }
}

TEST(ShmComm, KilledRankIsNamedByAllOthers) { KilledRankIsNamed(1); }
TEST(ShmComm, KilledRankZeroIsNamedByAllOthers) { KilledRankIsNamed(0); }

TEST(ShmComm, EndWithoutGoodbyeIsALoss) {
  const auto results =
      RunInRanks(CommKind::kShm, 3, [](Comm* comm) -> std::string {
        if (!comm->Barrier().ok()) return "failed";
        if (comm->rank() == 2) _exit(0);
        return comm->Barrier().ToString();
      });
  EXPECT_TRUE(absl::StrContains(results[0], "rank 2 (pid ")) << results[0];
  EXPECT_EQ(results[0], results[1]);
}

TEST(ShmComm, RankThatASignalEndsCancelsTheOthers) {
  const auto results =
      RunInRanks(CommKind::kShm, 3, [](Comm* comm) -> std::string {
        for (int step = 0;; ++step) {
          comm->SetStep(step);
          if (step == 3 && comm->rank() == 0) {
            LeaveShmBySignal(SIGINT);
            _exit(128 + SIGINT);
          }
          const absl::Status s = comm->Barrier();
          if (!s.ok()) return s.ToString();
        }
      });
  for (const int r : {1, 2}) {
    EXPECT_TRUE(absl::StartsWith(results[r], "CANCELLED: rank 0 (pid ")) << r;
    EXPECT_TRUE(absl::EndsWith(results[r], "was ended by signal 2 at step 3"))
        << results[r];
  }
}

TEST(ShmComm, HangBeyondTheDeadlineIsNamed) {
  const std::string address = NewTestAddress();
  std::vector<Body> bodies;
  for (int r = 0; r < 3; ++r) {
    bodies.push_back([&, r]() -> std::string {
      ShmOptions o = Options(address, r, 3);
      o.hang_timeout = absl::Milliseconds(300);
      auto comm = ConnectShm(o);
      if (!comm.ok()) return comm.status().ToString();
      (*comm)->SetStep(7);
      if (r == 1) absl::SleepFor(absl::Milliseconds(900));
      return (*comm)->Barrier().ToString();
    });
  }
  for (const std::string& r : RunProcesses(bodies)) {
    EXPECT_TRUE(absl::StrContains(r, "DEADLINE_EXCEEDED: rank 1 (pid ")) << r;
    EXPECT_TRUE(absl::StrContains(r, "300ms at step 7")) << r;
  }
}

TEST(ShmComm, SlowRankIsWaitedFor) {
  const auto results =
      RunInRanks(CommKind::kShm, 3, [](Comm* comm) -> std::string {
        if (comm->rank() == 1) absl::SleepFor(absl::Milliseconds(700));
        float v = 2;
        const absl::Status s = comm->AllReduceSum(&v, 1);
        return s.ok() ? absl::StrCat(v) : s.ToString();
      });
  ExpectAll(results, "6");
}

TEST(ShmRendezvous, RanksMayStartInAnyOrder) {
  const std::string address = NewTestAddress();
  const auto results =
      RunProcesses({Join(Options(address, 2, 3)), Join(Options(address, 1, 3)),
                    Join(Options(address, 0, 3))},
                   absl::Milliseconds(60));
  ExpectAll(results, "OK");
  EXPECT_FALSE(FileExists(address));
}

TEST(ShmRendezvous, InheritedSocketsNeedNoAddress) {
  DS_ASSERT_OK_AND_ASSIGN(const RankSockets sockets, MakeRankSockets(3));
  std::vector<Body> bodies;
  for (int r = 0; r < 3; ++r) {
    ShmOptions o = Options("", r, 3);
    o.sockets =
        r == 0 ? sockets.of_rank0 : std::vector<int>{sockets.of_others[r - 1]};
    bodies.push_back(Join(o));
  }
  const auto results = RunProcesses(bodies);
  ExpectAll(results, "OK");
  for (const int fd : sockets.of_rank0) close(fd);
  for (const int fd : sockets.of_others) close(fd);
}

TEST(ShmRendezvous, StartedChildThatDiesEarlyIsNamed) {
  DS_ASSERT_OK_AND_ASSIGN(const RankSockets sockets, MakeRankSockets(3));
  const auto close_all = [&](int but) {
    for (const int fd : sockets.of_rank0)
      if (but != 0) close(fd);
    for (int r = 1; r < 3; ++r)
      if (but != r) close(sockets.of_others[r - 1]);
  };
  std::vector<Body> bodies;
  for (int r = 0; r < 3; ++r) {
    bodies.push_back([&, r]() -> std::string {
      close_all(r);
      if (r == 2) return "ended";
      ShmOptions o = Options("", r, 3);
      o.sockets = r == 0 ? sockets.of_rank0
                         : std::vector<int>{sockets.of_others[r - 1]};
      return Join(o)();
    });
  }
  // As a launcher does, this process closes its copies when all have started.
  const absl::Time start = absl::Now();
  std::thread closer([&] {
    absl::SleepFor(absl::Milliseconds(300));
    close_all(-1);
  });
  const auto results = RunProcesses(bodies);
  closer.join();
  EXPECT_LT(absl::Now() - start, absl::Seconds(3));
  const std::string wanted = "ABORTED: rank 2 of 3 ended before it joined";
  EXPECT_EQ(results[0], wanted);
  EXPECT_EQ(results[1], wanted);
}

TEST(ShmRendezvous, MissingRanksAreNamedToAll) {
  const std::string address = NewTestAddress();
  std::vector<Body> bodies;
  for (const int r : {0, 1, 3}) {
    ShmOptions o = Options(address, r, 4);
    o.init_timeout = absl::Milliseconds(500);
    bodies.push_back(Join(o));
  }
  ExpectAll(RunProcesses(bodies),
            absl::StrCat("DEADLINE_EXCEEDED: waited 0.5 s for rank 2 of 4 at ",
                         address, "; ranks present 0,1,3"));
  EXPECT_FALSE(FileExists(address));
}

TEST(ShmRendezvous, MissingRankZeroIsNamed) {
  ShmOptions o = Options(NewTestAddress(), 1, 2);
  o.init_timeout = absl::Milliseconds(200);
  DS_EXPECT_ERROR(ConnectShm(o), kDeadlineExceeded,
                  "waited 0.2 s for rank 0 of 2");
}

TEST(ShmRendezvous, AnotherWorldSizeIsRefusedOnBothSides) {
  const std::string address = NewTestAddress();
  const auto results = RunProcesses(
      {Join(Options(address, 0, 2)), Join(Options(address, 1, 4))});
  ExpectAll(results, "FAILED_PRECONDITION: rank 1 (pid ");
  ExpectAll(results, "was started for 4 ranks, rank 0 (pid ");
}

TEST(ShmRendezvous, AnotherPlanSetIsRefusedOnAllSides) {
  const std::string address = NewTestAddress();
  const auto results =
      RunProcesses({Join(Options(address, 0, 3)), Join(Options(address, 1, 3)),
                    Join(Options(address, 2, 3, "other"))},
                   absl::Milliseconds(50));
  ExpectAll(results, "FAILED_PRECONDITION: rank 2 (pid ");
  ExpectAll(results, "holds a plan of set other, rank 0");
}

TEST(ShmRendezvous, TwoProcessesOfOneRankAreBothNamed) {
  for (const int twice : {0, 1}) {
    const std::string address = NewTestAddress();
    const auto results = RunProcesses(
        {Join(Options(address, twice, 3)), Join(Options(address, 1 - twice, 3)),
         Join(Options(address, twice, 3))},
        absl::Milliseconds(50));
    ExpectAll(results, "ABORTED: ");
    EXPECT_TRUE(absl::StrContains(results[1],
                                  absl::StrCat("are rank ", twice, "; give")))
        << results[1];
  }
}

TEST(ShmRendezvous, StrangerThatSendsJunkIsDropped) {
  const std::string address = NewTestAddress();
  const Body stranger = [&]() -> std::string {
    sockaddr_un to = {};
    to.sun_family = AF_UNIX;
    std::memcpy(to.sun_path, address.data(), address.size());
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    for (int i = 0; i < 300; ++i) {
      if (connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0) {
        const std::string junk(500, 'j');
        return send(fd, junk.data(), junk.size(), MSG_NOSIGNAL) == 500
                   ? "sent"
                   : "not sent";
      }
      absl::SleepFor(absl::Milliseconds(5));
    }
    return "no listener";
  };
  const auto results = RunProcesses(
      {Join(Options(address, 0, 2)), stranger, Join(Options(address, 1, 2))},
      absl::Milliseconds(60));
  EXPECT_EQ(results[0], "OK");
  EXPECT_EQ(results[1], "sent");
  EXPECT_EQ(results[2], "OK");
}

TEST(ShmRendezvous, SocketOfAKilledLaunchIsReplaced) {
  const std::string address = NewTestAddress();
  const auto killed = RunProcesses({[&]() -> std::string {
    const pid_t me = getpid();
    std::thread killer([me] {
      absl::SleepFor(absl::Milliseconds(200));
      kill(me, SIGKILL);
    });
    Join(Options(address, 0, 2))();
    killer.join();
    return "survived";
  }});
  ASSERT_EQ(killed[0], "killed");
  ASSERT_TRUE(FileExists(address));
  ExpectAll(RunProcesses(
                {Join(Options(address, 0, 2)), Join(Options(address, 1, 2))}),
            "OK");
  EXPECT_FALSE(FileExists(address));
}

// A process that waits at `address` as rank 0 of 2 and is killed.
void LeaveSocket(const std::string& address) {
  const auto killed = RunProcesses({[&]() -> std::string {
    const pid_t me = getpid();
    std::thread([me] {
      absl::SleepFor(absl::Milliseconds(200));
      kill(me, SIGKILL);
    }).detach();
    return Join(Options(address, 0, 2))();
  }});
  ASSERT_EQ(killed[0], "killed");
  ASSERT_TRUE(FileExists(address));
}

TEST(ShmRendezvous, SocketsOfKilledLaunchesGoWithTheNextOne) {
  const std::string dead = NewTestAddress(), alive = NewTestAddress(),
                    next = NewTestAddress();
  LeaveSocket(dead);
  const Body launch = [&]() -> std::string {
    const auto results =
        RunProcesses({Join(Options(next, 0, 2)), Join(Options(next, 1, 2))});
    if (FileExists(dead)) return "the dead one is there";
    if (!FileExists(alive)) return "the live one is gone";
    return results[0] + results[1];
  };
  const auto results = RunProcesses({Join(Options(alive, 0, 2)), launch,
                                     [&]() -> std::string {
                                       absl::SleepFor(absl::Milliseconds(500));
                                       return Join(Options(alive, 1, 2))();
                                     }},
                                    absl::Milliseconds(100));
  EXPECT_EQ(results[0], "OK");
  EXPECT_EQ(results[1], "OKOK");
  EXPECT_EQ(results[2], "OK");
}

TEST(ShmRendezvous, GuestRemovesTheSocketOfAKilledRankZero) {
  const std::string address = NewTestAddress();
  const auto results =
      RunProcesses({[&]() -> std::string {
                      const pid_t me = getpid();
                      std::thread([me] {
                        absl::SleepFor(absl::Milliseconds(400));
                        kill(me, SIGKILL);
                      }).detach();
                      return Join(Options(address, 0, 3))();
                    },
                    Join(Options(address, 1, 3))},
                   absl::Milliseconds(50));
  EXPECT_EQ(results[0], "killed");
  EXPECT_TRUE(absl::StrContains(results[1], "rank 0 closed the connection"))
      << results[1];
  EXPECT_FALSE(FileExists(address));
}

TEST(ShmRendezvous, SignalHandlersKnowThePathWhileItIsThere) {
  const std::string address = NewTestAddress();
  const auto results = RunProcesses({[&]() -> std::string {
    std::string seen;
    std::thread handler([&seen] {
      absl::SleepFor(absl::Milliseconds(200));
      if (const char* path = ShmListeningPath()) seen = path;
    });
    ShmOptions options = Options(address, 0, 2);
    options.init_timeout = absl::Milliseconds(400);
    const bool failed = !ConnectShm(options).ok();
    handler.join();
    return absl::StrCat(failed, ShmListeningPath() == nullptr, seen);
  }});
  EXPECT_EQ(results[0], "11" + address);
}

TEST(ShmRendezvous, RejectsBadOptions) {
  DS_EXPECT_ERROR(ConnectShm(Options("/tmp/x", 4, 4)), kInvalidArgument,
                  "rank 4 of 4");
  DS_EXPECT_ERROR(ConnectShm(Options("relative", 1, 2)), kInvalidArgument,
                  "an absolute path of at most 107 bytes");
  DS_EXPECT_ERROR(ConnectShm(Options("/" + std::string(107, 'x'), 0, 2)),
                  kInvalidArgument, "at most 107 bytes");
  DS_EXPECT_ERROR(ConnectShm(Options("/tmp/x", 0, 2, std::string(129, 'x'))),
                  kInvalidArgument, "129 bytes");
}

}  // namespace
}  // namespace deepslice
