// The ranks of a plan as threads of one process, for a caller that starts no
// processes.
#ifndef DEEPSLICE_RUNTIME_API_LOCAL_RANKS_H_
#define DEEPSLICE_RUNTIME_API_LOCAL_RANKS_H_

#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "runtime/api/session.h"
#include "runtime/comm/comm.h"

namespace deepslice {

class LocalRanks {
 public:
  // Starts a thread for each rank above 0, which loads its part and then runs
  // what rank 0 runs. `options` is rank 0's.
  static std::unique_ptr<LocalRanks> Start(const SessionOptions& options,
                                           int world);
  // Waits for them: rank 0's comm must have left.
  ~LocalRanks();

  // Rank 0's, once.
  std::unique_ptr<Comm> TakeComm() { return std::move(comms_[0]); }
  // What the first rank that failed by itself says, when rank 0, whose comm has
  // left, was told `told` of it; `told` where none did.
  absl::Status RootCause(const absl::Status& told);

 private:
  LocalRanks() = default;
  void Run(SessionOptions options, std::unique_ptr<Comm> comm);
  void Join();

  std::vector<std::unique_ptr<Comm>> comms_;
  std::mutex mutex_;
  absl::Status failed_;  // of the first that failed; under mutex_
  std::vector<std::thread> threads_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_API_LOCAL_RANKS_H_
