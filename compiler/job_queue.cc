#include "compiler/job_queue.h"

#include <thread>
#include <vector>

namespace deepslice {

void JobQueue::Add(Job job) {
  absl::MutexLock lock(&mutex_);
  jobs_.push_back(std::move(job));
}

void JobQueue::AddFirst(Job job) {
  absl::MutexLock lock(&mutex_);
  jobs_.push_front(std::move(job));
}

absl::Status JobQueue::Run(int threads) {
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back([this] { Work(); });
  Work();
  for (std::thread& t : others) t.join();
  absl::MutexLock lock(&mutex_);
  return status_;
}

void JobQueue::Work() {
  mutex_.Lock();
  while (true) {
    // A running job may still add some.
    const auto ready = [this] {
      mutex_.AssertHeld();
      return !jobs_.empty() || running_ == 0 || !status_.ok();
    };
    mutex_.Await(absl::Condition(&ready));
    if (jobs_.empty() || !status_.ok()) break;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    ++running_;
    mutex_.Unlock();
    absl::Status status = job();
    job = nullptr;
    mutex_.Lock();
    --running_;
    if (status_.ok()) status_ = std::move(status);
  }
  mutex_.Unlock();
}

}  // namespace deepslice
