// Execute allocates nothing: operator new is counted.
#include <atomic>
#include <cstdlib>
#include <new>

#include "gtest/gtest.h"
#include "runtime/executor.h"
#include "schema/base/status_matchers.h"
#include "tests/support/plan_builder.h"

namespace {
std::atomic<int64_t> allocations{0};

void* Counted(std::size_t size, std::size_t alignment) {
  allocations.fetch_add(1);
  void* p = nullptr;
  if (posix_memalign(&p, alignment, size == 0 ? 1 : size) != 0) std::abort();
  return p;
}
}  // namespace

void* operator new(std::size_t n) { return Counted(n, 16); }
void* operator new[](std::size_t n) { return Counted(n, 16); }
void* operator new(std::size_t n, std::align_val_t a) {
  return Counted(n, static_cast<std::size_t>(a));
}
void* operator new[](std::size_t n, std::align_val_t a) {
  return Counted(n, static_cast<std::size_t>(a));
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept {
  std::free(p);
}
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept {
  std::free(p);
}

namespace deepslice {
namespace {

TEST(ExecutorAllocations, NoneInPrefillDecodeAndMixture) {
  const auto plan = TinyLlama().Build().Load();
  DS_ASSERT_OK(plan);
  ThreadPool pool(2);
  DS_ASSERT_OK_AND_ASSIGN(const auto executor,
                          Executor::Prepare(*plan, {}, nullptr, &pool));
  std::vector<int32_t> blocks;
  for (int i = 0; i < executor->num_blocks(); ++i) blocks.push_back(i);
  struct Arrays {
    std::vector<int32_t> ids, positions, slots, rows;
  };
  const std::vector<Arrays> steps = {
      {{1, 2, 3, 4, 5, 6, 7, 8, 9},
       {0, 1, 2, 3, 4, 5, 6, 7, 8},
       {1, 1, 1, 1, 1, 1, 1, 1, 1},
       {8}},                                                 // prefill
      {{10}, {9}, {1}, {0}},                                 // decode
      {{11, 1, 2, 3}, {10, 0, 1, 2}, {1, 0, 0, 0}, {0, 3}},  // mixture
      {{4, 12}, {3, 11}, {0, 1}, {}},                        // no rows
  };
  const int64_t before_vector = allocations.load();
  { const std::vector<int> v(10); }
  ASSERT_GT(allocations.load(), before_vector);  // the counter counts
  for (size_t s = 0; s < steps.size(); ++s) {
    const StepBatch batch = {steps[s].ids, steps[s].positions, steps[s].slots,
                             blocks, steps[s].rows};
    const int64_t before = allocations.load();
    const absl::Status status = executor->Execute(batch);
    const int64_t after = allocations.load();
    DS_ASSERT_OK(status);
    EXPECT_EQ(after - before, 0) << "step " << s;
  }
}

}  // namespace
}  // namespace deepslice
