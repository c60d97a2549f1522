// Linear layers of up to 32 tokens in 16 bits: weights stream from memory
// through shared memory into the fragments of the tensor core.
//
// Such a layer is a read of its weights: everything here serves to keep enough
// of them in flight (bandwidth times latency is some 25 KB for each SM of a
// Hopper card; two to four times that is wanted) and all else off their way.
//
// - Weights are the A operand of m16n8k16, tokens its 8 columns: one token
//   costs as much as eight. A sum may run over k in any order, so k is renamed
//   within chunks of 32: the lane of row g and column group c takes the eight
//   elements k0 + 8c .. + 7 of rows g and g + 8, one 16-byte load each, as
//   columns 2c, 2c + 1, 2c + 8, 2c + 9 of two multiplications. x is read by the
//   same rule, so both agree, without shuffles or a packed copy of the weights.
//   The four lanes of a row read 64 adjacent bytes, and the kUnroll chunks of a
//   step are adjacent, so that whole lines are used.
// - The warps of a block share out k, not rows: each x is read by one warp of a
//   block, and many loads of few rows are in flight. Their sums meet in shared
//   memory at the end, in a fixed order.
// - Every warp has a ring of kStages steps in shared memory, filled by
//   cp.async. A lane copies just what it will multiply itself, so the ring
//   needs no barrier, and bytes in flight cost no registers. (Fragments that
//   wait in registers were tried: many tokens then spill, and the assembler
//   moves plain loads of constants behind GridWait.) The ring is filled before
//   GridWait: that, with blocks so small that those of two kernels fit on an
//   SM, bridges the gap between kernels. The first steps' x comes after it: of
//   few tokens by plain loads, which wait for no weights; of many by copies.
// - x comes from L2, kTokens / (16 kTiles) of the weights' bytes: with many
//   tokens kTiles is large, and where that leaves too few blocks for the SMs,
//   the blocks of a cluster share out k, too, and meet in each other's shared
//   memory.
// - RmsNorm in bf16 costs no pass of its own: fragments are x * scale, each
//   warp sums the squares of the x it reads, and y takes the factor 1 / rms in
//   the end. LayerNorm needs the mean before, and x * scale may leave half_t's
//   range, so there the block reads x once more ahead for mean and deviation.
#pragma once
#include "linear_lane.cuh"
#include "linear_ptx.cuh"
#include "linear_shape.cuh"

// A block of kWarps warps makes 16 * kTiles rows of w times all tokens; of
// kCluster adjacent blocks each takes its part of k and stores its part of the
// rows. Dynamic shared memory: LinearMmaShared of linear_tiling.h.
template <typename T, typename Y, typename S, int kTiles, int kWarps,
          int kUnroll, int kStages, int kMinBlocks, int kCluster>
