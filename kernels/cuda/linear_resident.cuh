// Linear layers of 9 to 32 tokens in 16 bits whose x stays in the registers of
// the card while w streams past.
//
// linear_mma.cuh reads x once more for every block of rows: with 32 tokens that
// is a quarter to all of the weights' bytes again, and L2 delivers little more
// than memory does. Here the blocks stay, one on an SM: the kCluster blocks of
// a cluster share out k, the warps of a block share out its part, and a warp
// keeps the fragments of its x, which it reads once. Half of the registers of
// kCluster SMs hold x for 2048 * kCluster columns and 32 tokens.
//
// - The rows of w are shared out evenly among the clusters, so that all end at
//   the same time; a cluster takes its own in groups of 16 * kTiles. Chunks,
//   fragments and each warp's ring of copies are those of linear_mma.cuh, but
//   the ring runs on across groups: its copies are in flight while sums meet.
// - The sums of a group meet twice, in a fixed order: those of the warps in
//   shared memory, then every block sends each other its share of tokens and
//   rows, and each finishes its own. What is sent is counted where it arrives
//   (linear_send.cuh): no fence waits for the copies in flight. A group is
//   finished while the next is multiplied, so that nobody waits for the way.
// - One barrier of the block for a group is enough, as sums and inboxes are
//   double. A block finishes a group before it sends for the next, and has what
//   all sent for that before it sends for the one after: so nobody overwrites
//   an inbox that is still read.
#pragma once
#include "linear_lane.cuh"
#include "linear_ptx.cuh"
#include "linear_send.cuh"
#include "linear_shape.cuh"

// kClusters * kCluster blocks of kWarps warps. Dynamic shared memory:
// LinearResidentShared of linear_resident.h.
template <typename T, typename Y, typename S, int kTiles, int kWarps,
          int kUnroll, int kStages, int kCluster, int kClusters>
