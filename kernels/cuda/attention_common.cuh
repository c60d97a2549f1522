// What attention kernels share: their shapes as types, the cache's addresses,
// and the rotation of q and k.
#pragma once

#include "attention_ptx.cuh"

// ---- shapes, named in entries by attention.cc -------------------------------

// Query head i reads KV head (kHeadOffset + i) / kGroup.
template <int kHeads, int kKvHeads, int kGroup, int kHeadOffset, int kDim>
struct AttentionHeads {
  static constexpr int heads = kHeads, kv_heads = kKvHeads, group = kGroup;
  static constexpr int dim = kDim;
  __device__ static int KvHead(int head) {
    return (kHeadOffset + head) / kGroup;
  }
  // Member `m` (0 <= m < group) of KV head `kv`; may be outside [0, heads) when
  // its query head belongs to another rank.
  __device__ static int Head(int kv, int m) {
    return kv * kGroup - kHeadOffset + m;
  }
  __device__ static bool Has(int kv, int m) {
    return m < kGroup && Head(kv, m) >= 0 && Head(kv, m) < kHeads;
  }
};

// kScaleBits: the float by which scores are multiplied to be exponents of 2.
template <int kBlockTokens, int kWindow, uint32_t kScaleBits>
struct AttentionKeys {
  static constexpr int block_tokens = kBlockTokens, window = kWindow;
  static constexpr bool bent = false, alibi = false, relative = false;
  struct Row {};  // what a query's scores depend on besides its products
  __device__ static float Scale() { return __uint_as_float(kScaleBits); }
  // The first key that a query at `position` sees.
  __device__ static int First(int position) {
    return kWindow > 0 ? max(0, position - kWindow + 1) : 0;
  }
  __device__ static Row RowOf(float slope, int position) { return {}; }
  // The product of a query and a key as an exponent of 2; of its own key.
  __device__ static float Exponent(float dot, Row row, int key) {
    return dot * Scale();
  }
  __device__ static float OwnExponent(float dot) { return dot * Scale(); }
};

// tanh to 2^-22, absolutely: enough for scores of 16-bit numbers.
__device__ __forceinline__ float FastTanh(float x) {
  return 1 - __fdividef(2, 1 + Exp2(x * 2.88539008f));  // 2 log2(e)
}

// Alibi of schema/ops.h by number.
constexpr int kNoAlibi = -1, kAlibiPlain = 0, kAlibiScaledBf16 = 1;

// Keys whose scores are bent on their way to exponents of 2: first the softcap,
// unless kCapBits is 0, then ALiBi. kCapBits: the softcap as an exponent;
// kScaleBits then makes the tanh's argument. kAlibiBits: the factor that makes
// ALiBi an exponent. kPrecise: as near as floats go.
template <int kBlockTokens, int kWindow, uint32_t kScaleBits, uint32_t kCapBits,
          int kAlibi, uint32_t kAlibiBits, bool kPrecise>
struct AttentionBentKeys
    : AttentionKeys<kBlockTokens, kWindow, kScaleBits> {
  static constexpr bool bent = true, alibi = kAlibi != kNoAlibi;
  // ALiBi of a key is 0 where the query is, at `origin`.
  struct Row {
    float slope = 0, origin = 0;
  };
  // Exponents are no more multiplied.
  __device__ static float Scale() { return 1; }
  __device__ static Row RowOf(float slope, int position) {
    const float p = static_cast<float>(position);
    Row row;
    if constexpr (kAlibi == kAlibiPlain) {
      row.slope = slope * __uint_as_float(kAlibiBits);
      row.origin = p;
    }
    if constexpr (kAlibi == kAlibiScaledBf16) {
      row.slope = Rounded(slope);
      row.origin = Rounded(row.slope * p);
    }
    return row;
  }
  __device__ static float Exponent(float dot, Row row, int key) {
    const float y = OwnExponent(dot), k = static_cast<float>(key);
    if constexpr (kAlibi == kAlibiPlain) {
      return fmaf(row.slope, k - row.origin, y);
    }
    if constexpr (kAlibi == kAlibiScaledBf16) {
      return fmaf(__uint_as_float(kAlibiBits),
                  Rounded(row.slope * k) - row.origin, y);
    }
    return y;
  }
  __device__ static float OwnExponent(float dot) {
    const float x = dot * __uint_as_float(kScaleBits);
    if constexpr (kCapBits == 0) return x;
    return __uint_as_float(kCapBits) * (kPrecise ? tanhf(x) : FastTanh(x));
  }

 private:
  __device__ static float Rounded(float x) {
    return ToFloat(FromFloat<bf16>(x));
  }
};

// Row t of q starts at q + kQOffset + t * kQStride.
template <int kQStride, int kQOffset, int kKStride, int kKOffset, int kVStride,
          int kVOffset, int kOutStride>
struct AttentionRows {
  // Whether n elements can be moved at once from any multiple of n in a row.
  __device__ static constexpr bool Wide(int n) {
    return kQStride % n == 0 && kQOffset % n == 0 && kKStride % n == 0 &&
           kKOffset % n == 0 && kOutStride % n == 0;
  }
  __device__ static constexpr bool WideV(int n) {
    return kVStride % n == 0 && kVOffset % n == 0;
  }
  template <typename T>
  __device__ static const T* Q(const T* q, int t) {
    return q + kQOffset + static_cast<int64_t>(t) * kQStride;
  }
  template <typename T>
  __device__ static const T* K(const T* k, int t) {
    return k + kKOffset + static_cast<int64_t>(t) * kKStride;
  }
  template <typename T>
  __device__ static const T* V(const T* v, int t) {
    return v + kVOffset + static_cast<int64_t>(t) * kVStride;
  }
  template <typename T>
  __device__ static T* Out(T* out, int t) {
    return out + static_cast<int64_t>(t) * kOutStride;
  }
};

