// Attention to an encoder's keys: appended in this step and in one before, of
// sources that several slots share, against the reference.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/cross_attention.h"
#include "schema/base/check.h"
#include "schema/ops.h"
#include "tests/gpu/gpu_case.h"
#include "tests/gpu/row_case.h"

namespace deepslice {
namespace {

constexpr int64_t kSlots = 5, kMostKeys = 150;
// Keys of each source slot; those of 1 and 3 come in the step before.
constexpr int32_t kLengths[kSlots] = {1, 33, 70, 4, 150};

// Source tokens of the slots that come in step `turn`.
void Sources(int turn, std::vector<int32_t>* positions,
             std::vector<int32_t>* slots) {
  for (int32_t s = 0; s < kSlots; ++s) {
    if (s % 2 == turn) continue;
    for (int32_t p = 0; p < kLengths[s]; ++p) {
      positions->push_back(p);
      slots->push_back(s);
    }
  }
}

GpuCase MakeCase(const KernelSpec& append, const KernelSpec& attend,
                 const CrossAttentionShape& s) {
  Random random(s.head_dim * 100 + s.heads);
  const int64_t rows = RowsOf(CountDim::kTokens, s.max_rows);
  const int64_t cols = s.heads * s.head_dim, kv_cols = s.kv_heads * s.head_dim;
  const int64_t half = s.kv_heads * s.block_tokens * s.head_dim;
  // Slot i reads source i, but the last reads that of slot 1, too.
  std::vector<int32_t> sources;
  for (int32_t i = 0; i < kSlots; ++i) {
    const int32_t source = i == kSlots - 1 ? 1 : (i + 2) % kSlots;
    sources.insert(sources.end(), {source, kLengths[source]});
  }
  std::vector<int32_t> slots;
  for (int64_t t = 0; t < rows; ++t) {
    slots.push_back(static_cast<int32_t>(t * 7 / 3 % kSlots));
  }
  const HostTensor q = random.Tensor(s.type, s.max_rows * s.q_stride, 1.5);
  RefState state;
  RefTensor want;
  GpuCase c;
  const int out = c.AddOutput(s.type, s.max_rows * s.y_stride);
  // What is nobody's must not be read: it is far from all values.
  const HostTensor before =
      Encode(s.cache, std::vector<double>(kSlots * 2 * half, 50));
  const int cache = c.Add(before);
  GpuCheck kept = {cache, s.cache, before.values};
  const std::vector<int32_t> none(s.max_rows, 0);
  for (const int turn : {0, 1}) {
    std::vector<int32_t> positions, source_slots;
    Sources(turn, &positions, &source_slots);
    const int64_t count = static_cast<int64_t>(positions.size());
    DS_CHECK(count <= s.max_sources);
    const HostTensor k = random.Tensor(s.type, s.max_sources * s.k_stride, 1.5);
    const HostTensor v = random.Tensor(s.type, s.max_sources * s.v_stride, 1);
    for (int64_t t = 0; t < count; ++t) {
      for (int64_t i = 0; i < kv_cols; ++i) {
        const int64_t at =
            source_slots[t] * 2 * half +
            (i / s.head_dim * s.block_tokens + positions[t]) * s.head_dim +
            i % s.head_dim;
        kept.want[at] = k.values[t * s.k_stride + i];
        kept.want[half + at] = v.values[t * s.v_stride + i];
      }
    }
    const RefTensor in[] = {
        Dense(q, rows, s.q_stride, cols),
        Dense(k, count, s.k_stride, kv_cols),
        Dense(v, count, s.v_stride, kv_cols),
        Vector(turn == 0 ? std::vector<int32_t>(rows, 0) : slots),
        Vector(positions),
        Vector(source_slots),
        {{kSlots, 2}, Vector(sources).data}};
    const auto integer = [](int64_t i) { return Attr{.i = i}; };
    const Attr attrs[] = {integer(s.heads),    integer(s.kv_heads),
                          integer(s.group),    integer(s.head_offset),
                          integer(s.head_dim), Attr{.f = s.scale}};
    RefCall call;
    for (int i = 0; i < 7; ++i) call.operands[i] = &in[i];
    call.attrs = attrs;
    call.state = &state;
    const absl::Status ran = RunReference(OpKind::kCrossAttention, call, &want);
    DS_CHECK(ran.ok());
    const StepInfo info = InfoOf(CountDim::kSourceTokens, count);
    positions.resize(s.max_sources, 0);  // behind the tokens: not read
    source_slots.resize(s.max_sources, 0);
    c.AddStep(append, info,
              {GpuParam::At(c.Add(k)), GpuParam::At(c.Add(v)),
               GpuParam::At(c.AddInts(positions)),
               GpuParam::At(c.AddInts(source_slots)), GpuParam::At(cache)},
              {GpuParam::Null()});
  }
  slots.resize(s.max_rows, slots.back());
  c.AddStep(attend, InfoOf(CountDim::kTokens, rows),
            {GpuParam::At(c.Add(q)), GpuParam::At(c.AddInts(slots)),
             GpuParam::At(c.AddInts(sources)), GpuParam::At(cache)},
            {GpuParam::At(out)});
  // Weights to a few roundings of their exponents, of values of about 1.
  c.checks.push_back(CheckOf(want, out, s.type, s.max_rows, s.y_stride, 64));
  c.checks.push_back(kept);
  return c;
}

}  // namespace

void AddCrossCases(const GpuTarget& target,
                   std::vector<GpuCaseEntry>* entries) {
  // Query heads, how many read one KV head, the first one's place in its group,
  // KV heads, elements.
  constexpr int64_t kHeads[][5] = {{12, 1, 0, 12, 64}, {3, 1, 0, 3, 6},
                                   {4, 2, 0, 2, 32},   {3, 2, 1, 2, 80},
                                   {1, 1, 0, 1, 256},  {2, 1, 0, 2, 33}};
  int n = 0;
  for (const DType t : kRowTypes) {
    for (const auto& [heads, group, offset, kv_heads, dim] : kHeads) {
      for (const int64_t max_rows : {1, 19}) {
        CrossAttentionShape s;
        s.type = s.cache = t;
        s.heads = heads;
        s.group = group;
        s.head_offset = offset;
        s.kv_heads = kv_heads;
        s.head_dim = dim;
        s.q_stride = heads * dim + (n % 3 == 1 ? 3 : 0);
        s.k_stride = kv_heads * dim + (n % 4 == 1 ? 8 : 0);
        s.v_stride = kv_heads * dim + (n % 5 == 1 ? 2 : 0);
        s.y_stride = heads * dim + (n % 2 == 1 ? 5 : 0);
        s.scale = 1 / std::sqrt(static_cast<double>(dim));
        s.block_tokens = kMostKeys + n % 3;
        s.max_sources = 260;
        s.max_rows = max_rows;
        ++n;
        const KernelSpec append = SpecializeCrossAppend(s, target);
        const auto attend = SpecializeCrossAttention(s, target);
        DS_CHECK(attend.has_value());
        entries->push_back(
            {absl::StrCat("cross ", attend->entry),
             {append, *attend},
             [append, k = *attend, s] { return MakeCase(append, k, s); }});
      }
    }
  }
}

}  // namespace deepslice