__global__ void __launch_bounds__(kWarps * 32, kMinBlocks)
    DEEPSLICE_CLUSTER(kCluster)
        LinearMma(const StepInfo* info, const T* x, const T* w,
                  const float* norm_scale, const float* norm_bias,
                  const float* bias, const T* residual, const int* rows, Y* y) {
  constexpr int kRows = 16 * kTiles;
  constexpr int kTokenTiles = (S::kTokens + 7) / 8;
  // The factor of RmsNorm at the end, or normalised fragments.
  constexpr bool kLateFactor = S::Has(kRmsNorm) && kRangeOfFloat<T>;
  constexpr bool kStatistics = S::kNormed && !kLateFactor;
  constexpr int kStep = kCluster * kWarps * kUnroll * kChunk;  // k of all warps
  constexpr int kSteps = (S::kIn + kStep - 1) / kStep;
  constexpr bool kWhole = kSteps * kStep == S::kIn;
  static_assert(S::kIn % kLane == 0 && S::kOut >= kRows, "choose LinearSimple");
  static_assert(kRows % (2 * kCluster) == 0, "parts of rows are even");
  static_assert(kStages <= kSteps, "no stage stays empty");

  // A stage of a warp, in pieces of 16 bytes: weights
  // [chunk][tile][half][lane], x [chunk][token][4], norm scale and bias
  // [chunk][8]; whole lines of 128 bytes, else the copies that fill it take
  // twice the cycles of shared memory.
  constexpr int kXAt = kUnroll * kTiles * 64;
  constexpr int kScaleAt = kXAt + kUnroll * S::kTokens * 4;
  constexpr int kShiftAt = kScaleAt + (S::kNormed ? kUnroll * 8 : 0);
  constexpr int kStage =
      (kShiftAt + (S::Has(kNormBias) ? kUnroll * 8 : 0) + 7) / 8 * 8;
  // In the end a warp's ring takes its sums, [token][row], and its sums of
  // squares, [8 * kTokenTiles]. With a pitch of 4 more than a multiple of 16 a
  // fragment's stores meet no bank twice.
  constexpr int kPitch = kRows + 4;
  constexpr int kSquaresAt = S::kTokens * kPitch;
  constexpr int kSums = (kSquaresAt + 8 * kTokenTiles + 31) / 32 * 8;
  constexpr int kRing = kStages * kStage > kSums ? kStages * kStage : kSums;
  constexpr int kWarpFloats = kRing * 4;

  GridDone();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int g = lane / 4, c = lane % 4;
  const int rank = kCluster > 1 ? ClusterRank() : 0;
  // The last block's rows begin earlier where they would not be whole; it
  // stores only those that are its own.
  const int own_row = static_cast<int>(blockIdx.x) / kCluster * kRows;
  const int first_row = min(own_row, S::kOut - kRows);
  const int warp_k = (rank * kWarps + warp) * kUnroll * kChunk;
  float* shared = DynamicShared<float>();
  float2* all_statistics = reinterpret_cast<float2*>(shared);
  if constexpr (kStatistics) shared += (2 * S::kTokens + 31) / 32 * 32;
  float* factors = shared + kWarps * kWarpFloats;  // of tokens
  uint4* ring = reinterpret_cast<uint4*>(shared) + warp * kRing;

  // Starts the copies of what does not depend on other steps.
  const T* w_lane =
      w + static_cast<int64_t>(first_row + g) * S::kIn + c * kLane;
  const auto copy_weights = [&](int step, uint4* stage) {
    const int step_k = warp_k + step * kStep;
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int k = step_k + u * kChunk;
      const bool inside = kWhole || k + c * kLane < S::kIn;
#pragma unroll
      for (int i = 0; i < 2 * kTiles; ++i) {
        StartCopy16(stage + (u * kTiles * 2 + i) * 32 + lane,
                    w_lane + k + static_cast<int64_t>(8 * i) * S::kIn, inside);
      }
    }
    if constexpr (S::kNormed) {
#pragma unroll
      for (int first = 0; first < kUnroll * 8; first += 32) {
        const int i = first + lane, k = step_k + 4 * i;
        if (first + 32 > kUnroll * 8 && i >= kUnroll * 8) continue;
        const bool inside = kWhole || k < S::kIn;
        StartCopy16(stage + kScaleAt + i, norm_scale + k, inside);
        if constexpr (S::Has(kNormBias)) {
          StartCopy16(stage + kShiftAt + i, norm_bias + k, inside);
        }
      }
    }
  };
#pragma unroll
  for (int s = 0; s < kStages; ++s) {
    copy_weights(s, ring + s * kStage);
    EndCopyGroup();
  }
  if constexpr (S::Has(kBias)) {
    if (threadIdx.x * 32 < kRows) {  // a line is 32 floats
      PrefetchL2(bias + min(own_row + static_cast<int>(threadIdx.x) * 32,
                            S::kOut - 1));
    }
  }
  GridWait();

  const int count = S::Count(info);
  const T* x_lane[kTokenTiles];
  bool has_token[kTokenTiles];
