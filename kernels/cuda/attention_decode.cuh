// One token of each sequence: rotates q and k, appends k and v, attends over
// the keys. A block takes one part of the keys of one KV head, for up to 16
// query heads that read it; the block of a head that ends last joins the parts.
//
// The token's own key and value never come back through the cache: the block of
// part 0 holds them in shared memory and adds them to its sums itself.
#pragma once

#include "attention_decode_loop.cuh"

// Rows are query heads of a KV head, kRows at a time. Grid: kv_heads * kPasses,
// tokens, kMost parts: parts that a short sequence lacks come last. A part's
// scratch: float[kRows][dim] sums, then float[kRows][4] with the maximum and
// the sum of weights.
template <typename Heads, int kRows, int kMost>
struct DecodeScratch {
  static constexpr int64_t kPart = kRows * (Heads::dim + 4);
  // head: counts KV heads (and passes) of all tokens.
  __device__ static float* Part(float* scratch, int head, int part) {
    return scratch + (static_cast<int64_t>(head) * kMost + part) * kPart;
  }
};

// Joins the parts of all rows, as if one block had seen all keys. weights:
// float[kMost][kRows] in shared memory.
template <typename T, typename Heads, typename Rows, int kRows, int kMost>
__device__ __forceinline__ void JoinParts(float* scratch, int head, int parts,
                                          int kv, int member, T* out,
                                          float* weights) {
  using Scratch = DecodeScratch<Heads, kRows, kMost>;
  constexpr int kDim = Heads::dim, kQuads = kDim / 4;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int row = warp; row < kRows; row += kDecodeWarps) {
    float most = MinusInfinity(), sum = 0;
    float2 mine[CeilDiv(kMost, 32)];
#pragma unroll
    for (int i = 0; i < CeilDiv(kMost, 32); ++i) {
      const int part = lane + 32 * i;
      mine[i] = make_float2(MinusInfinity(), 0);
      if (part < parts) {
        const float4 x = LoadFresh(Scratch::Part(scratch, head, part) +
                                   kRows * kDim + 4 * row);
        mine[i] = make_float2(x.x, x.y);
      }
      most = fmaxf(most, mine[i].x);
    }
    most = WarpMax(most);
#pragma unroll
    for (int i = 0; i < CeilDiv(kMost, 32); ++i) {
      mine[i].x = Exp2(mine[i].x - most);
      sum += mine[i].x * mine[i].y;
    }
    sum = WarpSum(sum);
#pragma unroll
    for (int i = 0; i < CeilDiv(kMost, 32); ++i) {
      const int part = lane + 32 * i;
      if (part < parts) {
        weights[part * kRows + row] = __fdividef(mine[i].x, sum);
      }
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kRows * kQuads; i += kDecodeThreads) {
    const int row = i / kQuads, d = 4 * (i % kQuads);
    if (!Heads::Has(kv, member + row)) continue;
    float4 y = make_float4(0, 0, 0, 0);
#pragma unroll 8
    for (int part = 0; part < parts; ++part) {
      const float4 x = LoadFresh(Scratch::Part(scratch, head, part) +
                                 row * kDim + d);
      const float w = weights[part * kRows + row];
      y.x += w * x.x, y.y += w * x.y, y.z += w * x.z, y.w += w * x.w;
    }
    *reinterpret_cast<uint2*>(out + Heads::Head(kv, member + row) * kDim + d) =
        make_uint2(Pack2<T>(y.x, y.y), Pack2<T>(y.z, y.w));
  }
}

template <typename T, typename Heads, typename Keys, typename Rotary,
          typename Rows, int kRows, int kEven, int kMost>
