// A fixed set of threads that run one job together: spin briefly, then sleep.
#ifndef DEEPSLICE_KERNELS_THREAD_POOL_H_
#define DEEPSLICE_KERNELS_THREAD_POOL_H_

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"

namespace deepslice {

// Run() may be called from one thread at a time. Nothing is allocated in Run.
class ThreadPool {
 public:
  // The caller is thread 0, so `num_threads` - 1 threads are made.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const;
  // Calls job(thread) once on each thread, thread in [0, num_threads), and
  // returns when all are done.
  void Run(absl::FunctionRef<void(int thread)> job);
  // Calls job(begin, end, thread) over [0, n) in contiguous parts, borders at
  // multiples of `grain`; runs on the caller alone when one grain holds all.
  void ParallelFor(int64_t n, int64_t grain,
                   absl::FunctionRef<void(int64_t, int64_t, int)> job);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_KERNELS_THREAD_POOL_H_
