// Chooses cuts for linears whose x stays in registers.
#include "kernels/cuda/linear_resident.h"

#include <algorithm>

#include "kernels/cuda/linear_tiling.h"
#include "schema/base/dtype.h"

namespace deepslice {
namespace {

constexpr int64_t kChunk = 32;
constexpr int64_t kMostStages = 16;
// Registers of a thread beside x and the sums, as the assembler's reports show.
constexpr int64_t kOtherRegisters = 48;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t TokenTiles(const LinearShape& s) { return CeilDiv(s.tokens, 8); }

int64_t Steps(const LinearShape& s, const ResidentTiling& t) {
  return CeilDiv(s.in, kChunk * t.cluster * t.warps * t.unroll);
}

bool LateFactor(const LinearShape& s) {
  return s.norm == FusedNorm::kRms && s.x == DType::kBF16;
}

}  // namespace

int ResidentClusters(const GpuTarget& target, int cluster) {
  // The SMs of a cluster are of one GPC, and GPCs differ in size: of an H200's
  // 132 SMs 30 clusters of 4 run at once and 13 of 8 (measured; one more takes
  // a second wave), and 66 of 2.
  const int all = target.num_sms / cluster;
  if (cluster <= 2) return all;
  return std::max(cluster == 4 ? all * 30 / 33 : all * 13 / 16, 1);
}

int64_t LinearResidentShared(const LinearShape& s, const ResidentTiling& t) {
  const int64_t rows = 16 * t.tiles;
  const int64_t share = CeilDiv(s.tokens * rows / 4, t.cluster);
  int64_t pieces = 1;  // of 16 bytes
  if (LateFactor(s)) {
    pieces += t.warps * 2 * TokenTiles(s) + CeilDiv(t.cluster * s.tokens, 4);
  } else if (s.norm != FusedNorm::kNone) {
    pieces += CeilDiv(2 * s.tokens, 4);
  }
  pieces += 2 * t.cluster * share;                    // inboxes
  pieces += 2 * t.warps * s.tokens * (rows + 4) / 4;  // sums
  pieces += t.warps * t.stages * t.unroll * t.tiles * 64;
  return pieces * 16;
}

bool LinearResidentFits(const LinearShape& s, const GpuTarget& target,
                        const ResidentTiling& t) {
  if (!LinearMmaFits(s) || !target.hopper() || t.stages < 1) return false;
  const int64_t share = CeilDiv(s.tokens * 4 * t.tiles, t.cluster);
  if ((t.cluster - 1) * share >= s.tokens * 4 * t.tiles) return false;
  if (t.clusters > CeilDiv(s.out, 8) || t.warps * 32 < s.tokens) return false;
  const int64_t x = Steps(s, t) * t.unroll * TokenTiles(s) * 4;
  const int64_t sums = t.tiles * TokenTiles(s) * 4;
  const int64_t most = std::min<int64_t>(255, 65536 / (t.warps * 32) / 8 * 8);
  return x + sums + kOtherRegisters <= most &&
         LinearResidentShared(s, t) <= target.shared_bytes;
}

std::optional<ResidentTiling> DeepestResident(const LinearShape& s,
                                              const GpuTarget& target,
                                              ResidentTiling t) {
  t.clusters = ResidentClusters(target, t.cluster);
  const int64_t rows = CeilDiv(CeilDiv(s.out, 8), t.clusters) * 8;
  const int64_t steps = CeilDiv(rows, 16 * t.tiles) * Steps(s, t);
  t.stages = 0;
  while (t.stages < std::min(steps, kMostStages)) {
    ResidentTiling more = t;
    ++more.stages;
    if (!LinearResidentFits(s, target, more)) break;
    t = more;
  }
  if (t.stages < 2) return std::nullopt;
  return t;
}

std::optional<ResidentTiling> ChooseResident(const LinearShape& s,
                                             const GpuTarget& target) {
  // With fewer tokens or columns there is little of x; with fewer rows its way
  // into the registers takes longer than what follows.
  if (s.tokens <= 16 || s.in < 2048 || 2 * s.in * s.out < (16 << 20)) {
    return std::nullopt;
  }
  // More blocks for a k leave each less of x to read.
  for (int cluster : {4, 8, 2}) {
    for (int unroll : {2, 1}) {
      const std::optional<ResidentTiling> t = DeepestResident(
          s, target, {.tiles = 2, .unroll = unroll, .cluster = cluster});
      if (t.has_value()) return t;
    }
  }
  return std::nullopt;
}

}  // namespace deepslice
