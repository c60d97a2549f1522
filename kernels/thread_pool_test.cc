#include "kernels/thread_pool.h"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <new>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace {
std::atomic<int64_t> allocations{0};
}  // namespace

// Counts what the pool allocates; everything else goes on as usual.
void* operator new(size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* p = std::malloc(size == 0 ? 1 : size)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace deepslice {
namespace {

double ProcessCpuSeconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

TEST(ThreadPool, CallsTheJobOnceOnEachThread) {
  for (int n = 1; n <= 8; ++n) {
    ThreadPool pool(n);
    EXPECT_EQ(pool.num_threads(), n);
    std::vector<int> calls(n, 0);
    pool.Run([&](int thread) { ++calls[thread]; });
    EXPECT_EQ(calls, std::vector<int>(n, 1)) << n << " threads";
  }
}

TEST(ThreadPool, ManyShortJobsSeeEachOthersWrites) {
  for (int n = 1; n <= 8; ++n) {
    ThreadPool pool(n);
    std::vector<int64_t> from(n, 0), to(n, 0);
    for (int j = 0; j < 500; ++j) {
      // Each thread reads what its neighbour wrote in the job before.
      pool.Run([&](int t) { to[t] = from[(t + 1) % n] + 1; });
      std::swap(from, to);
    }
    EXPECT_EQ(from, std::vector<int64_t>(n, 500)) << n << " threads";
  }
}

TEST(ThreadPool, SurvivesPausesOfAnyLengthBetweenAndInsideJobs) {
  std::mt19937 rng(7);
  auto busy = [](int us) {
    const auto start = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - start <
           std::chrono::microseconds(us)) {
    }
  };
  for (int n : {2, 3, 8}) {
    ThreadPool pool(n);
    std::atomic<int64_t> sum{0};
    int64_t want = 0;
    // Around the 20 us where spinning turns into sleep, on both sides.
    for (int j = 0; j < 600; ++j) {
      const int slow_thread = static_cast<int>(rng() % n);
      const int inside = static_cast<int>(rng() % 40);
      pool.Run([&](int thread) {
        if (thread == slow_thread) busy(inside);
        sum.fetch_add(thread + 1, std::memory_order_relaxed);
      });
      want += n * (n + 1) / 2;
      ASSERT_EQ(sum.load(), want) << n << " threads, job " << j;
      const int between = static_cast<int>(rng() % 60);
      if (between > 40) {
        std::this_thread::sleep_for(std::chrono::microseconds(between));
      } else {
        busy(between);
      }
    }
  }
}

TEST(ThreadPool, ParallelForCoversEachIndexOnceInGrains) {
  for (int threads : {1, 2, 3, 7}) {
    ThreadPool pool(threads);
    for (int64_t n : {0, 1, 5, 16, 17, 100}) {
      for (int64_t grain : {0, 1, 3, 16, 200}) {
        std::vector<int> seen(n, 0);
        std::atomic<int> calls{0};
        pool.ParallelFor(n, grain, [&](int64_t begin, int64_t end, int thread) {
          ++calls;
          EXPECT_GE(thread, 0);
          EXPECT_LT(thread, threads);
          EXPECT_LT(begin, end);
          EXPECT_EQ(begin % std::max<int64_t>(grain, 1), 0);
          for (int64_t i = begin; i < end; ++i) ++seen[i];
        });
        EXPECT_EQ(seen, std::vector<int>(n, 1)) << n << " by " << grain;
        EXPECT_TRUE(n == 0 || grain < n || calls.load() == 1);
      }
    }
  }
}

TEST(ThreadPool, OneGrainRunsOnTheCaller) {
  ThreadPool pool(4);
  const auto caller = std::this_thread::get_id();
  pool.ParallelFor(10, 10, [&](int64_t, int64_t, int thread) {
    EXPECT_EQ(thread, 0);
    EXPECT_EQ(std::this_thread::get_id(), caller);
  });
}

TEST(ThreadPool, RunAllocatesNothing) {
  ThreadPool pool(3);
  std::atomic<int64_t> sum{0};
  pool.Run([&](int) { ++sum; });
  const int64_t before = allocations.load();
  for (int j = 0; j < 100; ++j) {
    pool.Run([&](int) { ++sum; });
    pool.ParallelFor(50, 1, [&](int64_t b, int64_t e, int) { sum += e - b; });
  }
  EXPECT_EQ(allocations.load(), before);
}

TEST(ThreadPool, AParkedPoolUsesNoProcessorTime) {
  ThreadPool pool(8);
  std::atomic<int> calls{0};
  pool.Run([&](int) { ++calls; });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const double before = ProcessCpuSeconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  // 7 spinning workers would have used all cores for 0.3 s.
  EXPECT_LT(ProcessCpuSeconds() - before, 0.01);
  pool.Run([&](int) { ++calls; });
  EXPECT_EQ(calls.load(), 16);
}

TEST(ThreadPool, StartsAndStopsWithoutAJob) {
  for (int i = 0; i < 50; ++i) ThreadPool pool(1 + i % 8);
}

}  // namespace
}  // namespace deepslice
