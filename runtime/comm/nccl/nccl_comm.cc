#include "runtime/comm/nccl/nccl_comm.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "schema/base/exit_code.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// A thread that takes no signals: they are for the program's own threads.
template <typename Body>
std::thread StartThread(Body body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(body));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

// Runs `body` on a thread that nobody joins: a call into a library with stuck
// threads of its own may never end. `body` owns what it uses. Notified at the
// end.
std::shared_ptr<absl::Notification> RunAside(std::function<void()> body) {
  auto done = std::make_shared<absl::Notification>();
  StartThread([done, body = std::move(body)] {
    body();
    done->Notify();
  }).detach();
  return done;
}

absl::StatusOr<int> NcclType(DType type) {
  switch (type) {
    case DType::kF32:
      return kNcclFloat32;
    case DType::kF16:
      return kNcclFloat16;
    case DType::kBF16:
      return kNcclBfloat16;
    default:
      return absl::UnimplementedError(absl::StrCat(
          "a sum over ranks of ", DTypeName(type), "; f32, f16 and bf16 are"));
  }
}

class NcclComm final : public DeviceComm {
 public:
  NcclComm(const NcclApi& nccl, Comm* host, const NcclOptions& options)
      : nccl_(nccl), host_(*host), options_(options) {}
  ~NcclComm() override;
  absl::Status Connect();

  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }

  absl::Status AllReduceSum(const void* in, void* out, int64_t count,
                            DType type, CUstream stream) override {
    DS_ASSIGN_OR_RETURN(const int nccl_type, NcclType(type));
    if (count == 0) return Check();
    return Call("all-reduce", [&](ncclComm_t comm) {
      return nccl_.AllReduce(in, out, count, nccl_type, kNcclSum, comm, stream);
    });
  }
  absl::Status AllGather(const void* in, void* out, int64_t count_per_rank,
                         DType type, CUstream stream) override {
    if (count_per_rank == 0) return Check();
    return Call("all-gather", [&](ncclComm_t comm) {
      return nccl_.AllGather(in, out, count_per_rank * DTypeSize(type),
                             kNcclUint8, comm, stream);
    });
  }
  absl::Status Broadcast(void* data, int64_t bytes, CUstream stream) override {
    if (bytes == 0) return Check();
    return Call("broadcast", [&](ncclComm_t comm) {
      return nccl_.Broadcast(data, data, bytes, kNcclUint8, 0, comm, stream);
    });
  }

  absl::Status Check() override {
    if (!failed_.load(std::memory_order_acquire)) return absl::OkStatus();
    absl::MutexLock lock(&mutex_);
    return failure_;
  }
  void Abort(const absl::Status& why) override {
    host_.Abort(why);
    Fail(why);
  }

 private:
  template <typename Function>
  absl::Status Call(absl::string_view what, Function function);
  // Waits until what was called last is no longer in progress.
  absl::Status Settle(absl::string_view what, absl::Time deadline);
  absl::Status Error(absl::string_view what, NcclResult result)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The first reason stays. Aborts NCCL's side.
  void Fail(const absl::Status& why) {
    absl::MutexLock lock(&mutex_);
    FailLocked(why);
  }
  void FailLocked(const absl::Status& why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Watch();
  // For the watchdog, which must not wait for the lock: a call into the library
  // holds it, and ends no sooner than the device makes room for its launch,
  // which is never where the device waits for a lost rank.
  absl::Status AsyncError();
  bool TryFail(const absl::Status& why);
  // The failure that an error of NCCL is a sign of: the host's reason when it
  // has one soon, else the error itself.
  absl::Status RootCause(const absl::Status& error);

  const NcclApi& nccl_;
  Comm& host_;
  const NcclOptions options_;
  absl::Mutex mutex_;
  // Null: not there yet, or handed to the thread that aborts it.
  ncclComm_t comm_ ABSL_GUARDED_BY(mutex_) = nullptr;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  // Of the abort that a failure began.
  std::shared_ptr<absl::Notification> aborted_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> failed_ = false;
  absl::Notification stop_;
  std::thread watchdog_;
};

NcclComm::~NcclComm() {
  stop_.Notify();
  if (watchdog_.joinable()) watchdog_.join();
  absl::MutexLock lock(&mutex_);
  ncclComm_t comm = std::exchange(comm_, nullptr);
  // The other ranks may be slower, or gone: no longer than leave_timeout.
  const absl::Time deadline = absl::Now() + options_.leave_timeout;
  if (comm == nullptr) {
    // What frees the device's memory next must not meet an abort at work.
    if (aborted_ != nullptr)
      aborted_->WaitForNotificationWithDeadline(deadline);
    return;
  }
  const auto left = RunAside([&nccl = nccl_, comm, deadline] {
    NcclResult state = nccl.CommFinalize(comm);
    while (state == kNcclInProgress && absl::Now() < deadline) {
      absl::SleepFor(absl::Milliseconds(1));
      if (nccl.CommGetAsyncError(comm, &state) != kNcclSuccess) break;
    }
    if (state == kNcclSuccess) {
      nccl.CommDestroy(comm);
    } else {
      nccl.CommAbort(comm);
    }
  });
  left->WaitForNotificationWithDeadline(deadline);
}

