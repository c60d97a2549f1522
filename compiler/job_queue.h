// Jobs on a few threads; a job may add further jobs.
#ifndef DEEPSLICE_COMPILER_JOB_QUEUE_H_
#define DEEPSLICE_COMPILER_JOB_QUEUE_H_

#include <deque>
#include <functional>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace deepslice {

class JobQueue {
 public:
  using Job = std::function<absl::Status()>;
  // Thread-safe; before or during Run.
  void Add(Job job);
  // The same, before all others.
  void AddFirst(Job job);
  // Runs all jobs, those added meanwhile too, on `threads` threads, in the
  // order they were added. After a failure no further job starts. Returns the
  // first error (in the order of failing).
  absl::Status Run(int threads);

 private:
  void Work();

  absl::Mutex mutex_;
  std::deque<Job> jobs_;
  int running_ = 0;
  absl::Status status_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_JOB_QUEUE_H_
