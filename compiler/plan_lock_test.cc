#include "compiler/plan_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "schema/base/file.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

class PlanLockTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = JoinPath(testing::TempDir(), "plan_lock_test.XXXXXX");
    ASSERT_NE(mkdtemp(root_.data()), nullptr);
  }
  void TearDown() override {
    EXPECT_EQ(*ListDirectory(root_), std::vector<std::string>());
    rmdir(root_.c_str());
  }
  std::string root_;
};

TEST_F(PlanLockTest, OneHolderAtATime) {
  const std::string plan = JoinPath(root_, "plan");
  {
    DS_ASSERT_OK_AND_ASSIGN(const auto held, PlanLock::Take(plan));
    DS_EXPECT_ERROR(PlanLock::Take(plan + "/"), kAlreadyExists,
                    absl::StrCat("plan/: locked by process ", getpid(), ", "));
    DS_ASSERT_OK(PlanLock::Take(JoinPath(root_, "other")).status());
    EXPECT_EQ(*ListDirectory(root_), std::vector<std::string>{".plan.lock"});
  }
  DS_ASSERT_OK(PlanLock::Take(plan).status());
}

TEST_F(PlanLockTest, ALockOfTheDeadIsTakenOver) {
  const std::string plan = JoinPath(root_, "plan");
  DS_ASSERT_OK(WriteFile(JoinPath(root_, ".plan.lock"), "1234567\n"));
  DS_ASSERT_OK_AND_ASSIGN(const auto held, PlanLock::Take(plan));
  EXPECT_EQ(*ReadFile(JoinPath(root_, ".plan.lock"), 100),
            absl::StrCat(getpid(), "\n"));
}

TEST_F(PlanLockTest, LongNamesThatBeginAlikeAreApart) {
  const std::string stem(200, 'x');
  DS_ASSERT_OK_AND_ASSIGN(const auto a,
                          PlanLock::Take(JoinPath(root_, stem + "a")));
  DS_ASSERT_OK_AND_ASSIGN(const auto b,
                          PlanLock::Take(JoinPath(root_, stem + "b")));
}

TEST_F(PlanLockTest, AHolderWithoutANumberIsNamedSo) {
  const std::string file = JoinPath(root_, ".plan.lock");
  const int fd = open(file.c_str(), O_RDWR | O_CREAT, 0666);
  ASSERT_EQ(flock(fd, LOCK_EX | LOCK_NB), 0);
  DS_EXPECT_ERROR(PlanLock::Take(JoinPath(root_, "plan")), kAlreadyExists,
                  "locked by another process");
  close(fd);
  unlink(file.c_str());
}

TEST_F(PlanLockTest, OfManyThatRaceOneHoldsIt) {
  const std::string plan = JoinPath(root_, "plan");
  std::atomic<int> inside{0}, taken{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 300; ++k) {
        const auto lock = PlanLock::Take(plan);
        if (!lock.ok()) continue;
        ++taken;
        EXPECT_EQ(++inside, 1);
        --inside;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_GT(taken, 0);
}

}  // namespace
}  // namespace deepslice