absl::Status NcclComm::Connect() {
  struct {
    NcclUniqueId id;
    int32_t result;
  } first = {};
  if (rank() == 0) first.result = nccl_.GetUniqueId(&first.id);
  DS_RETURN_IF_ERROR(host_.Broadcast(&first, sizeof(first)));
  if (first.result != kNcclSuccess) {
    return absl::UnavailableError(
        absl::StrCat("NCCL: rank 0 opens no socket for the others: ",
                     nccl_.GetErrorString(first.result),
                     "; see what NCCL_DEBUG=WARN and NCCL_SOCKET_IFNAME say"));
  }
  const absl::Time deadline = absl::Now() + options_.init_timeout;
  NcclConfig config;
  config.blocking = 0;
  {
    absl::MutexLock lock(&mutex_);
    const NcclResult result =
        nccl_.CommInitRankConfig(&comm_, size(), first.id, rank(), &config);
    if (result != kNcclSuccess && result != kNcclInProgress) {
      return Error("init", result);
    }
  }
  watchdog_ = StartThread([this] { Watch(); });
  return Settle("init", deadline);
}

absl::Status NcclComm::Error(absl::string_view what, NcclResult result) {
  const char* detail = comm_ == nullptr ? nullptr : nccl_.GetLastError(comm_);
  std::string text = detail == nullptr ? "" : detail;
  // NCCL's own text may have lines.
  for (char& c : text) {
    if (c == '\n') c = ' ';
  }
  return absl::UnavailableError(absl::StrCat("NCCL ", what, ": ",
                                             nccl_.GetErrorString(result),
                                             text.empty() ? "" : ": ", text));
}

template <typename Function>
absl::Status NcclComm::Call(absl::string_view what, Function function) {
  absl::Status error;
  {
    absl::MutexLock lock(&mutex_);
    if (!failure_.ok()) return failure_;
    const NcclResult result = function(comm_);
    if (result == kNcclSuccess) return absl::OkStatus();
    if (result != kNcclInProgress) error = Error(what, result);
  }
  if (error.ok()) return Settle(what, absl::InfiniteFuture());
  Fail(RootCause(error));
  return Check();
}

absl::Status NcclComm::Settle(absl::string_view what, absl::Time deadline) {
  for (int polls = 0;; ++polls) {
    absl::Status error;
    {
      absl::MutexLock lock(&mutex_);
      if (!failure_.ok()) return failure_;
      NcclResult state = kNcclSuccess;
      const NcclResult result = nccl_.CommGetAsyncError(comm_, &state);
      if (result != kNcclSuccess) state = result;
      if (state == kNcclSuccess) return absl::OkStatus();
      if (state != kNcclInProgress) error = Error(what, state);
    }
    if (!error.ok()) {
      Fail(RootCause(error));
      return Check();
    }
    if (polls % 256 == 255 && absl::Now() > deadline) {
      const absl::Status late = absl::DeadlineExceededError(absl::StrCat(
          "NCCL ", what, ": the ranks did not come together within ",
          absl::FormatDuration(options_.init_timeout),
          "; see what NCCL_DEBUG=WARN says, or give a longer --init-timeout"));
      host_.Abort(late);
      Fail(late);
      return Check();
    }
    // Launches settle in microseconds, meetings in seconds.
    if (polls < 1000) {
      std::this_thread::yield();
    } else {
      absl::SleepFor(absl::Microseconds(100));
    }
  }
}

absl::Status NcclComm::RootCause(const absl::Status& error) {
  const absl::Time until = absl::Now() + absl::Seconds(1);
  do {
    if (absl::Status host = host_.Check(); !host.ok()) return host;
    absl::SleepFor(absl::Milliseconds(2));
  } while (absl::Now() < until);
  return error;
}

void NcclComm::FailLocked(const absl::Status& why) {
  if (!failure_.ok()) return;
  failure_ = why;
  failed_.store(true, std::memory_order_release);
  ncclComm_t comm = std::exchange(comm_, nullptr);
  if (comm == nullptr) return;
  aborted_ = RunAside([&nccl = nccl_, comm] { nccl.CommAbort(comm); });
}

absl::Status NcclComm::AsyncError() {
  if (!mutex_.TryLock()) return absl::OkStatus();
  absl::Status error;
  if (comm_ != nullptr) {
    NcclResult state = kNcclSuccess;
    const NcclResult result = nccl_.CommGetAsyncError(comm_, &state);
    if (result != kNcclSuccess) state = result;
    if (state != kNcclSuccess && state != kNcclInProgress) {
      error = Error("communicator", state);
    }
  }
  mutex_.Unlock();
  return error;
}

bool NcclComm::TryFail(const absl::Status& why) {
  if (!mutex_.TryLock()) return false;
  FailLocked(why);
  mutex_.Unlock();
  return true;
}

void NcclComm::Watch() {
  while (!stop_.WaitForNotificationWithTimeout(options_.watch_every)) {
    absl::Status why = host_.Check();
    if (why.ok()) {
      if (const absl::Status error = AsyncError(); !error.ok()) {
        why = RootCause(error);
        host_.Abort(why);
      }
    }
    if (why.ok()) why = Check();
    if (why.ok()) continue;
    const absl::Time until = absl::Now() + options_.leave_timeout;
    while (!TryFail(why) && absl::Now() < until &&
           !stop_.WaitForNotificationWithTimeout(absl::Milliseconds(1))) {
    }
    if (stop_.WaitForNotificationWithDeadline(until)) return;
    // Whoever owns this is stuck, and so would be a message from there.
    if (options_.on_stuck == nullptr) _exit(kExitRankFailed);
    options_.on_stuck(why);
    return;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceComm>> ConnectNccl(
    const NcclApi& nccl, Comm* host, const NcclOptions& options) {
  auto comm = std::make_unique<NcclComm>(nccl, host, options);
  DS_RETURN_IF_ERROR(comm->Connect());
  return std::unique_ptr<DeviceComm>(std::move(comm));
}

}  // namespace deepslice
