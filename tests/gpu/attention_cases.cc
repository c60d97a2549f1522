// Decode attention, and append with tile attention, over ragged batches.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/attention.h"
#include "tests/gpu/attention_batch.h"
#include "tests/gpu/gpu_case.h"

namespace deepslice {
namespace {

struct Heads {
  int64_t heads, kv_heads, group, offset, dim;
};
// Groups that are cut by tensor parallelism start in their middle.
constexpr Heads kHeads[] = {
    {6, 2, 3, 0, 10},  {4, 2, 3, 2, 16}, {12, 2, 6, 0, 32},  {9, 3, 3, 0, 64},
    {5, 5, 1, 0, 80},  {6, 1, 6, 0, 96}, {8, 2, 4, 0, 128},  {4, 1, 4, 0, 256},
    {7, 1, 7, 0, 128}, {2, 1, 8, 5, 64}, {16, 1, 16, 0, 64}, {3, 3, 1, 0, 128},
    {10, 2, 5, 0, 40}, {3, 2, 2, 1, 6}};

AttentionShape ShapeOf(const Heads& h, DType type, int n) {
  AttentionShape s;
  s.type = s.cache = type;
  s.heads = h.heads;
  s.kv_heads = h.kv_heads;
  s.group = h.group;
  s.head_offset = h.offset;
  s.head_dim = h.dim;
  s.scale = 1 / std::sqrt(static_cast<double>(h.dim));
  s.rotary_dim = n % 4 == 3 ? 0 : n % 4 == 1 ? h.dim / 4 * 2 : h.dim;
  s.style = n % 3 == 1 ? RopeStyle::kInterleaved : RopeStyle::kHalf;
  s.rope_scale = n % 5 == 2 ? 1.19 : 1;
  s.block_tokens = n % 3 == 2 ? 16 : 64;
  s.window = n % 5 == 4 ? 300 : n % 7 == 5 ? 40 : 0;
  s.max_context = 5120;
  return s;
}

std::string NameOf(const AttentionShape& s, bool fused, double spread) {
  return absl::StrCat(
      DTypeName(s.type), " heads ", s.heads, "/", s.kv_heads, " group ",
      s.group, "+", s.head_offset, " dim ", s.head_dim, " rotary ",
      s.rotary_dim, s.style == RopeStyle::kHalf ? " half" : " interleaved",
      " window ", s.window, " blocks of ", s.block_tokens, " tokens ", s.tokens,
      s.softcap > 0 ? absl::StrCat(" softcap ", s.softcap) : "",
      !s.alibi.has_value()        ? ""
      : *s.alibi == Alibi::kPlain ? " alibi"
                                  : " alibi of bf16",
      s.relative.has_value() ? " relative" : "", fused ? " fused" : " apart",
      spread == 0 ? " flat" : "");
}

GpuCase MakeDecode(const DecodeAttention& decode, const AttentionShape& shape,
                   const std::vector<GpuSequence>& sequences, double spread,
                   bool fused) {
  AttentionBatch batch(shape, sequences, spread, fused);
  GpuCase c;
  std::vector<GpuParam> operands = batch.AddOperands(&c);
  operands.push_back(GpuParam::At(c.AddZeros(decode.scratch_bytes, true)));
  operands.push_back(GpuParam::At(c.AddZeros(4 * decode.sync_words)));
  if (batch.has_slopes()) operands.push_back(batch.AddSlopes(&c));
  const int out = c.AddOutput(shape.type, shape.tokens * shape.out_stride);
  c.AddStep(decode.kernel, batch.info(), operands, {GpuParam::At(out)});
  c.checks.push_back(batch.OutputCheck(out));
  c.checks.push_back(batch.StateCheck());
  return c;
}

GpuCase MakeTile(const KernelSpec& append, const TileAttention& tile,
                 int64_t tile_tokens, const AttentionShape& shape,
                 const std::vector<GpuSequence>& sequences, double spread,
                 bool fused) {
  AttentionBatch batch(shape, sequences, spread, fused);
  GpuCase c;
  const std::vector<GpuParam> operands = batch.AddOperands(&c);
  const int rotated =
      c.AddOutput(shape.type, shape.tokens * shape.heads * shape.head_dim);
  const int out = c.AddOutput(shape.type, shape.tokens * shape.out_stride);
  const std::vector<int32_t> tiles = batch.Tiles(tile_tokens);
  StepInfo info = batch.info();
  info.tiles = static_cast<int32_t>(tiles.size() / 4);
  c.AddStep(append, info, operands, {GpuParam::At(rotated)});
  std::vector<GpuParam> tile_operands = {
      GpuParam::At(rotated),
      GpuParam::At(c.AddInts(tiles)),
      operands[5],
      operands[7],
      GpuParam::At(c.AddZeros(tile.scratch_bytes, true)),
      GpuParam::At(c.AddZeros(4 * tile.sync_words))};
  if (batch.has_slopes()) tile_operands.push_back(batch.AddSlopes(&c));
  c.AddStep(tile.kernel, info, tile_operands, {GpuParam::At(out)});
  c.checks.push_back(batch.RotatedCheck(rotated));
  c.checks.push_back(batch.OutputCheck(out));
  c.checks.push_back(batch.StateCheck());
  return c;
}

// Softcaps, ALiBi and biases by relative position, alone and together. 0:
// plain.
constexpr int kBends = 8;
AttentionShape Bent(AttentionShape s, int bend) {
  if (bend == 1 || bend == 4 || bend == 7) s.softcap = 2;
  if (bend == 6) s.relative = RelativeBiasShape{s.type, 32, 128};
  if (bend == 7) s.relative = RelativeBiasShape{DType::kF32, 10, 900};
  if (bend == 2) s.softcap = 50;
  if (bend == 3 || bend == 4) s.alibi = Alibi::kPlain;
  if (bend == 5) s.alibi = Alibi::kScaledBf16;
  return s;
}

void AddDecode(const GpuTarget& target, const AttentionShape& s,
               const std::vector<GpuSequence>& sequences, bool fused,
               std::vector<GpuCaseEntry>* entries) {
  const DecodeAttention decode = SpecializeDecodeAttention(s, target);
  for (const double spread : {0.0, 3.0}) {
    entries->push_back(
        {absl::StrCat("decode ", NameOf(s, fused, spread), " batch of ",
                      sequences.size(), " to ", sequences.back().start + 1, " ",
                      decode.kernel.entry),
         {decode.kernel},
         [=] { return MakeDecode(decode, s, sequences, spread, fused); }});
  }
}

void AddTile(const GpuTarget& target, const AttentionShape& s,
             const std::vector<GpuSequence>& sequences, bool fused,
             std::vector<GpuCaseEntry>* entries) {
  const KernelSpec append = SpecializeAppend(s, target);
  AttentionShape rotated = s;
  rotated.q_stride = s.heads * s.head_dim;
  const TileAttention tile = SpecializeTileAttention(rotated, target);
  const int64_t tile_tokens = AttentionTileTokens(rotated, target);
  for (const double spread : {0.0, 3.0}) {
    entries->push_back(
        {absl::StrCat("tile ", NameOf(s, fused, spread), " batch of ",
                      sequences.size(), " to ", sequences.back().start, " ",
                      tile.kernel.entry),
         {append, tile.kernel},
         [=] {
           return MakeTile(append, tile, tile_tokens, s, sequences, spread,
                           fused);
         }});
  }
}

}  // namespace

void AddDecodeCases(const GpuTarget& target,
                    std::vector<GpuCaseEntry>* entries) {
  // start is the context less the new token. Slots in any order, one unused.
  const std::vector<std::vector<GpuSequence>> batches = {
      {{3, 0, 1},
       {0, 30, 1},
       {5, 32, 1},
       {1, 63, 1},
       {6, 64, 1},
       {2, 776, 1},
       {7, 4999, 1}},
      {{0, 4999, 1}},
      {{1, 0, 1}},
      {{2, 15, 1}, {0, 1000, 1}},
      {{0, 127, 1}, {1, 128, 1}, {3, 129, 1}},
  };
  int n = 0;
  for (const DType type : {DType::kBF16, DType::kF16, DType::kF32}) {
    for (const Heads& heads : kHeads) {
      for (int turn = 0; turn < 2; ++turn) {
        // Every shape once in the large batch, and once in another.
        const std::vector<GpuSequence>& sequences =
            batches[turn == 0 ? 0 : 1 + n % 4];
        AttentionShape s = ShapeOf(heads, type, n);
        const bool fused = n % 2 == 0;
        AttentionBatch::SetStrides(&s, fused, n % 6 == 5 ? 8 : 0);
        const int64_t count = static_cast<int64_t>(sequences.size());
        s.tokens = count == 1 && n % 8 < 4 ? 1 : count + 1;
        ++n;
        AddDecode(target, s, sequences, fused, entries);
        const int bend = n % kBends;
        if (bend > 0) {
          AddDecode(target, Bent(s, bend), sequences, fused, entries);
        }
      }
    }
  }
}

void AddTileCases(const GpuTarget& target, std::vector<GpuCaseEntry>* entries) {
  const std::vector<std::vector<GpuSequence>> batches = {
      {{2, 0, 37}, {0, 100, 150}, {3, 4999, 1}, {1, 63, 2}, {5, 17, 70}},
      {{0, 0, 300}},
      {{1, 0, 1}, {0, 64, 64}, {2, 1023, 129}},
  };
  int n = 0;
  for (const DType type : {DType::kBF16, DType::kF16, DType::kF32}) {
    for (const Heads& heads : kHeads) {
      const std::vector<GpuSequence>& sequences = batches[n % 3];
      AttentionShape s = ShapeOf(heads, type, n);
      const bool fused = n % 2 == 0;
      AttentionBatch::SetStrides(&s, fused, n % 6 == 5 ? 8 : 0);
      ++n;
      s.tokens = 320;
      AddTile(target, s, sequences, fused, entries);
      // Twice, so that each shape meets two of them.
      for (const int bend : {1 + n % 7, 1 + (n + 3) % 7}) {
        AddTile(target, Bent(s, bend), sequences, fused, entries);
      }
    }
  }
}

}  // namespace deepslice
