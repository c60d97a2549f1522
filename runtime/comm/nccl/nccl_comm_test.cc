// NcclComm over a library that is a few functions here: what it does when ranks
// are late, are lost, or the library fails.
#include "runtime/comm/nccl/nccl_comm.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "runtime/comm/local.h"
#include "runtime/comm/nccl/nccl_environment.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

// What the library is to do, and did. One for all communicators of a test.
struct FakeState {
  absl::Mutex mutex;
  int polls_until_ready = 3;  // of each communicator's init
  int polls_per_call = 0;     // a call is in progress for so many
  NcclResult call_result = kNcclSuccess;
  NcclResult async_error = kNcclSuccess;  // of all, once ready
  absl::Notification* hang_abort = nullptr;
  absl::Notification* hang_call = nullptr;
  int inits = 0, aborts = 0, destroys = 0, calls = 0;
};
FakeState* fake = nullptr;

}  // namespace
}  // namespace deepslice

struct ncclComm {
  int polls_left;
};

namespace deepslice {
namespace {

NcclResult GetUniqueId(NcclUniqueId* id) {
  std::memset(id, 7, sizeof(*id));
  return kNcclSuccess;
}
NcclResult InitRank(ncclComm_t* comm, int, NcclUniqueId id, int,
                    NcclConfig* config) {
  absl::MutexLock lock(&fake->mutex);
  ++fake->inits;
  if (id.internal[100] != 7 || config->blocking != 0) {
    return kNcclInvalidArgument;
  }
  *comm = new ncclComm{fake->polls_until_ready};
  return kNcclInProgress;
}
NcclResult AsyncError(ncclComm_t comm, NcclResult* state) {
  absl::MutexLock lock(&fake->mutex);
  *state = fake->async_error;
  if (comm->polls_left > 0) {
    --comm->polls_left;
    *state = kNcclInProgress;
  }
  return kNcclSuccess;
}
NcclResult Finalize(ncclComm_t) { return kNcclSuccess; }
NcclResult Destroy(ncclComm_t comm) {
  absl::MutexLock lock(&fake->mutex);
  ++fake->destroys;
  delete comm;
  return kNcclSuccess;
}
NcclResult AbortComm(ncclComm_t comm) {
  absl::Notification* hang;
  {
    absl::MutexLock lock(&fake->mutex);
    ++fake->aborts;
    hang = fake->hang_abort;
  }
  if (hang != nullptr) hang->WaitForNotification();
  delete comm;
  return kNcclSuccess;
}
NcclResult AllReduce(const void*, void*, size_t, int, int, ncclComm_t comm,
                     CUstream) {
  if (fake->hang_call != nullptr) fake->hang_call->WaitForNotification();
  absl::MutexLock lock(&fake->mutex);
  ++fake->calls;
  comm->polls_left = fake->polls_per_call;
  return comm->polls_left > 0 ? kNcclInProgress : fake->call_result;
}
const char* ErrorString(NcclResult) { return "unhandled system error"; }
const char* LastError(ncclComm_t) { return "socketProgress:\nclosed"; }

const NcclApi& FakeApi() {
  static const NcclApi* api = [] {
    auto* a = new NcclApi;
    a->GetErrorString = ErrorString;
    a->GetLastError = LastError;
    a->GetUniqueId = GetUniqueId;
    a->CommInitRankConfig = InitRank;
    a->CommGetAsyncError = AsyncError;
    a->CommFinalize = Finalize;
    a->CommDestroy = Destroy;
    a->CommAbort = AbortComm;
    a->AllReduce = AllReduce;
    return a;
  }();
  return *api;
}

class NcclCommTest : public testing::Test {
 protected:
  NcclCommTest() : hosts_(MakeLocalComms(2)) { fake = &state_; }
  ~NcclCommTest() override { fake = nullptr; }

  // Both ranks' communicators, or the statuses of those that failed.
  std::vector<absl::StatusOr<std::unique_ptr<DeviceComm>>> ConnectBoth(
      const NcclOptions& options = {}) {
    std::vector<absl::StatusOr<std::unique_ptr<DeviceComm>>> out(2);
    std::thread other(
        [&] { out[1] = ConnectNccl(FakeApi(), hosts_[1].get(), options); });
    out[0] = ConnectNccl(FakeApi(), hosts_[0].get(), options);
    other.join();
    return out;
  }
  static absl::Status Sum(DeviceComm& comm) {
    float x = 0;
    return comm.AllReduceSum(&x, &x, 1, DType::kF32, nullptr);
  }
  // The first failure within two seconds.
  static absl::Status WaitForFailure(DeviceComm& comm) {
    const absl::Time until = absl::Now() + absl::Seconds(2);
    while (comm.Check().ok() && absl::Now() < until) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    return comm.Check();
  }

