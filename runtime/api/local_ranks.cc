#include "runtime/api/local_ranks.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/comm/local.h"
#include "schema/base/status_macros.h"

namespace deepslice {

std::unique_ptr<LocalRanks> LocalRanks::Start(const SessionOptions& options,
                                              int world) {
  // Not make_unique: threads that a throw finds started are joined.
  std::unique_ptr<LocalRanks> ranks(new LocalRanks);
  ranks->comms_ = MakeLocalComms(world);
  ranks->threads_.reserve(world - 1);
  for (int r = 1; r < world; ++r) {
    SessionOptions own = options;
    own.place.rank = own.place.local_rank = r;
    ranks->threads_.emplace_back(
        [self = ranks.get(), own = std::move(own), r]() mutable {
          self->Run(std::move(own), std::move(self->comms_[r]));
        });
  }
  return ranks;
}

void LocalRanks::Run(SessionOptions options, std::unique_ptr<Comm> comm) {
  absl::Status status;
  std::unique_ptr<Session> session;
  const int rank = options.place.rank;
  try {
    session = Session::Over(options, std::move(comm));
    status = session->Load(nullptr);
    if (status.ok()) {
      status = RunFollower(session->mutable_executor(), session->comm());
    }
  } catch (const std::exception& e) {
    status = absl::ResourceExhaustedError(
        absl::StrCat("rank ", rank, ": ", e.what()));
  }
  if (status.ok()) return;
  {
    // Before the others are told: a rank that they end is not the first.
    std::lock_guard<std::mutex> lock(mutex_);
    if (failed_.ok() && !absl::IsAborted(status)) failed_ = status;
  }
  if (session != nullptr && session->comm() != nullptr) {
    session->comm()->Abort(status);
  }
}

absl::Status LocalRanks::RootCause(const absl::Status& told) {
  Join();
  return absl::IsAborted(told) && !failed_.ok() ? failed_ : told;
}

void LocalRanks::Join() {
  for (std::thread& t : threads_) {
    if (t.joinable()) t.join();
  }
}

LocalRanks::~LocalRanks() {
  // Those that no thread took, too: who waits for them need not.
  comms_[0].reset();
  for (size_t r = threads_.size() + 1; r < comms_.size(); ++r) {
    comms_[r].reset();
  }
  Join();
}

}  // namespace deepslice