__global__ void __launch_bounds__(kWarps * 32, 1) DEEPSLICE_CLUSTER(kCluster)
    LinearResident(const StepInfo* info, const T* x, const T* w,
                   const float* norm_scale, const float* norm_bias,
                   const float* bias, const T* residual, const int* rows,
                   Y* y) {
  constexpr int kThreads = kWarps * 32;
  constexpr int kRows = 16 * kTiles;
  constexpr int kTokenTiles = (S::kTokens + 7) / 8;
  // The factor of RmsNorm at the end, or normalised fragments.
  constexpr bool kLateFactor = S::Has(kRmsNorm) && kRangeOfFloat<T>;
  constexpr bool kStatistics = S::kNormed && !kLateFactor;
  constexpr int kStep = kCluster * kWarps * kUnroll * kChunk;  // k of all warps
  constexpr int kSteps = (S::kIn + kStep - 1) / kStep;         // of a group
  constexpr bool kWhole = kSteps * kStep == S::kIn;
  constexpr int kStage = kUnroll * kTiles * 64;  // in pieces of 16 bytes
  static_assert(S::kIn % kLane == 0, "choose LinearSimple");

  // Sums of a warp, [token][row]: see linear_mma.cuh. Four rows of a token are
  // a quad; of the quads [token][row / 4] each rank finishes kShare.
  constexpr int kPitch = kRows + 4;
  constexpr int kQuads = S::kTokens * kRows / 4;
  constexpr int kShare = (kQuads + kCluster - 1) / kCluster;
  static_assert((kCluster - 1) * kShare < kQuads, "all ranks have a share");
  constexpr int kWarpSums = S::kTokens * kPitch;
  constexpr int kInbox = kCluster * kShare * 4;  // [from rank][quad]

  // Shared memory, each on 16 bytes: barriers of the inboxes, statistics,
  // squares of the warps and of the ranks, inboxes, sums, rings.
  uint64_t* barriers = DynamicShared<uint64_t>();
  float* shared = DynamicShared<float>() + 4;
  float2* all_statistics = reinterpret_cast<float2*>(shared);
  if constexpr (kStatistics) shared += (2 * S::kTokens + 3) / 4 * 4;
  float* warp_squares = shared;
  float* rank_squares = shared + kWarps * 8 * kTokenTiles;
  if constexpr (kLateFactor) {
    shared = rank_squares + (kCluster * S::kTokens + 3) / 4 * 4;
  }
  float* inboxes = shared;
  float* sums_of_warps = inboxes + 2 * kInbox;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int g = lane / 4, c = lane % 4;
  uint4* ring =
      reinterpret_cast<uint4*>(sums_of_warps + 2 * kWarps * kWarpSums) +
      warp * kStages * kStage;

  GridDone();
  if (threadIdx.x == 0) {
    InitInbox(barriers);
    InitInbox(barriers + 1);
  }
  ClusterArrive();
  const int rank = kCluster > 1 ? ClusterRank() : 0;
  constexpr int kUnits = (S::kOut + 7) / 8;  // of eight rows
  static_assert(kUnits >= kClusters, "every cluster has rows");
  const int cluster = static_cast<int>(blockIdx.x) / kCluster;
  const int begin = 8 * static_cast<int>(int64_t{kUnits} * cluster / kClusters);
  const int end =
      min(8 * static_cast<int>(int64_t{kUnits} * (cluster + 1) / kClusters),
          S::kOut);
  const int groups = (end - begin + kRows - 1) / kRows;
  const int warp_k = (rank * kWarps + warp) * kUnroll * kChunk;

  // Starts the copies of a step of a group; of rows past the end, zeros.
  const T* w_lane =
      w + static_cast<int64_t>(begin + g) * S::kIn + warp_k + c * kLane;
  const auto copy_weights = [&](int group, int step, uint4* stage) {
    const T* from = w_lane + static_cast<int64_t>(group) * kRows * S::kIn;
    const int left = end - begin - group * kRows - g;
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int k = step * kStep + u * kChunk;
      const bool inside = kWhole || warp_k + k + c * kLane < S::kIn;
#pragma unroll
      for (int i = 0; i < 2 * kTiles; ++i) {
        StartCopy16(stage + (u * kTiles * 2 + i) * 32 + lane,
                    from + k + static_cast<int64_t>(8 * i) * S::kIn,
                    inside && 8 * i < left);
      }
    }
  };
#pragma unroll
  for (int s = 0; s < kStages; ++s) {
    copy_weights(s / kSteps, s % kSteps, ring + s * kStage);
    EndCopyGroup();
  }
  if constexpr (S::kNormed) {
    if (lane < kSteps * kUnroll) {  // a chunk's scales are a line
      const int k = warp_k + lane / kUnroll * kStep + lane % kUnroll * kChunk;
      if (kWhole || k < S::kIn) {
        PrefetchL2(norm_scale + k);
        if constexpr (S::Has(kNormBias)) PrefetchL2(norm_bias + k);
      }
    }
  }
  if constexpr (S::Has(kBias)) {
    const int row = begin + static_cast<int>(threadIdx.x) * 32;
    if (row < end) PrefetchL2(bias + row);
  }
  GridWait();

  const int count = S::Count(info);
  uint4 fragments[kSteps][kUnroll][kTokenTiles];
  bool has_token[kTokenTiles];