  FakeState state_;
  std::vector<std::unique_ptr<Comm>> hosts_;
};

TEST_F(NcclCommTest, MeetsCallsAndLeaves) {
  {
    auto comms = ConnectBoth();
    for (int r = 0; r < 2; ++r) {
      ASSERT_TRUE(comms[r].ok()) << comms[r].status();
      EXPECT_EQ((*comms[r])->rank(), r);
      EXPECT_EQ((*comms[r])->size(), 2);
      EXPECT_TRUE(Sum(**comms[r]).ok());
      EXPECT_TRUE((*comms[r])->Check().ok());
    }
  }
  EXPECT_EQ(state_.inits, 2);
  EXPECT_EQ(state_.calls, 2);
  EXPECT_EQ(state_.destroys, 2);
  EXPECT_EQ(state_.aborts, 0);
}

TEST_F(NcclCommTest, WaitsForACallThatIsInProgress) {
  auto comms = ConnectBoth();
  ASSERT_TRUE(comms[0].ok()) << comms[0].status();
  state_.polls_per_call = 40;
  EXPECT_TRUE(Sum(**comms[0]).ok());
}

TEST_F(NcclCommTest, RefusesToSumIntegers) {
  auto comms = ConnectBoth();
  ASSERT_TRUE(comms[0].ok()) << comms[0].status();
  int32_t x = 0;
  const absl::Status s =
      (*comms[0])->AllReduceSum(&x, &x, 1, DType::kI32, nullptr);
  EXPECT_EQ(s.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(state_.calls, 0);
}

TEST_F(NcclCommTest, EndsAnInitThatTakesTooLong) {
  state_.polls_until_ready = 1 << 30;
  const absl::Time start = absl::Now();
  auto comms = ConnectBoth({.init_timeout = absl::Milliseconds(100)});
  EXPECT_LT(absl::Now() - start, absl::Seconds(2));
  // One finds it out, and the other from it or by itself.
  bool deadline = false;
  for (const auto& c : comms) {
    ASSERT_FALSE(c.ok());
    deadline |= absl::IsDeadlineExceeded(c.status());
    EXPECT_NE(c.status().message().find("did not come together within 100ms"),
              absl::string_view::npos)
        << c.status();
  }
  EXPECT_TRUE(deadline);
  EXPECT_EQ(state_.aborts, 2);
}

TEST_F(NcclCommTest, AnotherRanksEndAbortsWithItsReason) {
  auto comms = ConnectBoth();
  ASSERT_TRUE(comms[0].ok()) << comms[0].status();
  hosts_[1]->Abort(absl::ResourceExhaustedError("no memory for 17 bytes"));
  const absl::Status s = WaitForFailure(**comms[0]);
  EXPECT_EQ(s.code(), absl::StatusCode::kAborted);
  EXPECT_NE(s.message().find("rank 1 stopped: RESOURCE_EXHAUSTED: no memory"),
            absl::string_view::npos)
      << s;
  EXPECT_EQ(Sum(**comms[0]), s);
  EXPECT_EQ(state_.calls, 0);
  comms.clear();
  EXPECT_EQ(state_.aborts, 2);
  EXPECT_EQ(state_.destroys, 0);
}

TEST_F(NcclCommTest, AnErrorOfTheLibraryEndsAllRanks) {
  auto comms = ConnectBoth();
  ASSERT_TRUE(comms[0].ok()) << comms[0].status();
  state_.call_result = kNcclSystemError;
  const absl::Status s = Sum(**comms[0]);
  EXPECT_EQ(s.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(s.message(),
            "NCCL all-reduce: unhandled system error: socketProgress: closed");
  (*comms[0])->Abort(s);
  const absl::Status other = WaitForFailure(**comms[1]);
  EXPECT_NE(
      other.message().find("rank 0 stopped: UNAVAILABLE: NCCL all-reduce"),
      absl::string_view::npos)
      << other;
}

TEST_F(NcclCommTest, AnErrorBetweenCallsIsSeenAndTold) {
  auto comms = ConnectBoth();
  ASSERT_TRUE(comms[0].ok()) << comms[0].status();
  {
    absl::MutexLock lock(&state_.mutex);
    state_.async_error = kNcclRemoteError;
  }
  EXPECT_NE(WaitForFailure(**comms[0]).message().find("NCCL communicator"),
            absl::string_view::npos);
  EXPECT_FALSE(hosts_[1]->Check().ok());
}

TEST_F(NcclCommTest, SaysSoWhenItsOwnerIsStuck) {
  absl::Notification stuck;
  absl::Status why;
  NcclOptions options;
  options.leave_timeout = absl::Milliseconds(50);
  options.on_stuck = [&](const absl::Status& s) {
    if (stuck.HasBeenNotified()) return;
    why = s;
    stuck.Notify();
  };
  auto comms = ConnectBoth(options);
  ASSERT_TRUE(comms[0].ok()) << comms[0].status();
  comms[1] = absl::UnknownError("left");
  hosts_[1]->Abort(absl::InternalError("step 5"));
  ASSERT_TRUE(stuck.WaitForNotificationWithTimeout(absl::Seconds(5)));
  EXPECT_NE(why.message().find("rank 1 stopped"), std::string::npos) << why;
}

// The device's queue is full, of work that waits for the rank that left.
TEST_F(NcclCommTest, SaysSoWhenItsOwnerIsStuckInACall) {
  absl::Notification stuck, go_on;
  absl::Status why;
  NcclOptions options;
  options.leave_timeout = absl::Milliseconds(50);
  options.on_stuck = [&](const absl::Status& s) {
    if (stuck.HasBeenNotified()) return;
    why = s;
    stuck.Notify();
  };
  auto comms = ConnectBoth(options);
  ASSERT_TRUE(comms[0].ok()) << comms[0].status();
  comms[1] = absl::UnknownError("left");
  state_.hang_call = &go_on;
  std::thread owner([&] { Sum(**comms[0]).IgnoreError(); });
  absl::SleepFor(absl::Milliseconds(50));  // the call has begun
  hosts_[1]->Abort(absl::InternalError("step 5"));
  const bool said = stuck.WaitForNotificationWithTimeout(absl::Seconds(5));
  go_on.Notify();
  owner.join();
  ASSERT_TRUE(said);
  EXPECT_NE(why.message().find("rank 1 stopped"), std::string::npos) << why;
}

TEST_F(NcclCommTest, DoesNotWaitLongForAnAbortThatHangs) {
  absl::Notification go_on;
  state_.hang_abort = &go_on;
  NcclOptions options;
  options.leave_timeout = absl::Milliseconds(50);
  options.on_stuck = [](const absl::Status&) {};
  auto comms = ConnectBoth(options);
  ASSERT_TRUE(comms[0].ok()) << comms[0].status();
  (*comms[0])->Abort(absl::InternalError("x"));
  const absl::Time start = absl::Now();
  comms.clear();
  EXPECT_LT(absl::Now() - start, absl::Seconds(2));
  go_on.Notify();
  // The threads that abort use the state until then.
  absl::SleepFor(absl::Milliseconds(200));
}

TEST(NcclEnvironmentTest, GivesRanksOfOneGpuHostsOfTheirOwn) {
  EXPECT_EQ(NcclEnvironment(3, false).size(), 1u);
  std::map<std::string, std::string> a, b;
  for (const auto& [k, v] : NcclEnvironment(0, true)) a[k] = v;
  for (const auto& [k, v] : NcclEnvironment(1, true)) b[k] = v;
  EXPECT_NE(a["NCCL_HOSTID"], b["NCCL_HOSTID"]);
  EXPECT_EQ(a["NCCL_SOCKET_IFNAME"], "lo");
  EXPECT_EQ(a["NCCL_NVLS_ENABLE"], "0");
}

TEST(NcclEnvironmentTest, LeavesWhatTheUserSet) {
  setenv("NCCL_NVLS_ENABLE", "1", 1);
  SetNcclEnvironment(0, false);
  EXPECT_STREQ(getenv("NCCL_NVLS_ENABLE"), "1");
  unsetenv("NCCL_NVLS_ENABLE");
}

}  // namespace
}  // namespace deepslice