__global__ void __launch_bounds__(kDecodeThreads)
    AttentionDecode(const StepInfo* info, const T* q, const T* k, const T* v,
                    const int* positions, const int* slots, const int* blocks,
                    const float* freqs, T* state, float* scratch,
                    uint32_t* sync, T* out) {
  constexpr int kDim = Heads::dim, kPasses = CeilDiv(Heads::group, kRows);
  using Cache = AttentionCache<T, Heads, Keys>;
  using Scratch = DecodeScratch<Heads, kRows, kMost>;

  // Row kRows is the new key. Row strides keep the banks apart.
  constexpr int kStride = kDim + 32, kSumStride = kDim + 4;
  __shared__ __align__(16) T rotated[kRows + 1][kStride];
  __shared__ float value[kDim];  // the new one
  __shared__ float2 angles[Rotary::half + 1];
  __shared__ float own_score[kRows];
  __shared__ __align__(16) float sums[kDecodeWarps][kRows][kSumStride];
  __shared__ float most[kDecodeWarps][kRows], total[kDecodeWarps][kRows];
  __shared__ bool last;
  static_assert(sizeof(sums) >= kMost * kRows * sizeof(float), "weights fit");

  const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
  const int g = lane / 4, c = lane % 4;
  const int kv = blockIdx.x / kPasses;
  const int member = blockIdx.x % kPasses * kRows;  // of row 0
  const int t = blockIdx.y, part_index = blockIdx.z;

  GridDone();
  GridWait();

  // Everything that hangs on nothing is asked for at once, before the first
  // question whether it is needed. (Rows beyond the step's are there, stale.)
  const int position = positions[t];
  const int* table =
      blocks + static_cast<int64_t>(slots[t]) * info->blocks_per_seq;
  constexpr int kUnits = (kRows + 1) * Rotary::units;
  constexpr int kSteps = CeilDiv(kUnits, kDecodeThreads);
  float2 raw[kSteps];
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
    const int row = (i * kDecodeThreads + tid) / Rotary::units;
    const int u = (i * kDecodeThreads + tid) % Rotary::units;
    raw[i] = make_float2(0, 0);
    if (row > kRows || (row < kRows && !Heads::Has(kv, member + row))) continue;
    const T* x = row == kRows
                     ? Rows::K(k, t) + kv * kDim
                     : Rows::Q(q, t) + Heads::Head(kv, member + row) * kDim;
    raw[i].x = ToFloat(x[Rotary::First(u)]);
    if (u < Rotary::half) raw[i].y = ToFloat(x[Rotary::Second(u)]);
  }
  const float freq = tid < Rotary::half ? freqs[tid] : 0;
  constexpr int kValueSteps = CeilDiv(kDim, kDecodeThreads);
  T raw_value[kValueSteps];
#pragma unroll
  for (int i = 0; i < kValueSteps; ++i) {
    const int d = min(i * kDecodeThreads + tid, kDim - 1);
    raw_value[i] = Rows::V(v, t)[kv * kDim + d];
  }
  const int tokens = info->tokens;

  const DecodePart part =
      DecodePartOf<Keys, kEven, kMost>(position, part_index);
  if (t >= tokens || part_index >= part.parts) return;
  DecodeLoop<T, Heads, Keys, kRows, kStride> loop = {state, table, kv, g, c};
  const int token = part.begin + warp * kDecodeGroup;
  int block = 0;
  if (token < part.end) {
    block = loop.Block(token);
    loop.PrefetchKeys(block, token);
    loop.PrefetchValues(block, token);
  }

