#include "runtime/comm/local.h"

#include <algorithm>
#include <cstring>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "runtime/comm/call.h"
#include "schema/base/checked_math.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// Where the threads meet. Between two meetings each rank may read what the
// others published at the first.
class Meeting {
 public:
  explicit Meeting(int world) : calls_(world), data_(world) {}

  int world() const { return static_cast<int>(data_.size()); }
  // Published by rank r at the last meeting.
  void* data(int r) const { return data_[r]; }

  absl::Status Meet(int rank, uint64_t call, void* data) {
    absl::MutexLock lock(&mutex_);
    DS_RETURN_IF_ERROR(failure_);
    calls_[rank] = call;
    data_[rank] = data;
    if (++arrived_ == world()) {
      arrived_ = 0;
      ++meetings_;
      for (int r = 1; r < world() && failure_.ok(); ++r) {
        if (calls_[r] == calls_[0]) continue;
        failure_ = CallsDiffer(meetings_, 0, calls_[0], r, calls_[r]);
      }
      agreed_ = failure_.ok();
      changed_.SignalAll();
      return failure_;
    }
    const uint32_t met = meetings_;
    while (meetings_ == met && failure_.ok()) changed_.Wait(&mutex_);
    // All were here: what became of a rank after that is no concern of this
    // call. The next meeting waits for this rank, so agreed_ is of this one.
    return meetings_ != met && agreed_ ? absl::OkStatus() : failure_;
  }

  absl::Status failure() {
    absl::MutexLock lock(&mutex_);
    return in_order_ ? absl::OkStatus() : failure_;
  }

  // `in_order`: only who waits for the rank needs to know.
  void Leave(const absl::Status& why, bool in_order) {
    absl::MutexLock lock(&mutex_);
    if (failure_.ok()) failure_ = why;
    in_order_ &= in_order;
    changed_.SignalAll();
  }

 private:
  absl::Mutex mutex_;
  absl::CondVar changed_;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  bool in_order_ ABSL_GUARDED_BY(mutex_) = true;
  int arrived_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t meetings_ ABSL_GUARDED_BY(mutex_) = 0;
  bool agreed_ ABSL_GUARDED_BY(mutex_) = true;  // at the last meeting
  std::vector<uint64_t> calls_ ABSL_GUARDED_BY(mutex_);
  // Written under the mutex, read between meetings without it.
  std::vector<void*> data_;
};

class LocalComm final : public Comm {
 public:
  LocalComm(std::shared_ptr<Meeting> meeting, int rank)
      : meeting_(std::move(meeting)), rank_(rank) {}
  ~LocalComm() override {
    meeting_->Leave(absl::AbortedError(absl::StrCat("rank ", rank_, " left")),
                    /*in_order=*/true);
  }

  int rank() const override { return rank_; }
  int size() const override { return meeting_->world(); }

  absl::Status AllReduceSum(float* data, int64_t count) override {
    const uint64_t call = CallWord(CallKind::kAllReduce, count);
    DS_RETURN_IF_ERROR(meeting_->Meet(rank_, call, data));
    // This rank alone touches its part, in every rank's array.
    const int64_t end = PartBegin(count, size(), rank_ + 1);
    for (int64_t i = PartBegin(count, size(), rank_); i < end;) {
      float sum[1024];
      const int64_t n = std::min<int64_t>(end - i, 1024);
      std::memcpy(sum, Floats(0) + i, n * sizeof(float));
      for (int r = 1; r < size(); ++r) AddInto(sum, Floats(r) + i, n);
      for (int r = 0; r < size(); ++r) {
        std::memcpy(Floats(r) + i, sum, n * sizeof(float));
      }
      i += n;
    }
    return meeting_->Meet(rank_, call, data);
  }

  absl::Status AllGatherColumns(const float* in, float* out, int64_t rows,
                                int64_t total) override {
    const uint64_t call = CallWord(CallKind::kAllGather, rows * total);
    void* mine = const_cast<float*>(in);
    DS_RETURN_IF_ERROR(meeting_->Meet(rank_, call, mine));
    for (int r = 0; r < size(); ++r) {
      const int64_t column = PartBegin(total, size(), r);
      const int64_t part = PartBegin(total, size(), r + 1) - column;
      ScatterColumns(Floats(r), 0, rows * part, part, column, total, out);
    }
    return meeting_->Meet(rank_, call, mine);
  }

  absl::Status Broadcast(void* data, int64_t bytes) override {
    const uint64_t call = CallWord(CallKind::kBroadcast, bytes);
    DS_RETURN_IF_ERROR(meeting_->Meet(rank_, call, data));
    if (rank_ != 0 && bytes > 0) std::memcpy(data, meeting_->data(0), bytes);
    return meeting_->Meet(rank_, call, data);
  }

  absl::Status Barrier() override {
    return meeting_->Meet(rank_, CallWord(CallKind::kBarrier, 0), nullptr);
  }

  void Abort(const absl::Status& why) override {
    meeting_->Leave(absl::AbortedError(absl::StrCat(
                        "rank ", rank_, " stopped: ", why.ToString())),
                    /*in_order=*/false);
  }

  absl::Status Check() override { return meeting_->failure(); }

 private:
  float* Floats(int r) const { return static_cast<float*>(meeting_->data(r)); }

  const std::shared_ptr<Meeting> meeting_;
  const int rank_;
};

}  // namespace

std::vector<std::unique_ptr<Comm>> MakeLocalComms(int world) {
  auto meeting = std::make_shared<Meeting>(world);
  std::vector<std::unique_ptr<Comm>> comms;
  for (int r = 0; r < world; ++r) {
    comms.push_back(std::make_unique<LocalComm>(meeting, r));
  }
  return comms;
}

}  // namespace deepslice