#pragma unroll
  for (int n = 0; n < kTokenTiles; ++n) {
    const int t = 8 * n + g;
    has_token[n] = 8 * n + 8 <= S::kTokens || t < S::kTokens;
    const T* x_lane = x + warp_k + c * kLane;
    if (has_token[n]) x_lane += S::XRow(rows, t, count) * S::kXStride;
#pragma unroll
    for (int i = 0; i < kSteps * kUnroll; ++i) {
      const int k = i / kUnroll * kStep + i % kUnroll * kChunk;
      uint4& b = fragments[i / kUnroll][i % kUnroll][n];
      b = make_uint4(0, 0, 0, 0);
      if (has_token[n] && (kWhole || warp_k + k + c * kLane < S::kIn)) {
        b = Load16(x_lane + k);
      }
    }
  }
  float2 statistics[kTokenTiles] = {};
  if constexpr (kStatistics) {
    RowStatistics<T, S, kWarps, kLane>(x, rows, count, all_statistics);
    __syncthreads();
#pragma unroll
    for (int n = 0; n < kTokenTiles; ++n) {
      if (has_token[n]) statistics[n] = all_statistics[8 * n + g];
    }
  }
  if constexpr (S::kNormed) {
    float squares[kTokenTiles] = {};
#pragma unroll
    for (int i = 0; i < kSteps * kUnroll; ++i) {
      const int k = warp_k + i / kUnroll * kStep + i % kUnroll * kChunk;
      float scale[kLane] = {}, shift[kLane] = {};
      if (kWhole || k + c * kLane < S::kIn) {
        LoadLane(reinterpret_cast<const uint4*>(norm_scale + k + c * kLane),
                 scale);
        if constexpr (S::Has(kNormBias)) {
          LoadLane(reinterpret_cast<const uint4*>(norm_bias + k + c * kLane),
                   shift);
        }
      }
#pragma unroll
      for (int n = 0; n < kTokenTiles; ++n) {
        uint4& b = fragments[i / kUnroll][i % kUnroll][n];
        if constexpr (kLateFactor) {
          b = ScaleLane<T>(b, scale, &squares[n]);
        } else {
          b = NormalizeLane<T, S>(b, statistics[n], scale, shift);
        }
      }
    }
    if constexpr (kLateFactor) {
#pragma unroll
      for (int n = 0; n < kTokenTiles; ++n) {
        squares[n] += __shfl_xor_sync(~0u, squares[n], 1);
        squares[n] += __shfl_xor_sync(~0u, squares[n], 2);
        if (c == 0) {
          warp_squares[warp * 8 * kTokenTiles + 8 * n + g] = squares[n];
        }
      }
    }
  }

  // Columns of y that this rank finishes, shared out among the threads. What is
  // added there is on its way long before.
  constexpr int kColumns = kShare * 4 / S::kPerColumn;
  constexpr int kItems = (kColumns + kThreads - 1) / kThreads;
  typename S::Addends addends[kItems] = {};
  struct Item {
    int place, token, row;  // place in the inbox, row of w
    bool there;
  };
  const auto item = [&](int group, int j) -> Item {
    const int place =
        (j * kThreads + static_cast<int>(threadIdx.x)) * S::kPerColumn;
    const int at = rank * kShare * 4 + place;
    const int t = at / kRows, row = begin + group * kRows + at % kRows;
    return {place, t, row, place < kShare * 4 && t < count && row < end};
  };
  const auto load_addends = [&](int group) {
#pragma unroll
    for (int j = 0; j < kItems; ++j) {
      const Item i = item(group, j);
      if (!i.there) continue;
      addends[j] =
          S::LoadAddends(i.token, i.row / S::kPerColumn, bias, residual);
    }
  };
  const auto finish = [&](int group) {
    WaitInbox(barriers + group % 2, group / 2 % 2);
    const float* inbox = inboxes + group % 2 * kInbox;
#pragma unroll
    for (int j = 0; j < kItems; ++j) {
      const Item i = item(group, j);
      if (!i.there) continue;
      float factor = 1;
      if constexpr (kLateFactor) {
        float squares = rank_squares[i.token];
#pragma unroll
        for (int r = 1; r < kCluster; ++r) {
          squares += rank_squares[r * S::kTokens + i.token];
        }
        factor = rsqrtf(squares / S::kIn + S::Eps());
      }
      float z[S::kPerColumn];
#pragma unroll
      for (int p = 0; p < S::kPerColumn; ++p) {
        z[p] = inbox[i.place + p];
#pragma unroll
        for (int r = 1; r < kCluster; ++r) {
          z[p] += inbox[r * kShare * 4 + i.place + p];
        }
        z[p] *= factor;
      }
      y[i.token * S::kYStride + i.row / S::kPerColumn] =
          FromFloat<Y>(S::Finish(z, addends[j]));
    }
  };

  ClusterWait();  // all inboxes are ready
  const int quads = min(kShare, kQuads - rank * kShare);
  int stage_index = 0;