// ---- the cache (attention.h) ------------------------------------------------

template <typename C, typename Heads, typename Keys>
struct AttentionCache {
  static constexpr int64_t kHead =
      static_cast<int64_t>(Keys::block_tokens) * Heads::dim;

  // Keys of `kv` in `block`: [block_tokens][dim].
  __device__ static C* KeysOf(C* state, int block, int kv) {
    return state + (2 * Heads::kv_heads * static_cast<int64_t>(block) + kv) *
                       kHead;
  }
  // Its values: [dim][block_tokens].
  __device__ static C* ValuesOf(C* state, int block, int kv) {
    return KeysOf(state, block, kv) + Heads::kv_heads * kHead;
  }
};

// ---- rotation ---------------------------------------------------------------

// cos(a) and sin(a) to 1e-7 for |a| < 4e6, with no slow path. pi / 2 in three
// floats: products with a whole number below 2^22 are exact inside the fma, so
// only the last rounding counts.
__device__ __forceinline__ float2 CosSin(float a) {
  const float n = rintf(a * 0.63661977f);
  float r = fmaf(n, -1.57079637e+00f, a);
  r = fmaf(n, 4.37113883e-08f, r);
  r = fmaf(n, 1.71512451e-15f, r);
  const float z = r * r;
  // Taylor series: |r| <= pi / 4, so the terms left out are below 2e-9.
  const float s =
      r + r * z *
              (-1.66666667e-1f +
               z * (8.33333333e-3f +
                    z * (-1.98412698e-4f + z * 2.75573192e-6f)));
  const float c =
      1.0f +
      z * (-0.5f +
           z * (4.16666667e-2f +
                z * (-1.38888889e-3f +
                     z * (2.48015873e-5f - z * 2.75573192e-7f))));
  const int quarter = static_cast<int>(n) & 3;
  const float x = quarter & 1 ? s : c, y = quarter & 1 ? c : s;
  return make_float2(quarter == 1 || quarter == 2 ? -x : x,
                     quarter >= 2 ? -y : y);
}

// The rotation of a head of kDim elements as kUnits units: unit u < half turns
// the pair (First(u), Second(u)), the others leave element First(u) as it is.
// kStyle: RopeStyle of schema/ops.h.
template <int kDim, int kRotaryDim, int kStyle, uint32_t kScaleBits>
struct AttentionRotary {
  static constexpr int half = kRotaryDim / 2;
  // Whether units n * i .. n * i + n - 1 lie side by side, first elements and
  // second ones.
  __device__ static constexpr bool Wide(int n) {
    return half % n == 0 && kDim % n == 0 && (half == 0 || kStyle == 0);
  }
  static constexpr int units = kDim - half;
  __device__ static int First(int u) {
    return u >= half ? u + half : kStyle == 1 ? 2 * u : u;
  }
  __device__ static int Second(int u) {
    return kStyle == 1 ? 2 * u + 1 : u + half;
  }
  // Angles are rounded to float before the functions, as models do.
  __device__ static float2 Angle(int position, float freq) {
    const float2 x = CosSin(static_cast<float>(position) * freq);
    const float scale = __uint_as_float(kScaleBits);
    return make_float2(x.x * scale, x.y * scale);
  }
};

__device__ __forceinline__ float2 Rotate(float2 pair, float2 angle) {
  return make_float2(pair.x * angle.x - pair.y * angle.y,
                     pair.x * angle.y + pair.y * angle.x);
}

// Elements that move at once.
template <typename T, int n>
struct __align__(n * sizeof(T)) AttentionVector {
  T x[n];
};

// How many units of q and k to move at once, at most `most`.
template <typename Rotary, typename Rows>
__device__ __forceinline__ constexpr int UnitsAtOnce(int most) {
  int n = most;
  while (n > 1 && !(Rotary::Wide(n) && Rows::Wide(n))) n /= 2;
  return n;
}

// Units u .. u + n - 1 of a head, on their way from a row to where they are
// kept rotated; n divides what Wide was asked for.
template <typename Rotary, typename T, int n>
struct RotatedUnits {
  AttentionVector<T, n> first = {}, second = {};

  __device__ __forceinline__ void Load(const T* head, int u) {
    using Vector = AttentionVector<T, n>;
    first = *reinterpret_cast<const Vector*>(head + Rotary::First(u));
    if (u < Rotary::half) {
      second = *reinterpret_cast<const Vector*>(head + Rotary::Second(u));
    }
  }
  // angle[j]: cosine and sine of unit u + j, if that turns.
  template <typename C>
  __device__ __forceinline__ void Store(C* head, int u,
                                        const float2* angle) const {
    using Vector = AttentionVector<C, n>;
    const bool turns = u < Rotary::half;
    Vector a, b;
#pragma unroll
    for (int j = 0; j < n; ++j) {
      float2 y = make_float2(ToFloat(first.x[j]), ToFloat(second.x[j]));
      if (turns) y = Rotate(y, angle[j]);
      a.x[j] = FromFloat<C>(y.x);
      b.x[j] = FromFloat<C>(y.y);
    }
    *reinterpret_cast<Vector*>(head + Rotary::First(u)) = a;
    if (turns) *reinterpret_cast<Vector*>(head + Rotary::Second(u)) = b;
  }
};

__device__ __forceinline__ constexpr int CeilDiv(int a, int b) {
  return (a + b - 1) / b;
}
__device__ __forceinline__ float MinusInfinity() {
  return __uint_as_float(0xff800000u);
}
