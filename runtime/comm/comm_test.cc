// One suite over both communicators.
#include "runtime/comm/comm.h"

#include <cmath>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "runtime/comm/ranks_for_test.h"
#include "schema/base/checked_math.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

class CommTest : public testing::TestWithParam<std::tuple<CommKind, int>> {
 protected:
  CommKind kind() const { return std::get<0>(GetParam()); }
  int world() const { return std::get<1>(GetParam()); }
  std::vector<std::string> Run(const RankFunction& f) const {
    return RunInRanks(kind(), world(), f);
  }
};

std::string KindName(
    const testing::TestParamInfo<std::tuple<CommKind, int>>& info) {
  return absl::StrCat(
      std::get<0>(info.param) == CommKind::kLocal ? "Local" : "Shm",
      std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Ranks, CommTest,
                         testing::Combine(testing::Values(CommKind::kLocal,
                                                          CommKind::kShm),
                                          testing::Values(1, 2, 3, 8)),
                         KindName);

class CommOfSeveral : public CommTest {};  // what needs another rank

INSTANTIATE_TEST_SUITE_P(Ranks, CommOfSeveral,
                         testing::Combine(testing::Values(CommKind::kLocal,
                                                          CommKind::kShm),
                                          testing::Values(2, 3, 8)),
                         KindName);

// A value whose sums depend on their order.
float ValueOf(int rank, int64_t i) {
  return std::sin(static_cast<float>(i * 31 + rank * 7 + 1)) *
         std::pow(10.0f, static_cast<float>((i + rank) % 7) - 3.0f);
}

std::string Bytes(const std::vector<float>& v) {
  return std::string(reinterpret_cast<const char*>(v.data()), v.size() * 4);
}

TEST_P(CommTest, SumsOfAnyLengthAreInRankOrderInAllRanks) {
  // 100003 floats need several rounds through the shared buffers.
  const std::vector<int64_t> counts = {0, 1, 7, 16384, 16389, 100003};
  const auto results = Run([&](Comm* comm) -> std::string {
    std::string out;
    for (const int64_t count : counts) {
      std::vector<float> v(count);
      for (int64_t i = 0; i < count; ++i) v[i] = ValueOf(comm->rank(), i);
      const absl::Status s = comm->AllReduceSum(v.data(), count);
      if (!s.ok()) return s.ToString();
      out += Bytes(v);
    }
    return out;
  });
  std::string wanted;
  for (const int64_t count : counts) {
    std::vector<float> v(count);
    for (int64_t i = 0; i < count; ++i) {
      v[i] = ValueOf(0, i);
      for (int r = 1; r < world(); ++r) v[i] += ValueOf(r, i);
    }
    wanted += Bytes(v);
  }
  for (int r = 0; r < world(); ++r) {
    EXPECT_TRUE(results[r] == wanted)
        << "rank " << r << " has " << results[r].size()
        << " bytes: " << results[r].substr(0, 100);
  }
}

TEST_P(CommTest, ManyCallsInARowKeepTheirOrder) {
  const auto results = Run([&](Comm* comm) -> std::string {
    for (int i = 0; i < 300; ++i) {
      std::vector<float> v(5, static_cast<float>(i + comm->rank()));
      absl::Status s = comm->AllReduceSum(v.data(), 5);
      int64_t word = comm->rank() == 0 ? i : -1;
      if (s.ok()) s = comm->Broadcast(&word, sizeof(word));
      if (s.ok() && i % 50 == 0) s = comm->Barrier();
      if (!s.ok()) return s.ToString();
      const int w = comm->size();
      if (v[4] != i * w + w * (w - 1) / 2 || word != i) {
        return absl::StrCat("call ", i, " gives ", v[4], " and ", word);
      }
    }
    return "fine";
  });
  for (const std::string& r : results) EXPECT_EQ(r, "fine");
}

TEST_P(CommTest, GathersUnevenPartsOfColumns) {
  // 3 over 8 leaves ranks without a column; 70001 exceeds a shared buffer.
  for (const auto& [rows, total] : std::vector<std::pair<int64_t, int64_t>>{
           {5, 131}, {4, 3}, {0, 131}, {3, 0}, {1, 1}, {13, 70001}}) {
    const auto results = Run([&, rows = rows, total = total](Comm* comm) {
      const int64_t begin = PartBegin(total, comm->size(), comm->rank());
      const int64_t end = PartBegin(total, comm->size(), comm->rank() + 1);
      std::vector<float> in, out(rows * total, -1);
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = begin; c < end; ++c) in.push_back(r * total + c);
      }
      const absl::Status s =
          comm->AllGatherColumns(in.data(), out.data(), rows, total);
      return s.ok() ? Bytes(out) : s.ToString();
    });
    std::vector<float> wanted(rows * total);
    for (int64_t i = 0; i < rows * total; ++i) wanted[i] = i;
    for (int r = 0; r < world(); ++r) {
      EXPECT_TRUE(results[r] == Bytes(wanted))
          << rows << " x " << total << " at rank " << r;
    }
  }
}

