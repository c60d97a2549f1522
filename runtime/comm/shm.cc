#include "runtime/comm/shm.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/comm/call.h"
#include "runtime/comm/shm_messages.h"
#include "runtime/comm/shm_rendezvous.h"
#include "runtime/comm/shm_watch.h"
#include "schema/base/checked_math.h"
#include "schema/base/digest.h"
#include "schema/base/file.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// Up to here each rank reads all others' values itself: one meeting. Beyond,
// each sums its part and reads the sums: two meetings, but less reading.
constexpr int64_t kDirectFloats = 16 << 10;

// This process's ShmRank::left, for a signal handler.
std::atomic<std::atomic<uint32_t>*> left_of_this_process = nullptr;
static_assert(decltype(left_of_this_process)::is_always_lock_free);

class ShmComm final : public Comm {
 public:
  ShmComm(Meeting meeting, const ShmOptions& options)
      : meeting_(std::move(meeting)),
        rank_(options.rank),
        size_(options.world),
        on_slow_(options.on_slow),
        watch_(meeting_.segment, meeting_.sockets,
               {.rank = options.rank,
                .world = options.world,
                .stopped_timeout = options.stopped_timeout,
                // Else the supervisor kills what is left.
                .kill_stopped = options.sockets.empty()}) {
    left_of_this_process = &mine().left;
    for (ShmPatience* p : {&patience_, &idle_patience_}) {
      p->spin = absl::Microseconds(20);
      p->hang = options.hang_timeout;
    }
    if (on_slow_) patience_.slow = options.slow_timeout;
    cpu_set_t cores;
    // Spinning takes the core that a rank needs which is waited for.
    if (sched_getaffinity(0, sizeof(cores), &cores) == 0 &&
        CPU_COUNT(&cores) < size_) {
      patience_.spin = idle_patience_.spin = absl::ZeroDuration();
    }
  }
  ~ShmComm() override {
    left_of_this_process = nullptr;
    mine().left.store(1);
    segment().Wake(rank_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void SetStep(int64_t step) override {
    stepping_ = true;
    mine().step.store(step, std::memory_order_relaxed);
  }

  absl::Status AllReduceSum(float* data, int64_t count) override {
    const uint64_t call = CallWord(CallKind::kAllReduce, count);
    if (count == 0) return Meet(call);
    const bool direct = count <= kDirectFloats || size_ <= 2;
    for (int64_t i = 0; i < count; i += ShmSegment::kBufferFloats) {
      const int64_t n = std::min(ShmSegment::kBufferFloats, count - i);
      DS_RETURN_IF_ERROR(direct ? SumDirect(data + i, n, call)
                                : SumInParts(data + i, n, call));
    }
    return absl::OkStatus();
  }

  absl::Status AllGatherColumns(const float* in, float* out, int64_t rows,
                                int64_t total) override {
    const uint64_t call = CallWord(CallKind::kAllGather, rows * total);
    // Every rank's part is cut alike, so that all have the same meetings.
    const int64_t longest = rows * CeilDiv(total, size_);
    if (longest == 0) return Meet(call);
    const int64_t mine = rows * PartOf(total, rank_);
    for (int64_t i = 0; i < longest; i += ShmSegment::kBufferFloats) {
      const int64_t end = i + ShmSegment::kBufferFloats;
      if (i < mine) {
        std::memcpy(Next(), in + i, (std::min(end, mine) - i) * sizeof(float));
      }
      DS_RETURN_IF_ERROR(Meet(call));
      for (int r = 0; r < size_; ++r) {
        const int64_t part = PartOf(total, r);
        ScatterColumns(Met(r), i, std::min(end, rows * part), part,
                       PartBegin(total, size_, r), total, out);
      }
    }
    return absl::OkStatus();
  }

  absl::Status Broadcast(void* data, int64_t bytes) override {
    const uint64_t call = CallWord(CallKind::kBroadcast, bytes);
    if (bytes == 0) return Meet(call);
    char* at = static_cast<char*>(data);
    for (int64_t i = 0; i < bytes; i += ShmSegment::kBufferBytes) {
      const int64_t n = std::min(ShmSegment::kBufferBytes, bytes - i);
      if (rank_ == 0) std::memcpy(Next(), at + i, n);
      DS_RETURN_IF_ERROR(Meet(call));
      if (rank_ != 0) std::memcpy(at + i, Met(0), n);
    }
    return absl::OkStatus();
  }

  absl::Status Barrier() override {
    return Meet(CallWord(CallKind::kBarrier, 0));
  }

  void Abort(const absl::Status& why) override {
    segment().Fail(absl::AbortedError(
        absl::StrCat(segment().Name(rank_), " stopped: ", why.ToString())));
  }

  absl::Status Check() override {
    return segment().failed() ? segment().failure() : absl::OkStatus();
  }

 private:
  const ShmSegment& segment() const { return meeting_.segment; }
  ShmRank& mine() const { return segment().rank(rank_); }
  int64_t PartOf(int64_t total, int r) const {
    return PartBegin(total, size_, r + 1) - PartBegin(total, size_, r);
  }

  // This rank's buffer for the next meeting. The ranks read it until they come
  // to the meeting after that, so two buffers in turn are enough.
  float* Next() const { return segment().buffer(rank_, met_ + 1); }
  // What rank r brought to the last meeting.
  const float* Met(int r) const { return segment().buffer(r, met_); }

  absl::Status Meet(uint64_t call) {
    if (segment().failed()) return segment().failure();
    const uint32_t n = met_ + 1;
    segment().Arrive(rank_, n, call);
    // Before the first step the ranks load, each at its disk's speed; and
    // between steps rank 0 may wait for a person, the others for its broadcast.
    const bool broadcast = KindOfCall(call) == CallKind::kBroadcast;
    for (int r = 0; r < size_; ++r) {
      if (r == rank_) continue;
      const bool idle = !stepping_ || (broadcast && r == 0);
      const absl::Status met = segment().WaitFor(
          r, n, idle ? idle_patience_ : patience_, [&] { TellSlow(r, call); });
      DS_RETURN_IF_ERROR(met);
      const uint64_t theirs = segment().rank(r).call[n % 2];
      if (theirs == call) continue;
      segment().Fail(CallsDiffer(n, rank_, call, r, theirs));
      return segment().failure();
    }
    met_ = n;
    return absl::OkStatus();
  }

  void TellSlow(int r, uint64_t call) {
    if (!segment().FirstToTellSlow()) return;
    on_slow_(
        absl::StrCat(segment().Name(r), " is slow: the others have waited ",
                     absl::FormatDuration(patience_.slow), " for it at step ",
                     mine().step.load(), ", ", CallText(call)));
  }

  absl::Status SumDirect(float* data, int64_t n, uint64_t call) {
    std::memcpy(Next(), data, n * sizeof(float));
    DS_RETURN_IF_ERROR(Meet(call));
    std::memcpy(data, Met(0), n * sizeof(float));
    for (int r = 1; r < size_; ++r) AddInto(data, Met(r), n);
    return absl::OkStatus();
  }

  absl::Status SumInParts(float* data, int64_t n, uint64_t call) {
    std::memcpy(Next(), data, n * sizeof(float));
    DS_RETURN_IF_ERROR(Meet(call));
    const int64_t begin = PartBegin(n, size_, rank_);
    const int64_t part = PartOf(n, rank_);
    float* sum = Next() + begin;
    std::memcpy(sum, Met(0) + begin, part * sizeof(float));
    for (int r = 1; r < size_; ++r) AddInto(sum, Met(r) + begin, part);
    DS_RETURN_IF_ERROR(Meet(call));
    for (int r = 0; r < size_; ++r) {
      const int64_t at = PartBegin(n, size_, r);
      std::memcpy(data + at, Met(r) + at, PartOf(n, r) * sizeof(float));
    }
    return absl::OkStatus();
  }

  const Meeting meeting_;
  const int rank_, size_;
  const std::function<void(absl::string_view)> on_slow_;
  ShmPatience patience_, idle_patience_;
  uint32_t met_ = 0;       // meetings so far
  bool stepping_ = false;  // SetStep has been called
  const ShmWatch watch_;   // last: it ends first
};

absl::Status CheckOptions(const ShmOptions& o) {
  if (o.world < 1 || o.world > limits::kWorldSize || o.rank < 0 ||
      o.rank >= o.world) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", o.rank, " of ", o.world,
                     ": ranks are 0 to one less than their number, which is "
                     "1 to ",
                     limits::kWorldSize));
  }
  if (o.plan_set_id.size() > kMaxPlanSetId) {
    return absl::InvalidArgumentError(
        absl::StrCat("a plan set id of ", o.plan_set_id.size(),
                     " bytes; at "
                     "most ",
                     kMaxPlanSetId, " are allowed"));
  }
  const size_t wanted = o.rank == 0 ? o.world - 1 : 1;
  if (!o.sockets.empty() && o.sockets.size() != wanted) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", o.rank, " of ", o.world, " was given ",
                     o.sockets.size(), " sockets; it needs ", wanted));
  }
  return absl::OkStatus();
}

}  // namespace