#pragma unroll 1
  for (int group = 0; group < groups; ++group) {
    if (group > 0) load_addends(group - 1);
    float sums[kTiles][kTokenTiles][4] = {};
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      WaitCopyGroups<kStages - 1>();
      uint4* stage = ring + stage_index * kStage;
      stage_index = stage_index + 1 == kStages ? 0 : stage_index + 1;
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
#pragma unroll
        for (int m = 0; m < kTiles; ++m) {
          const uint4 lo = stage[(u * kTiles + m) * 64 + lane];
          const uint4 hi = stage[(u * kTiles + m) * 64 + 32 + lane];
#pragma unroll
          for (int n = 0; n < kTokenTiles; ++n) {
            const uint4& b = fragments[s][u][n];
            Mma<T>(sums[m][n], lo.x, hi.x, lo.y, hi.y, b.x, b.y);
          }
#pragma unroll
          for (int n = 0; n < kTokenTiles; ++n) {
            const uint4& b = fragments[s][u][n];
            Mma<T>(sums[m][n], lo.z, hi.z, lo.w, hi.w, b.z, b.w);
          }
        }
      }
      const int next = group + (s + kStages) / kSteps;
      if (next < groups) copy_weights(next, (s + kStages) % kSteps, stage);
      EndCopyGroup();
    }
    if (group > 0) finish(group - 1);

    float* block_sums = sums_of_warps + group % 2 * kWarps * kWarpSums;
    float* warp_sums = block_sums + warp * kWarpSums;
#pragma unroll
    for (int n = 0; n < kTokenTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int t = 8 * n + 2 * c + i;
        if (8 * n + 8 > S::kTokens && t >= S::kTokens) continue;
#pragma unroll
        for (int m = 0; m < kTiles; ++m) {
          warp_sums[t * kPitch + 16 * m + g] = sums[m][n][i];
          warp_sums[t * kPitch + 16 * m + g + 8] = sums[m][n][i + 2];
        }
      }
    }
    __syncthreads();
    uint64_t* barrier = barriers + group % 2;
    if (threadIdx.x == 0) {
      int bytes = kCluster * quads * 16;
      if (kLateFactor && group == 0) bytes += kCluster * S::kTokens * 4;
      ExpectBytes(barrier, bytes);
    }
    float* inbox = inboxes + group % 2 * kInbox + rank * kShare * 4;
#pragma unroll
    for (int first = 0; first < kQuads; first += kThreads) {
      const int q = first + static_cast<int>(threadIdx.x);
      if (first + kThreads > kQuads && q >= kQuads) continue;
      const int at = q / (kRows / 4) * kPitch + q % (kRows / 4) * 4;
      float4 sum = *reinterpret_cast<const float4*>(block_sums + at);
#pragma unroll
      for (int i = 1; i < kWarps; ++i) {
        const float4 v =
            *reinterpret_cast<const float4*>(block_sums + i * kWarpSums + at);
        sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
      }
      Send(sum, inbox + q % kShare * 4, barrier, q / kShare);
    }
    if constexpr (kLateFactor) {
      const int t = static_cast<int>(threadIdx.x);
      static_assert(kThreads >= S::kTokens, "a thread a token");
      if (group == 0 && t < S::kTokens) {
        float squares = warp_squares[t];
#pragma unroll
        for (int i = 1; i < kWarps; ++i) {
          squares += warp_squares[i * 8 * kTokenTiles + t];
        }
#pragma unroll
        for (int r = 0; r < kCluster; ++r) {
          Send(squares, rank_squares + rank * S::kTokens + t, barrier, r);
        }
      }
    }
  }
  load_addends(groups - 1);
  finish(groups - 1);
}