TEST_P(CommTest, BroadcastsMoreThanABuffer) {
  const auto results = Run([&](Comm* comm) {
    std::string bytes(600001, comm->rank() == 0 ? 'x' : '-');
    if (comm->rank() == 0) bytes[600000] = 'y';
    absl::Status s = comm->Broadcast(bytes.data(), bytes.size());
    if (s.ok()) s = comm->Broadcast(nullptr, 0);
    return s.ok() ? bytes : s.ToString();
  });
  for (const std::string& r : results) {
    EXPECT_TRUE(r == std::string(600000, 'x') + "y");
  }
}

TEST_P(CommTest, BarrierHoldsUntilTheLastRankComes) {
  // When the last rank came, and when the others went on.
  const auto results = Run([&](Comm* comm) -> std::string {
    if (!comm->Barrier().ok()) return "failed";
    const bool last = comm->rank() == comm->size() - 1;
    if (last) absl::SleepFor(absl::Milliseconds(150));
    const absl::Time came = absl::Now();
    if (!comm->Barrier().ok()) return "failed";
    return absl::StrCat(absl::ToUnixMicros(last ? came : absl::Now()));
  });
  int64_t came = 0;
  ASSERT_TRUE(absl::SimpleAtoi(results.back(), &came)) << results.back();
  for (const std::string& r : results) {
    int64_t went_on = 0;
    ASSERT_TRUE(absl::SimpleAtoi(r, &went_on)) << r;
    EXPECT_GE(went_on, came);
  }
}

TEST_P(CommOfSeveral, AbortTellsTheOthersWhy) {
  const auto results = Run([&](Comm* comm) {
    if (comm->rank() == 1) {
      comm->Abort(absl::ResourceExhaustedError("no memory for 17 bytes"));
      return std::string("aborted");
    }
    float v = 1;
    const absl::Status first = comm->AllReduceSum(&v, 1);
    const absl::Status second = comm->Barrier();
    return first == second && first == comm->Check() ? first.ToString()
                                                     : "the reason changed";
  });
  for (int r = 0; r < world(); ++r) {
    if (r == 1) continue;
    EXPECT_NE(results[r].find("ABORTED: rank 1"), std::string::npos)
        << results[r];
    EXPECT_NE(results[r].find("no memory for 17 bytes"), std::string::npos)
        << results[r];
  }
}

TEST_P(CommOfSeveral, RankThatLeavesFailsThoseWhoWait) {
  const auto results = Run([&](Comm* comm) -> std::string {
    if (!comm->Barrier().ok()) return "barrier failed";
    if (comm->rank() == comm->size() - 1) return "left";
    const absl::Time start = absl::Now();
    const absl::Status s = comm->Barrier();
    if (absl::Now() - start > absl::Seconds(2)) return "late";
    return s.ToString();
  });
  for (int r = 0; r + 1 < world(); ++r) {
    EXPECT_NE(results[r].find("left"), std::string::npos) << results[r];
    EXPECT_NE(results[r].find(absl::StrCat("ABORTED: rank ")),
              std::string::npos)
        << results[r];
  }
}

TEST_P(CommOfSeveral, CheckIsFineWhileAllAreThereAndWhenTheyLeave) {
  const auto results = Run([&](Comm* comm) -> std::string {
    if (!comm->Check().ok()) return "failed too early";
    if (!comm->Barrier().ok()) return "barrier failed";
    if (comm->rank() == comm->size() - 1) return "left";
    absl::SleepFor(absl::Milliseconds(100));
    return comm->Check().ok() ? "left" : "in order, and yet a failure";
  });
  for (const std::string& r : results) EXPECT_EQ(r, "left");
}

TEST_P(CommOfSeveral, CallsThatDifferAreAnErrorAndNoHang) {
  const auto results = Run([&](Comm* comm) {
    float v[8] = {};
    return (comm->rank() == 1 ? comm->AllReduceSum(v, 8)
                              : comm->AllReduceSum(v, 7))
        .ToString();
  });
  for (const std::string& r : results) {
    EXPECT_NE(r.find("ranks disagree at meeting 1"), std::string::npos) << r;
    EXPECT_NE(r.find("all_reduce of 8 floats"), std::string::npos) << r;
  }
}

}  // namespace
}  // namespace deepslice
