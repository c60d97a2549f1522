#include "kernels/thread_pool.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <thread>
#include <vector>

#include "schema/base/check.h"
#include "schema/base/checked_math.h"

namespace deepslice {
namespace {

using Word = std::atomic<uint32_t>;
static_assert(sizeof(Word) == 4 && Word::is_always_lock_free);

// A step is a few hundred jobs a few microseconds apart, so the next one nearly
// always comes within this time; longer would take the core from other ranks.
constexpr std::chrono::microseconds kSpin(20);
constexpr int kPausesPerClockRead = 32;

inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

// Sleeps while *word == value; may also return early.
void FutexWait(Word* word, uint32_t value) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}

void FutexWake(Word* word, int count) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

// Returns when done() holds (true) or after kSpin (false).
template <typename Done>
bool SpinUntil(Done done) {
  if (done()) return true;
  const auto start = std::chrono::steady_clock::now();
  while (true) {
    for (int i = 0; i < kPausesPerClockRead; ++i) {
      Pause();
      if (done()) return true;
    }
    if (std::chrono::steady_clock::now() - start > kSpin) return false;
  }
}

}  // namespace

struct ThreadPool::State {
  // Changes with each job and at the end; workers sleep on it.
  alignas(64) Word generation{0};
  // Workers asleep or about to be; Run wakes only when there are some.
  Word sleepers{0};
  std::atomic<bool> stop{false};
  const absl::FunctionRef<void(int)>* job = nullptr;
  // Workers that have not finished the job; the caller sleeps on it.
  alignas(64) Word pending{0};
  Word caller_sleeps{0};

  std::vector<std::thread> workers;

  void Work(int thread) {
    uint32_t seen = 0;
    while (true) {
      auto changed = [&] {
        return generation.load(std::memory_order_acquire) != seen;
      };
      while (!SpinUntil(changed)) {
        // Either this thread sees the new generation below, or Run sees this
        // sleeper: both are sequentially consistent.
        sleepers.fetch_add(1, std::memory_order_seq_cst);
        while (generation.load(std::memory_order_seq_cst) == seen) {
          FutexWait(&generation, seen);
        }
        sleepers.fetch_sub(1, std::memory_order_relaxed);
      }
      // At most one generation ahead: the next waits for this thread's part.
      ++seen;
      if (stop.load(std::memory_order_relaxed)) return;
      (*job)(thread);
      if (pending.fetch_sub(1, std::memory_order_seq_cst) == 1 &&
          caller_sleeps.load(std::memory_order_seq_cst) != 0) {
        FutexWake(&pending, 1);
      }
    }
  }

  void Publish() {
    generation.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers.load(std::memory_order_seq_cst) != 0) {
      FutexWake(&generation, INT_MAX);
    }
  }

  void WaitForWorkers() {
    auto finished = [&] {
      return pending.load(std::memory_order_acquire) == 0;
    };
    if (SpinUntil(finished)) return;
    caller_sleeps.store(1, std::memory_order_seq_cst);
    while (true) {
      const uint32_t left = pending.load(std::memory_order_seq_cst);
      if (left == 0) break;
      FutexWait(&pending, left);
    }
    caller_sleeps.store(0, std::memory_order_relaxed);
  }
};

ThreadPool::ThreadPool(int num_threads) : state_(std::make_unique<State>()) {
  DS_CHECK(num_threads >= 1);
  State* state = state_.get();
  for (int i = 1; i < num_threads; ++i) {
    state->workers.emplace_back([state, i] { state->Work(i); });
  }
}

ThreadPool::~ThreadPool() {
  state_->stop.store(true, std::memory_order_relaxed);
  state_->Publish();
  for (std::thread& worker : state_->workers) worker.join();
}

int ThreadPool::num_threads() const {
  return static_cast<int>(state_->workers.size()) + 1;
}

void ThreadPool::Run(absl::FunctionRef<void(int)> job) {
  State& state = *state_;
  const uint32_t workers = static_cast<uint32_t>(state.workers.size());
  if (workers == 0) {
    job(0);
    return;
  }
  state.job = &job;
  state.pending.store(workers, std::memory_order_relaxed);
  state.Publish();
  job(0);
  state.WaitForWorkers();
}

void ThreadPool::ParallelFor(
    int64_t n, int64_t grain,
    absl::FunctionRef<void(int64_t, int64_t, int)> job) {
  if (n <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  const int64_t grains = CeilDiv(n, grain);
  const int64_t parts = std::min<int64_t>(grains, num_threads());
  if (parts == 1) {
    job(0, n, 0);
    return;
  }
  Run([&](int thread) {
    if (thread >= parts) return;
    const int64_t begin = PartBegin(grains, parts, thread) * grain;
    const int64_t end = PartBegin(grains, parts, thread + 1) * grain;
    job(begin, std::min(end, n), thread);
  });
}

}  // namespace deepslice
