// Attention of encoders over sequences of several lengths, against the
// reference.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/encoder_attention.h"
#include "schema/base/check.h"
#include "schema/ops.h"
#include "tests/gpu/gpu_case.h"
#include "tests/gpu/row_case.h"

namespace deepslice {
namespace {

// Which sequence each token is of: lengths that end within a block of queries,
// fill several, and are of one token; the last rows are nobody's.
std::vector<int32_t> Slots(int64_t tokens) {
  constexpr int64_t kLengths[] = {5, 1, 40, 33, 3, 70};
  constexpr int32_t kSlots[] = {2, 0, 5, 1, 4, 3};
  std::vector<int32_t> slots;
  for (int i = 0; static_cast<int64_t>(slots.size()) < tokens; ++i) {
    for (int64_t t = 0; t < kLengths[i % 6]; ++t) {
      slots.push_back(kSlots[i % 6] + 6 * (i / 6));
    }
  }
  slots.resize(tokens);
  return slots;
}

GpuCase MakeCase(const KernelSpec& spec, const EncoderAttentionShape& s,
                 int64_t kv_heads) {
  Random random(s.head_dim * 100 + s.heads);
  const int64_t rows = RowsOf(s.count, s.max_rows);
  const int64_t cols = s.heads * s.head_dim, kv_cols = kv_heads * s.head_dim;
  const HostTensor q = random.Tensor(s.type, s.max_rows * s.q_stride, 1.5);
  const HostTensor k = random.Tensor(s.type, s.max_rows * s.k_stride, 1.5);
  const HostTensor v = random.Tensor(s.type, s.max_rows * s.v_stride, 1);
  std::vector<int32_t> slots = Slots(rows);
  const RefTensor in[] = {Dense(q, rows, s.q_stride, cols),
                          Dense(k, rows, s.k_stride, kv_cols),
                          Dense(v, rows, s.v_stride, kv_cols), Vector(slots)};
  const auto integer = [](int64_t i) { return Attr{.i = i}; };
  const Attr attrs[] = {
      integer(s.heads),
      integer(kv_heads),
      integer(s.group),
      integer(s.head_offset),
      integer(s.head_dim),
      Attr{.f = s.scale},
      integer(static_cast<int64_t>(s.causal ? Mask::kCausal : Mask::kFull)),
      integer(s.relative.has_value() ? s.relative->max_distance : 0)};
  RefCall call;
  for (int i = 0; i < 4; ++i) call.operands[i] = &in[i];
  call.attrs = attrs;
  HostTensor biases;
  RefTensor table;
  if (s.relative.has_value()) {
    biases = random.Tensor(s.relative->type, s.heads * s.relative->buckets, 1);
    table = Dense(biases, s.heads, s.relative->buckets, s.relative->buckets);
    call.operands[4] = &table;
  }
  RefTensor want;
  DS_CHECK(RunReference(OpKind::kEncoderAttention, call, &want).ok());
  slots.resize(s.max_rows, slots.back());  // behind the tokens: not read
  GpuCase c;
  c.AddOutput(s.type, s.max_rows * s.y_stride);
  std::vector<GpuParam> operands = {
      GpuParam::At(c.Add(q)), GpuParam::At(c.Add(k)), GpuParam::At(c.Add(v)),
      GpuParam::At(c.AddInts(slots))};
  if (s.relative.has_value()) {
    operands.push_back(GpuParam::At(c.Add(biases)));
  }
  c.AddStep(spec, InfoOf(s.count, rows), operands, {GpuParam::At(0)});
  // Weights to a few roundings of their exponents, of values of about 1.
  c.checks.push_back(CheckOf(want, 0, s.type, s.max_rows, s.y_stride, 64));
  return c;
}

}  // namespace

void AddEncoderCases(const GpuTarget& target,
                     std::vector<GpuCaseEntry>* entries) {
  // Query heads, how many read one KV head, the first one's place in its group,
  // KV heads, elements.
  constexpr int64_t kHeads[][5] = {{12, 1, 0, 12, 64}, {3, 1, 0, 3, 6},
                                   {4, 2, 0, 2, 32},   {3, 2, 1, 2, 80},
                                   {1, 1, 0, 1, 256},  {2, 1, 0, 2, 33}};
  int n = 0;
  for (const DType t : kRowTypes) {
    for (const auto& [heads, group, offset, kv_heads, dim] : kHeads) {
      for (const bool causal : {false, true}) {
        for (const int64_t max_rows : {1, 18, 150}) {
          EncoderAttentionShape s;
          s.type = t;
          s.heads = heads;
          s.group = group;
          s.head_offset = offset;
          s.head_dim = dim;
          s.q_stride = heads * dim + (n % 3 == 1 ? 3 : 0);
          s.k_stride = kv_heads * dim + (n % 4 == 1 ? 8 : 0);
          s.v_stride = kv_heads * dim + (n % 5 == 1 ? 2 : 0);
          s.y_stride = heads * dim + (n % 2 == 1 ? 5 : 0);
          s.causal = causal;
          s.scale = 1 / std::sqrt(static_cast<double>(dim));
          s.count = n % 4 == 3   ? CountDim::kImageTokens
                    : n % 4 == 2 ? CountDim::kSourceTokens
                                 : CountDim::kTokens;
          if (n % 3 == 2) {
            s.relative = n % 2 == 0 ? RelativeBiasShape{t, 32, 128}
                                    : RelativeBiasShape{t, 8, 20};
          }
          s.max_rows = max_rows;
          ++n;
          const auto spec = SpecializeEncoderAttention(s, target);
          DS_CHECK(spec.has_value());
          entries->push_back(
              {absl::StrCat("encoder_attention ", spec->entry),
               {*spec},
               [k = *spec, s, kv = kv_heads] { return MakeCase(k, s, kv); }});
        }
      }
    }
  }
}

}  // namespace deepslice