#pragma unroll
  for (int i = 0; i < kValueSteps; ++i) {
    const int d = i * kDecodeThreads + tid;
    if (d < kDim) value[d] = ToFloat(raw_value[i]);
  }
  if (tid < Rotary::half) angles[tid] = Rotary::Angle(position, freq);
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
    const int row = (i * kDecodeThreads + tid) / Rotary::units;
    const int u = (i * kDecodeThreads + tid) % Rotary::units;
    if (row > kRows) continue;
    float2 x = raw[i];
    if (u < Rotary::half) {
      x = Rotate(x, angles[u]);
      rotated[row][Rotary::Second(u)] = FromFloat<T>(x.y);
    }
    rotated[row][Rotary::First(u)] = FromFloat<T>(x.x);
  }
  __syncthreads();

  if (part_index == 0) {
    if (member == 0) {
      const int at = position % Keys::block_tokens;
      const int own = loop.Block(position);
      T* key = Cache::KeysOf(state, own, kv) + at * kDim;
      T* column = Cache::ValuesOf(state, own, kv) + at;
#pragma unroll
      for (int i = 0; i < kValueSteps; ++i) {
        const int d = i * kDecodeThreads + tid;
        if (d >= kDim) continue;
        key[d] = rotated[kRows][d];
        column[d * Keys::block_tokens] = raw_value[i];
      }
    }
    for (int row = warp; row < kRows; row += kDecodeWarps) {
      float dot = 0;
#pragma unroll
      for (int i = 0; i < kDim / 32; ++i) {
        const int d = lane + 32 * i;
        dot += ToFloat(rotated[row][d]) * ToFloat(rotated[kRows][d]);
      }
      dot = WarpSum(dot);
      if (lane == 0) own_score[row] = dot * Keys::Scale();
    }
  }

  DecodeState<T, kDim, kRows> mine;
  mine.Clear();
  loop.Run(&rotated[0][0], part, token, block, mine);
#pragma unroll
  for (int h = 0; h < mine.kHalves; ++h) {
    float sum = mine.sum[h];
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    if (g + 8 * h < kRows) {
      most[warp][g + 8 * h] = mine.most[h];
      total[warp][g + 8 * h] = sum;
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int row = 8 * h + 2 * c + j % 2;
      if (row >= kRows) continue;
#pragma unroll
      for (int i = 0; i < kDim / 16; ++i) {
        sums[warp][row][16 * i + 8 * (j / 2) + g] = mine.o[h][i][j];
      }
    }
  }
  __syncthreads();

  // The warps' sums become the block's: the answer, or one of several parts.
  const int head = t * gridDim.x + blockIdx.x;
  float* mine_out = Scratch::Part(scratch, head, part_index);
  constexpr int kQuads = kDim / 4;
  for (int i = tid; i < kRows * kQuads; i += kDecodeThreads) {
    const int row = i / kQuads, d = 4 * (i % kQuads);
    if (!Heads::Has(kv, member + row)) continue;
    float top = part_index == 0 ? own_score[row] : MinusInfinity();
#pragma unroll
    for (int w = 0; w < kDecodeWarps; ++w) top = fmaxf(top, most[w][row]);
    float4 y = make_float4(0, 0, 0, 0);
    float sum = 0;
    if (part_index == 0) {
      sum = Exp2(own_score[row] - top);
      y = make_float4(sum * value[d], sum * value[d + 1], sum * value[d + 2],
                      sum * value[d + 3]);
    }
#pragma unroll
    for (int w = 0; w < kDecodeWarps; ++w) {
      const float weight = Exp2(most[w][row] - top);
      const float4 x =
          *reinterpret_cast<const float4*>(&sums[w][row][d]);
      sum += weight * total[w][row];
      y.x += weight * x.x, y.y += weight * x.y;
      y.z += weight * x.z, y.w += weight * x.w;
    }
    if (part.parts == 1) {
      const float inverse = __fdividef(1, sum);
      *reinterpret_cast<uint2*>(Rows::Out(out, t) +
                                Heads::Head(kv, member + row) * kDim + d) =
          make_uint2(Pack2<T>(y.x * inverse, y.y * inverse),
                     Pack2<T>(y.z * inverse, y.w * inverse));
    } else {
      *reinterpret_cast<float4*>(mine_out + row * kDim + d) = y;
      if (d == 0) {
        *reinterpret_cast<float4*>(mine_out + kRows * kDim + 4 * row) =
            make_float4(top, sum, 0, 0);
      }
    }
  }
  if (part.parts == 1) return;

  __threadfence();
  __syncthreads();
  if (tid == 0) {
    last = atomicAdd(sync + head, 1u) + 1 == static_cast<uint32_t>(part.parts);
    if (last) sync[head] = 0;  // as the next step finds it
  }
  __syncthreads();
  if (!last) return;
  __threadfence();
  JoinParts<T, Heads, Rows, kRows, kMost>(scratch, head, part.parts, kv, member,
                                          Rows::Out(out, t), &sums[0][0][0]);
}