#pragma unroll
  for (int n = 0; n < kTokenTiles; ++n) {
    const int t = 8 * n + g;
    has_token[n] = 8 * n + 8 <= S::kTokens || t < S::kTokens;
    x_lane[n] = x + c * kLane;
    if (has_token[n]) x_lane[n] += S::XRow(rows, t, count) * S::kXStride;
  }
  const auto copy_x = [&](int step, uint4* stage) {
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int k = warp_k + step * kStep + u * kChunk;
#pragma unroll
      for (int n = 0; n < kTokenTiles; ++n) {
        if (has_token[n]) {
          StartCopy16(stage + kXAt + u * S::kTokens * 4 + n * 32 + lane,
                      x_lane[n] + k, kWhole || k + c * kLane < S::kIn);
        }
      }
    }
  };

  if constexpr (kTokenTiles > 1) {
    // Groups arrive in order, so that kStages - 1 are behind a step's x, whether
    // its weights were ahead of it or come in the same group.
#pragma unroll
    for (int s = 0; s < kStages; ++s) {
      copy_x(s, ring + s * kStage);
      EndCopyGroup();
    }
  } else {
    // A group of x would wait for all weights before it.
    uint4 first[kStages][kUnroll];
#pragma unroll
    for (int i = 0; i < kStages * kUnroll; ++i) {
      const int s = i / kUnroll, u = i % kUnroll;
      const int k = warp_k + s * kStep + u * kChunk;
      first[s][u] = make_uint4(0, 0, 0, 0);
      if (has_token[0] && (kWhole || k + c * kLane < S::kIn)) {
        first[s][u] = Load16(x_lane[0] + k);
      }
    }
#pragma unroll
    for (int i = 0; i < kStages * kUnroll; ++i) {
      const int s = i / kUnroll, u = i % kUnroll;
      if (has_token[0]) {
        ring[s * kStage + kXAt + u * S::kTokens * 4 + lane] = first[s][u];
      }
    }
  }

  // The block's part of y is shared out among its threads in strips of a few
  // rows of w, as long as all have one; what is added there is on its way before
  // the sums are ready.
  constexpr int kPart = kRows / kCluster;
  constexpr int kThreads = kWarps * 32;
  constexpr int kShare = S::kTokens * kPart / kThreads;
  constexpr bool kFours = kShare >= 4 && kPart % 4 == 0 && S::kOut % 4 == 0;
  constexpr bool kPairs =
      S::kPerColumn == 2 || (kShare >= 2 && S::kOut % 2 == 0);
  constexpr int kStrip = kFours ? 4 : kPairs ? 2 : 1;
  constexpr int kColumns = kStrip / S::kPerColumn;
  constexpr int kStrips = kPart / kStrip;  // of a token
  constexpr int kItems = (S::kTokens * kStrips + kThreads - 1) / kThreads;
  constexpr int kBatch = kItems < 4 ? kItems : 4;
  // The first row of a strip in the block.
  const auto row_of = [&](int i) {
    return rank * kPart + i % kStrips * kStrip;
  };
  typename S::template Addends<kColumns> addends[kBatch] = {};
  const auto load_addends = [&](int first) {
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      const int i = (first + j) * kThreads + static_cast<int>(threadIdx.x);
      if (i >= S::kTokens * kStrips) continue;
      const int column = (first_row + row_of(i)) / S::kPerColumn;
      addends[j] = S::template LoadAddends<kColumns>(i / kStrips, column, bias,
                                                     residual);
    }
  };
  if constexpr (kItems == 1) load_addends(0);

  float2 statistics[kTokenTiles] = {};
  if constexpr (kStatistics) {
    RowStatistics<T, S, kWarps, kLane>(x, rows, count, all_statistics);
    __syncthreads();
#pragma unroll
    for (int n = 0; n < kTokenTiles; ++n) {
      if (has_token[n]) statistics[n] = all_statistics[8 * n + g];
    }
  }

  float sums[kTiles][kTokenTiles][4] = {};
  float squares[kTokenTiles] = {};
  int stage_index = 0;
