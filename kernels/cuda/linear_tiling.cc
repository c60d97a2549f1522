// Chooses tilings: of cuts known to be good by what they leave idle, and for
// small layers by what blocks read.
#include "kernels/cuda/linear_tiling.h"

#include <algorithm>
#include <optional>

#include "schema/base/check.h"
#include "schema/base/dtype.h"

namespace deepslice {
namespace {

constexpr int64_t kChunk = 32;  // columns of w

// Layers with so little of w for each SM, or such short rows, are over before
// a deep ring pays.
constexpr int64_t kSmallShare = 48 << 10;
constexpr int64_t kShortRow = 1024;

// Small layers. What an SM takes in a microsecond when all do, on an H200 (4.6
// TB/s of memory, some 6 TB/s through L2). Only their ratio and that to the
// costs below decide.
constexpr double kMemoryBytes = 34.8e3;
constexpr double kL2Bytes = 45.5e3;
// Microseconds that a block's start and end cost the others of its SM, and that
// every doubling of a cluster costs its blocks and the kernel: two meetings, a
// coarser fit.
constexpr double kBlockCost = 0.1;
constexpr double kClusterCost = 0.7;

// Weights that an SM should have in flight: twice what hides memory's latency,
// so that there is something left while a kernel starts or ends.
constexpr int64_t kInFlight = 96 << 10;
// Most shared memory of a block, so that an SM also has place for the next
// kernel's first block, or for three blocks where there are that many.
constexpr int64_t kMostShared = 112 << 10;
constexpr int64_t kMostSharedOfMany = 60 << 10;

// The first steps' x of up to 8 tokens waits in registers: at most so many loads
// a lane.
constexpr int64_t kMostFirstLoads = 20;

// Others. As above, with rings that fill an SM; of the time that SMs are idle,
// the part that is lost; microseconds of a wave, of a token in one of lone
// blocks, and of a cluster's meeting and a token in it. Fitted to the times of
// --sweep.
constexpr int64_t kMostStages = 8;
constexpr double kDeepBytes = 33.5e3;
constexpr double kDeepL2Bytes = 48.8e3;
constexpr double kIdleOfOne = 0.36;
constexpr double kIdleOfMany = 0.2;
constexpr double kWaveCost = 0.63;
constexpr double kAloneCost = 0.074;
constexpr double kMeetingCost = 0.14;
constexpr double kMeetingTokenCost = 0.092;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t TokenTiles(const LinearShape& s) { return CeilDiv(s.tokens, 8); }

// Pieces of 16 bytes of a stage of a warp, as in linear_mma.cuh.
int64_t StagePieces(const LinearShape& s, const LinearTiling& t) {
  int64_t pieces = t.tiles * 64 + s.tokens * 4;
  if (s.norm != FusedNorm::kNone) pieces += 8;
  if (s.norm_bias) pieces += 8;
  return CeilDiv(pieces * t.unroll, 8) * 8;
}

bool FirstLoadsFit(const LinearShape& s, const LinearTiling& t) {
  return TokenTiles(s) > 1 || t.stages * t.unroll <= kMostFirstLoads;
}

int64_t Steps(const LinearShape& s, const LinearTiling& t) {
  return CeilDiv(s.in, kChunk * t.cluster * t.warps * t.unroll);
}

int64_t Blocks(const LinearShape& s, const LinearTiling& t) {
  return CeilDiv(s.out, 16 * t.tiles) * t.cluster;
}

int64_t BlocksPerSm(const LinearShape& s, const GpuTarget& target,
                    const LinearTiling& t) {
  return CeilDiv(Blocks(s, t), target.num_sms);
}

// Microseconds of a small layer. Where SMs have unequal numbers of blocks,
// those of the fuller ones get more of the memory's rate than their share of
// SMs, but not as much as their share of blocks: the mean of both. Many blocks
// are dealt out as they end.
double SmallCost(const LinearShape& s, const GpuTarget& target,
                 const LinearTiling& t) {
  const double w = 32.0 * t.tiles * s.in / t.cluster;
  const double x = 2.0 * s.tokens * s.in / t.cluster;
  double block = std::max(w / kMemoryBytes, (w + x) / kL2Bytes) + kBlockCost;
  double kernel = 0;
  for (int c = 1; c < t.cluster; c *= 2) {
    block += kBlockCost;
    kernel += kClusterCost;
  }
  const double fair = static_cast<double>(Blocks(s, t)) / target.num_sms;
  return (BlocksPerSm(s, target, t) + std::max(fair, 1.0)) / 2 * block + kernel;
}

// Fills in what follows from tiles and cluster in a small layer.
void CutDepth(const LinearShape& s, const GpuTarget& target, LinearTiling* t) {
  const bool many = BlocksPerSm(s, target, *t) > 1;
  const bool many_tokens = TokenTiles(s) > 2;
  // Two chunks of a row are a whole line of memory.
  t->unroll = t->tiles <= 2 ? 2 : 1;
  t->warps = t->tiles == 1 && !many ? 16 : 8;
  // Accumulators and fragments of x, as the assembler's reports show.
  const bool normed = s.norm != FusedNorm::kNone;
  t->registers = 64;
  if (t->tiles * t->unroll > 2) {
    t->registers = normed && s.tokens > 8 ? 128 : 96;
  }
  if (many_tokens) t->registers = t->tiles == 1 ? 96 : normed ? 168 : 128;

  const int64_t in_flight = many ? kInFlight / 2 : kInFlight;
  const int64_t shared =
      std::min(many ? kMostSharedOfMany : kMostShared,
               std::max<int64_t>(target.shared_bytes, 48 << 10));
  const int64_t wanted = many_tokens ? 2 : 3;
  while (true) {
    const int64_t steps = Steps(s, *t);
    t->stages = 1;
    while (t->stages < steps) {
      LinearTiling more = *t;
      ++more.stages;
      if (LinearMmaShared(s, more) > shared ||
          more.warps * more.stages * more.unroll * more.tiles * 1024 >
              in_flight ||
          !FirstLoadsFit(s, more)) {
        break;
      }
      *t = more;
    }
    const bool deep = t->stages >= std::min(wanted, steps);
    if (LinearMmaShared(s, *t) <= shared && (deep || t->warps <= 4)) break;
    if (t->warps == 1) break;
    t->warps /= 2;
  }
  // As many steps from no more warps than they need.
  const int64_t steps = Steps(s, *t);
  t->warps = CeilDiv(s.in, kChunk * t->cluster * t->unroll * steps);
  t->stages = std::min<int64_t>(t->stages, Steps(s, *t));
}

LinearTiling SmallTiling(const LinearShape& s, const GpuTarget& target) {
  std::optional<LinearTiling> best;
  double best_cost = 0;
  for (int cluster : {1, 2, 4}) {
    if (cluster > 1 && !target.hopper()) break;
    for (int tiles : {1, 2, 3, 4}) {
      if (16 * tiles > s.out) break;
      LinearTiling t = {.tiles = tiles, .cluster = cluster};
      const double cost = SmallCost(s, target, t);
      if (best.has_value() && cost >= best_cost) continue;
      best = t;
      best_cost = cost;
    }
  }
  CutDepth(s, target, &*best);
  return *best;
}

// A cut that was among the fastest for some layer on an H200 (gpu_kernel_check
// --sweep). Its ring is as deep as `blocks` of them on an SM allow: the whole
// shared memory of an SM is in flight.
struct KnownCut {
  int64_t least_tokens, most_tokens;
  int tiles, warps, unroll, cluster;
  int64_t blocks;
  int64_t least_in = 0;
};
// Where two are as good, the first is taken.
constexpr KnownCut kKnownCuts[] = {
    {1, 4, 2, 16, 2, 1, 1},   {5, 8, 2, 16, 1, 1, 1},
    {9, 16, 2, 8, 1, 1, 1},   {17, 32, 2, 8, 2, 1, 1},
    {1, 8, 2, 8, 1, 1, 2},    {5, 8, 1, 16, 2, 1, 1},
    {1, 4, 3, 8, 1, 1, 1},    {5, 16, 3, 8, 2, 1, 1},
    {1, 8, 4, 8, 1, 1, 1},    {9, 16, 4, 8, 1, 1, 2},
    {9, 16, 4, 4, 1, 1, 4},   {17, 32, 4, 4, 1, 1, 3},
    {17, 32, 8, 8, 1, 1, 1},  {1, 8, 1, 4, 4, 2, 2, 4096},
    {9, 16, 2, 6, 1, 2, 2},   {1, 16, 3, 8, 2, 2, 1},
    {17, 32, 3, 8, 1, 2, 2},  {1, 8, 4, 8, 1, 2, 1},
    {17, 32, 4, 8, 1, 2, 1},  {9, 32, 4, 4, 1, 4, 3},
    {17, 32, 7, 4, 1, 1, 2},  {17, 32, 6, 8, 1, 2, 1},
    {17, 32, 2, 16, 1, 1, 1},
};

// Registers of a thread below which the assembler spills, as its reports show.
int LeastRegisters(const LinearShape& s, const KnownCut& c) {
  const bool normed = s.norm != FusedNorm::kNone;
  if (TokenTiles(s) > 2) {
    if (c.tiles > 4) return 255;
    return normed && c.tiles > 3 ? 168 : 128;
  }
  if (c.tiles * c.unroll <= 2) return 64;
  return normed && TokenTiles(s) == 2 ? 128 : 96;
}

std::optional<LinearTiling> Fit(const LinearShape& s, const GpuTarget& target,
                                const KnownCut& c) {
  LinearTiling t = {.tiles = c.tiles,
                    .warps = c.warps,
                    .unroll = c.unroll,
                    .stages = 0,
                    .cluster = c.cluster};
  if (s.tokens < c.least_tokens || s.tokens > c.most_tokens) return {};
  if (s.in < c.least_in || 16 * t.tiles > s.out) return {};
  if (t.cluster > 1 && !target.hopper()) return {};
  // Fewer blocks would leave shared memory empty; those of a cluster are what
  // helps where there are few rows, with deeper rings then.
  const int64_t blocks = std::min(c.blocks, BlocksPerSm(s, target, t));
  if (blocks < c.blocks && t.cluster == 1) return {};
  t.registers = static_cast<int>(std::clamp<int64_t>(
      65536 / (32 * t.warps * blocks), LeastRegisters(s, c), 255));
  // As many steps from no more warps than they need.
  const int64_t steps = Steps(s, t);
  t.warps =
      static_cast<int>(CeilDiv(s.in, kChunk * t.cluster * t.unroll * steps));
  // An SM keeps 1 KB for itself for each block.
  const int64_t shared =
      (std::max<int64_t>(target.shared_bytes, 48 << 10) + 1024) / blocks - 1024;
  while (t.stages < std::min(steps, kMostStages)) {
    LinearTiling more = t;
    ++more.stages;
    if (LinearMmaShared(s, more) > shared || !FirstLoadsFit(s, more)) break;
    t = more;
  }
  if (t.stages < std::min<int64_t>(steps, 2)) return {};
  return t;
}

// Microseconds of a layer with a known cut, up to a factor. In a single wave
// SMs without a block leave their share of the rate to others, and so do those
// that are done in the last wave, more or less. A block that is alone on its SM
// starts and ends while nothing else is under way there.
double Cost(const LinearShape& s, const GpuTarget& target, const KnownCut& c,
            const LinearTiling& t) {
  const double w = 32.0 * t.tiles * s.in / t.cluster;
  const double x = 2.0 * s.tokens * s.in / t.cluster;
  const double block = std::max(w / kDeepBytes, (w + x) / kDeepL2Bytes);
  const int64_t blocks = Blocks(s, t);
  const int64_t on_sm = std::min(c.blocks, BlocksPerSm(s, target, t));
  const int64_t waves = CeilDiv(blocks, on_sm * target.num_sms);
  const double fair = static_cast<double>(blocks) / target.num_sms;
  const double fullest = static_cast<double>(
      waves == 1 ? BlocksPerSm(s, target, t) : waves * on_sm);
  const double load =
      fair + (waves == 1 ? kIdleOfOne : kIdleOfMany) * (fullest - fair);
  double cost = load * block + waves * kWaveCost;
  if (on_sm == 1) cost += waves * s.tokens * kAloneCost;
  for (int n = 1; n < t.cluster; n *= 2) {
    cost += kMeetingCost + s.tokens * kMeetingTokenCost;
  }
  return cost;
}

}  // namespace

bool LinearMmaFits(const LinearShape& s) {
  return DTypeSize(s.x) == 2 && s.weight == s.x && s.in % 8 == 0 &&
         s.x_stride % 8 == 0 && s.out >= 16;
}

int64_t LinearMmaShared(const LinearShape& s, const LinearTiling& t) {
  const int64_t rows = 16 * t.tiles;
  const int64_t sums = s.tokens * (rows + 4) * 4 + TokenTiles(s) * 32;
  const int64_t ring =
      std::max(t.stages * StagePieces(s, t) * 16, CeilDiv(sums, 128) * 128);
  const bool late_factor = s.norm == FusedNorm::kRms && s.x == DType::kBF16;
  const bool statistics = s.norm != FusedNorm::kNone && !late_factor;
  return (statistics    ? CeilDiv(s.tokens, 16) * 128
          : late_factor ? TokenTiles(s) * 32
                        : 0) +
         t.warps * ring;
}

LinearTiling ChooseLinearTiling(const LinearShape& s, const GpuTarget& target) {
  DS_CHECK(LinearMmaFits(s));
  if (s.in < kShortRow || 2 * s.in * s.out < kSmallShare * target.num_sms) {
    return SmallTiling(s, target);
  }
  std::optional<LinearTiling> best;
  double best_cost = 0;
  for (const KnownCut& cut : kKnownCuts) {
    const std::optional<LinearTiling> t = Fit(s, target, cut);
    if (!t.has_value()) continue;
    const double cost = Cost(s, target, cut, *t);
    if (best.has_value() && cost >= 0.99 * best_cost) continue;
    best = t;
    best_cost = cost;
  }
  return best.has_value() ? *best : SmallTiling(s, target);
}

}  // namespace deepslice