void LeaveShmBySignal(int number) {
  if (std::atomic<uint32_t>* left = left_of_this_process) {
    left->store(128 + number);
  }
}

absl::StatusOr<std::unique_ptr<Comm>> ConnectShm(const ShmOptions& options) {
  DS_RETURN_IF_ERROR(CheckOptions(options));
  absl::StatusOr<Meeting> meeting =
      options.rank == 0 ? MeetAsFirst(options) : MeetAsOther(options);
  if (!meeting.ok()) return meeting.status();
  return std::make_unique<ShmComm>(*std::move(meeting), options);
}

std::string DefaultShmAddress(absl::string_view launch_id) {
  const char* runtime = getenv("XDG_RUNTIME_DIR");
  const std::string base =
      runtime != nullptr && runtime[0] == '/' && DirectoryExists(runtime)
          ? runtime
          : "/tmp";
  return absl::StrFormat("%s/deepslice-%d/%016x.sock", base, geteuid(),
                         Xxh3(launch_id));
}

absl::StatusOr<RankSockets> MakeRankSockets(int world) {
  RankSockets out;
  for (int r = 1; r < world; ++r) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
      const int error = errno;
      for (const int fd : out.of_rank0) close(fd);
      for (const int fd : out.of_others) close(fd);
      return absl::ResourceExhaustedError(
          absl::StrCat("a socket for rank ", r, ": ", std::strerror(error)));
    }
    out.of_rank0.push_back(ends[0]);
    out.of_others.push_back(ends[1]);
  }
  return out;
}

}  // namespace deepslice