#pragma unroll 1
  for (int step = 0; step < kSteps; ++step) {
    WaitCopyGroups<kStages - 1>();
    if constexpr (S::kNormed) __syncwarp();  // the scale is of all lanes
    uint4* stage = ring + stage_index * kStage;
    stage_index = stage_index + 1 == kStages ? 0 : stage_index + 1;
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      uint4 b[kTokenTiles];
#pragma unroll
      for (int n = 0; n < kTokenTiles; ++n) {
        b[n] = make_uint4(0, 0, 0, 0);
        if (has_token[n]) {
          b[n] = stage[kXAt + u * S::kTokens * 4 + n * 32 + lane];
        }
      }
      if constexpr (S::kNormed) {
        float scale[kLane], shift[kLane];
        LoadLane(stage + kScaleAt + u * 8 + c * 2, scale);
        if constexpr (S::Has(kNormBias)) {
          LoadLane(stage + kShiftAt + u * 8 + c * 2, shift);
        }
#pragma unroll
        for (int n = 0; n < kTokenTiles; ++n) {
          if constexpr (kLateFactor) {
            b[n] = ScaleLane<T>(b[n], scale, &squares[n]);
          } else {
            b[n] = NormalizeLane<T, S>(b[n], statistics[n], scale, shift);
          }
        }
      }
#pragma unroll
      for (int m = 0; m < kTiles; ++m) {
        const uint4 lo = stage[(u * kTiles + m) * 64 + lane];
        const uint4 hi = stage[(u * kTiles + m) * 64 + 32 + lane];
#pragma unroll
        for (int n = 0; n < kTokenTiles; ++n) {
          Mma<T>(sums[m][n], lo.x, hi.x, lo.y, hi.y, b[n].x, b[n].y);
        }
#pragma unroll
        for (int n = 0; n < kTokenTiles; ++n) {
          Mma<T>(sums[m][n], lo.z, hi.z, lo.w, hi.w, b[n].z, b[n].w);
        }
      }
    }
    if constexpr (kSteps > kStages) {
      if constexpr (S::kNormed) __syncwarp();  // all have read the scale
      if (step + kStages < kSteps) {
        copy_weights(step + kStages, stage);
        copy_x(step + kStages, stage);
      }
    }
    EndCopyGroup();
  }
  if constexpr (kItems > 1) load_addends(0);

  __syncwarp();  // the ring has been read
  float* warp_sums = shared + warp * kWarpFloats;
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
    if constexpr (kLateFactor) {
      squares[n] += __shfl_xor_sync(~0u, squares[n], 1);
      squares[n] += __shfl_xor_sync(~0u, squares[n], 2);
      if (c == 0) warp_sums[kSquaresAt + 8 * n + g] = squares[n];
    }
  }
  __syncthreads();
  const auto add_warps = [&](int at, auto sum) {
    using Strip = decltype(sum);
    sum = *reinterpret_cast<const Strip*>(shared + at);
#pragma unroll
    for (int i = 1; i < kWarps; ++i) {
      sum.Add(*reinterpret_cast<const Strip*>(shared + i * kWarpFloats + at));
    }
    return sum;
  };
  if constexpr (kCluster > 1) {
    constexpr int kEnd = kSquaresAt + (kLateFactor ? 8 * kTokenTiles : 0);
    for (int i = threadIdx.x * kStrip; i < kEnd; i += kThreads * kStrip) {
      const auto sum = add_warps(i, LinearStrip<kStrip>());
      *reinterpret_cast<LinearStrip<kStrip>*>(shared + i) = sum;
    }
    ClusterSync<true>();
  }
  const auto total = [&](int at, auto sum) {
    if constexpr (kCluster == 1) {
      return add_warps(at, sum);
    } else {
      sum = LoadOfRank<decltype(sum)>(shared + at, 0);
#pragma unroll
      for (int r = 1; r < kCluster; ++r) {
        sum.Add(LoadOfRank<decltype(sum)>(shared + at, r));
      }
      return sum;
    }
  };
  const auto factor_of = [&](int t) {
    const float squares = total(kSquaresAt + t, LinearStrip<1>()).v[0];
    return rsqrtf(squares / S::kIn + S::Eps());
  };
  constexpr bool kSharedFactors = kLateFactor && kItems > 1;
  if constexpr (kSharedFactors) {
    if (threadIdx.x < 8 * kTokenTiles) {
      factors[threadIdx.x] = factor_of(threadIdx.x);
    }
    __syncthreads();
  }
#pragma unroll 1
  for (int first = 0; first < kItems; first += kBatch) {
    if (first > 0) load_addends(first);
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      const int i = (first + j) * kThreads + static_cast<int>(threadIdx.x);
      const int t = i / kStrips, row = row_of(i);
      if (t >= count || first_row + row < own_row) continue;
      auto z = total(t * kPitch + row, LinearStrip<kStrip>());
      if constexpr (kLateFactor) {
        z.Scale(kSharedFactors ? factors[t] : factor_of(t));
      }
      S::Store(z.v, addends[j], t, (first_row + row) / S::kPerColumn, y);
    }
  }
  // No block leaves while others read its sums.
  if constexpr (kCluster > 1) ClusterSync<false>();
}
