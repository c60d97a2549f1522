// How long an all-reduce between processes takes: microseconds by ranks and
// size, with the bytes that each rank reads of others in that time.
#include <algorithm>
#include <cstdio>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "runtime/comm/ranks_for_test.h"

namespace deepslice {
namespace {

std::string Measure(Comm* comm, int64_t floats) {
  std::vector<float> data(floats, 1.0f);
  const int repeats = std::max<int>(20, (4 << 20) / (floats + 2000));
  std::vector<double> micros;
  for (int i = 0; i < repeats; ++i) {
    if (!comm->Barrier().ok()) return "failed";
    const absl::Time start = absl::Now();
    if (!comm->AllReduceSum(data.data(), floats).ok()) return "failed";
    micros.push_back(absl::ToDoubleMicroseconds(absl::Now() - start));
    std::fill(data.begin(), data.end(), 1.0f);
  }
  std::sort(micros.begin(), micros.end());
  const double median = micros[micros.size() / 2];
  return absl::StrFormat("%9.1f us %7.2f GB/s  (best %.1f, p99 %.1f)", median,
                         4e-3 * floats * (comm->size() - 1) / median, micros[0],
                         micros[micros.size() * 99 / 100]);
}

void Main() {
  for (const int world : {2, 4, 8}) {
    for (const int64_t floats : {int64_t{1}, int64_t{1024}, int64_t{4096},
                                 int64_t{32768}, int64_t{1} << 20}) {
      const auto results =
          RunInRanks(CommKind::kShm, world,
                     [floats](Comm* comm) { return Measure(comm, floats); });
      std::printf("%d ranks %9lld bytes %s\n", world,
                  static_cast<long long>(floats * 4), results[0].c_str());
    }
  }
}

}  // namespace
}  // namespace deepslice

int main() { deepslice::Main(); }
