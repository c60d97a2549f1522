// Latent attention over ragged batches, against the reference.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/latent_attention.h"
#include "kernels/reference.h"
#include "schema/base/check.h"
#include "tests/gpu/attention_batch.h"
#include "tests/gpu/gpu_case.h"
#include "tests/gpu/row_case.h"

namespace deepslice {
namespace {

// What no kernel may read, though it could be multiplied by 0.
constexpr double kForeign = 50;

struct Batch {
  std::vector<int32_t> positions, slots, table;
  int64_t blocks_per_seq = 0, num_blocks = 2;  // two of nobody
  int64_t tokens() const { return static_cast<int64_t>(positions.size()); }
};

Batch BatchOf(const std::vector<GpuSequence>& sequences, int64_t block_tokens,
              Random* random) {
  Batch b;
  const auto blocks = [&](const GpuSequence& s) {
    return (s.start + s.tokens + block_tokens - 1) / block_tokens;
  };
  int32_t max_slot = 0;
  for (const GpuSequence& s : sequences) {
    max_slot = std::max(max_slot, s.slot);
    b.blocks_per_seq = std::max(b.blocks_per_seq, blocks(s) + 1);
    b.num_blocks += blocks(s);
    for (int64_t t = 0; t < s.tokens; ++t) {
      b.positions.push_back(static_cast<int32_t>(s.start + t));
      b.slots.push_back(s.slot);
    }
  }
  b.table.assign((max_slot + 1) * b.blocks_per_seq, 0);
  const std::vector<int32_t> order = random->Permutation(b.num_blocks);
  int64_t used = 0;
  for (const GpuSequence& s : sequences) {
    for (int64_t i = 0; i < blocks(s); ++i) {
      b.table[s.slot * b.blocks_per_seq + i] = order[used++];
    }
  }
  return b;
}

// With b null, a is the whole key.
GpuCase MakeLatent(const LatentAttention& kernels,
                   const LatentAttentionShape& s,
                   const std::vector<GpuSequence>& sequences, double spread) {
  Random random(s.head_dim * 31 + s.heads);
  const Batch batch = BatchOf(sequences, s.block_tokens, &random);
  const int64_t tokens = batch.tokens(), dim = s.head_dim;
  const HostTensor q = random.Tensor(s.type, s.tokens * s.q_stride, spread);
  const HostTensor a = random.Tensor(s.type, s.tokens * s.a_stride, 1);
  const HostTensor b = random.Tensor(s.type, s.tokens * s.b_stride, 1);

  // The caches before the step, and the reference's.
  RefState state;
  std::vector<double> cache(batch.num_blocks * s.block_tokens * dim, kForeign);
  const auto row_of = [&](int32_t slot, int64_t position) {
    const int64_t block =
        batch.table[slot * batch.blocks_per_seq + position / s.block_tokens];
    return (block * s.block_tokens + position % s.block_tokens) * dim;
  };
  for (const GpuSequence& sequence : sequences) {
    for (int64_t p = 0; p < sequence.start; ++p) {
      const HostTensor row = random.Tensor(s.cache, dim, 1);
      std::copy(row.values.begin(), row.values.end(),
                cache.begin() + row_of(sequence.slot, p));
      state.keys[sequence.slot][p] = row.values;
      state.values[sequence.slot][p] = row.values;
    }
  }
  const HostTensor before = Encode(s.cache, cache);

  RefTensor key = {{tokens, dim}, {}};
  const RefTensor of_a = Dense(a, tokens, s.a_stride, s.of_a);
  const RefTensor of_b = Dense(b, tokens, s.b_stride, s.of_b);
  for (int64_t t = 0; t < tokens; ++t) {
    key.data.insert(key.data.end(), of_a.row(t), of_a.row(t) + s.of_a);
    key.data.insert(key.data.end(), of_b.row(t), of_b.row(t) + s.of_b);
    std::copy(key.row(t), key.row(t) + dim,
              cache.begin() + row_of(batch.slots[t], batch.positions[t]));
  }
  const RefTensor queries = Dense(q, tokens, s.q_stride, s.heads * dim);
  const RefTensor positions = Vector(batch.positions);
  const RefTensor slots = Vector(batch.slots);
  const RefTensor blocks = {
      {static_cast<int64_t>(batch.table.size()) / batch.blocks_per_seq,
       batch.blocks_per_seq},
      {batch.table.begin(), batch.table.end()}};
  const Attr attrs[] = {Attr{.i = s.heads}, Attr{.i = dim},
                        Attr{.i = s.value_dim}, Attr{.f = s.scale}};
  RefCall call;
  const RefTensor* operands[] = {&queries, &key, &positions, &slots, &blocks};
  std::copy(std::begin(operands), std::end(operands), call.operands);
  call.attrs = attrs;
  call.state = &state;
  RefTensor want;
  DS_CHECK(RefLatentAttention(call, &want).ok());

  GpuCase c;
  StepInfo info = {};
  info.tokens = static_cast<int32_t>(tokens);
  info.rows = info.tiles = 1 << 20;
  info.blocks_per_seq = static_cast<int32_t>(batch.blocks_per_seq);
  const auto add_ints = [&](std::vector<int32_t> values) {
    values.resize(s.tokens, 1 << 30);
    return GpuParam::At(c.AddInts(values));
  };
  const GpuParam at = add_ints(batch.positions), in = add_ints(batch.slots);
  const GpuParam table = GpuParam::At(c.AddInts(batch.table));
  const int memory = c.Add(before);
  const int new_key = c.AddOutput(s.type, s.tokens * s.key_stride);
  const int out = c.AddOutput(s.type, s.tokens * s.out_stride);
  c.AddStep(kernels.append, info,
            {GpuParam::At(c.Add(a)),
             s.of_b > 0 ? GpuParam::At(c.Add(b)) : GpuParam::Null(), at, in,
             table, GpuParam::At(memory)},
            {GpuParam::At(new_key)});
  c.AddStep(kernels.attend, info,
            {GpuParam::At(c.Add(q)), at, in, table, GpuParam::At(memory),
             GpuParam::At(c.AddZeros(kernels.scratch_bytes, true)),
             GpuParam::At(c.AddZeros(4 * kernels.sync_words))},
            {GpuParam::At(out)});
  c.checks.push_back(CheckOf(key, new_key, s.type, s.tokens, s.key_stride, 0));
  // Scores have the spread of q; sums are in float.
  c.checks.push_back(
      CheckOf(want, out, s.type, s.tokens, s.out_stride, 16 * (1 + spread)));
  GpuCheck appended = {memory, s.cache, Encode(s.cache, cache).values, {}};
  c.checks.push_back(appended);
  return c;
}

}  // namespace

void AddLatentCases(const GpuTarget& target,
                    std::vector<GpuCaseEntry>* entries) {
  // Single tokens as decoding has them, then prompts among them.
  const std::vector<std::vector<GpuSequence>> batches = {
      {{1, 4999, 1}},
      {{2, 0, 1}, {0, 127, 1}, {3, 1000, 1}},
      {{1, 0, 40}, {0, 63, 2}, {3, 300, 33}, {2, 700, 1}}};
  // Heads, of a key, of these a value.
  constexpr int64_t kShapes[][4] = {{16, 512, 64, 512}, {5, 16, 4, 16},
                                    {2, 32, 16, 20},    {24, 128, 64, 128},
                                    {3, 11, 7, 11},     {4, 48, 0, 40}};
  int n = 0;
  for (const DType type : kRowTypes) {
    for (const auto& [heads, of_a, of_b, value_dim] : kShapes) {
      for (const std::vector<GpuSequence>& sequences : batches) {
        LatentAttentionShape s;
        s.type = s.cache = type;
        s.heads = heads;
        s.of_a = of_a;
        s.of_b = of_b;
        s.head_dim = of_a + of_b;
        s.value_dim = value_dim;
        s.scale = 1 / std::sqrt(static_cast<double>(s.head_dim));
        s.q_stride = heads * s.head_dim + (n % 3 == 1 ? 5 : 0);
        s.a_stride = of_a + (n % 4 == 1 ? 8 : 0);
        s.b_stride = of_b;
        s.key_stride = s.head_dim;
        s.out_stride = heads * value_dim;
        s.block_tokens = n % 2 == 0 ? 64 : 16;
        s.max_context = 5120;
        int64_t tokens = 0;
        for (const GpuSequence& q : sequences) tokens += q.tokens;
        s.tokens = tokens + (tokens > 1 ? 1 : 0);
        ++n;
        const auto kernels = SpecializeLatentAttention(s, target);
        DS_CHECK(kernels.has_value());
        for (const double spread : {0.0, 3.0}) {
          entries->push_back(
              {absl::StrCat("latent ", DTypeName(type), " batch of ",
                            sequences.size(), spread == 0 ? " flat " : " ",
                            kernels->attend.entry),
               {kernels->append, kernels->attend},
               [=, k = *kernels] {
                 return MakeLatent(k, s, sequences, spread);
               }});
        }
      }
    }
  }
}

}  // namespace deepslice
