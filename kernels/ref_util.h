// Shape checks that the reference kernels share.
#ifndef DEEPSLICE_KERNELS_REF_UTIL_H_
#define DEEPSLICE_KERNELS_REF_UTIL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "kernels/reference.h"

namespace deepslice {

// "[3, 4]".
std::string RefShapeText(const std::vector<int64_t>& shape);

// InvalidArgument unless `t` is there, has exactly the shape `want` (-1: any
// size) and as many values as its shape says.
absl::Status CheckRefShape(absl::string_view op, absl::string_view operand,
                           const RefTensor* t,
                           const std::vector<int64_t>& want);

// *out becomes a tensor of zeros. `out` must not be an operand.
void ResizeRef(const std::vector<int64_t>& shape, RefTensor* out);

// What Attention and QkvAttention share: appends k, v to the state, attends.
// q [T, heads * head_dim], k and v [T, kv_heads * head_dim] as rows of doubles.
struct RefAttentionParams {
  absl::string_view op;  // for errors
  int64_t heads, kv_heads, group, head_offset, head_dim, window;
  double scale, softcap;
  Alibi alibi = Alibi::kPlain;
  const RefTensor* slopes = nullptr;    // [heads]
  const RefTensor* rel_bias = nullptr;  // [heads, buckets]
  int64_t max_distance = 0;
  bool both_directions = false;
  int64_t value_dim = 0;                // of a value; 0: head_dim
};
// Whether every query head has its KV head, and slopes and rel_bias fit them.
absl::Status CheckRefHeads(const RefAttentionParams& a);
absl::Status CheckRefAttention(const RefAttentionParams& a,
                               const RefTensor* positions,
                               const RefTensor* slots, const RefTensor* blocks,
                               int64_t tokens, const RefState* state);
void RunRefAttention(const RefAttentionParams& a, const RefTensor& q,
                     const RefTensor& k, const RefTensor& v,
                     const RefTensor& positions, const RefTensor& slots,
                     RefState* state, RefTensor* out);

// A key and value that a token sees: rows of kv_heads * head_dim.
struct RefKey {
  int64_t position;
  const double *key, *value;
};
// y [heads * head_dim], zeros so far, becomes what the token at `own` with
// q [heads * head_dim] takes from the keys that it sees.
void AttendRef(const RefAttentionParams& a, const double* q, int64_t own,
               const std::vector<RefKey>& keys, double* y);

// What ALiBi adds to the score of the key at `key` for the token at `own`.
double RefAlibi(const RefAttentionParams& a, int64_t head, int64_t key,
                int64_t own);

// Rotates one head in place; see Rope in ops.def.
void RefRotateHead(double position, const double* freqs, int64_t rotary_dim,
                   RopeStyle style, double scale, double* head);

// f(x) of an Act.
double RefAct(Act kind, double x);

}  // namespace deepslice

#endif  // DEEPSLICE_KERNELS_REF_UTIL_H_
