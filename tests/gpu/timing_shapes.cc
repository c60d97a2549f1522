// The shapes that are timed: Llama-3.2-1B, Llama-3.1-8B and SmolLM2-135M.
#include <cmath>
#include <memory>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/linear.h"
#include "kernels/cuda/rows.h"
#include "schema/base/status_macros.h"
#include "tests/gpu/timing.h"

namespace deepslice {
namespace {

constexpr DType kType = DType::kBF16;

StepInfo Counts(int64_t tokens) {
  StepInfo info = {};
  info.tokens = info.rows = info.sampled_rows = static_cast<int32_t>(tokens);
  return info;
}

Timing LinearTiming(const std::string& name, LinearShape s,
                    const KernelSpec& spec) {
  Timing t;
  t.name = name;
  t.specs = {spec};
  t.info = Counts(s.tokens);
  const int64_t weight = 2 * s.in * s.out;
  t.bytes = static_cast<double>(weight);
  t.cold_bytes = weight;
  t.params = [s, weight](
                 TimingMemory* m,
                 int) -> absl::StatusOr<std::vector<std::vector<uint64_t>>> {
    std::vector<int32_t> rows(s.tokens);
    std::iota(rows.begin(), rows.end(), 0);
    CUdeviceptr from = 0;
    if (s.gather) {
      DS_ASSIGN_OR_RETURN(from, m->Upload(rows.data(), 4 * s.tokens));
    }
    DS_ASSIGN_OR_RETURN(const CUdeviceptr y,
                        m->Zeros(4 * s.tokens * s.y_stride));
    const CUdeviceptr scale =
        s.norm != FusedNorm::kNone ? m->Random(4 * s.in) : 0;
    const CUdeviceptr residual =
        s.residual ? m->Random(2 * s.tokens * s.residual_stride) : 0;
    return std::vector<std::vector<uint64_t>>{
        {m->Random(2 * s.tokens * s.x_stride), m->Random(weight), scale, 0, 0,
         residual, from, y}};
  };
  return t;
}

struct Heads {
  int64_t heads, kv_heads, dim;
  std::string Text() const {
    return absl::StrCat(heads, "/", kv_heads, "x", dim);
  }
};

AttentionShape FusedShape(const Heads& h, int64_t tokens) {
  AttentionShape s;
  s.heads = h.heads, s.kv_heads = h.kv_heads, s.group = h.heads / h.kv_heads;
  s.head_dim = s.rotary_dim = h.dim;
  s.scale = 1 / std::sqrt(static_cast<double>(h.dim));
  s.q_stride = s.k_stride = s.v_stride = (h.heads + 2 * h.kv_heads) * h.dim;
  s.out_stride = h.heads * h.dim;
  s.tokens = tokens;
  return s;
}

// `context` tokens in each of `batch` sequences. All layers of a model read the
// same inputs, and rows that the step before wrote: only the caches are cold.
Timing DecodeTiming(const Heads& h, int64_t batch, int64_t context,
                    const GpuTarget& target) {
  AttentionShape s = FusedShape(h, batch);
  s.max_context = 16384;
  const DecodeAttention decode = SpecializeDecodeAttention(s, target);
  Timing t;
  t.name = absl::StrCat("decode_attention ", h.Text(), " b", batch, " ctx ",
                        context);
  t.specs = {decode.kernel};
  t.info = Counts(batch);
  const int64_t blocks = (context + 63) / 64;
  t.info.blocks_per_seq = static_cast<int32_t>(blocks);
  const int64_t block_bytes = 2 * 2 * h.kv_heads * 64 * h.dim;
  t.bytes = static_cast<double>(batch * context) * 2 * 2 * h.kv_heads * h.dim;
  t.cold_bytes = batch * blocks * block_bytes;
  const auto shared = std::make_shared<std::vector<uint64_t>>();
  t.params = [=](TimingMemory* m,
                 int i) -> absl::StatusOr<std::vector<std::vector<uint64_t>>> {
    if (i == 0) {
      std::vector<int32_t> positions(batch, static_cast<int32_t>(context - 1));
      std::vector<int32_t> slots(batch), table(batch * blocks);
      std::iota(slots.begin(), slots.end(), 0);
      std::iota(table.begin(), table.end(), 0);
      DS_ASSIGN_OR_RETURN(const uint64_t p,
                          m->Upload(positions.data(), 4 * batch));
      DS_ASSIGN_OR_RETURN(const uint64_t sl,
                          m->Upload(slots.data(), 4 * batch));
      DS_ASSIGN_OR_RETURN(const uint64_t tb,
                          m->Upload(table.data(), 4 * batch * blocks));
      DS_ASSIGN_OR_RETURN(const uint64_t scratch,
                          m->Zeros(decode.scratch_bytes));
      DS_ASSIGN_OR_RETURN(const uint64_t sync, m->Zeros(4 * decode.sync_words));
      DS_ASSIGN_OR_RETURN(const uint64_t out,
                          m->Zeros(2 * batch * s.out_stride));
      const uint64_t q = m->Random(2 * batch * s.q_stride);
      const uint64_t k = q + 2 * h.heads * h.dim,
                     v = k + 2 * h.kv_heads * h.dim;
      *shared = {q, k,       v,    p,  sl, tb, m->Random(2 * h.dim),
                 0, scratch, sync, out};
    }
    std::vector<uint64_t> params = *shared;
    params[7] = m->Random(batch * blocks * block_bytes);
    return std::vector<std::vector<uint64_t>>{params};
  };
  return t;
}

// `tokens` tokens of one sequence behind `start` that the cache holds; the
// append or the attention.
Timing PrefillTiming(int64_t tokens, int64_t start, bool attend,
                     const GpuTarget& target) {
  AttentionShape s = FusedShape({32, 8, 128}, tokens);
  const KernelSpec append = SpecializeAppend(s, target);
  s.q_stride = 32 * 128;
  const TileAttention attention = SpecializeTileAttention(s, target);
  const int64_t tile = AttentionTileTokens(s, target);
  Timing t;
  t.name = absl::StrCat(attend ? "tile_attention" : "append", " 32/8x128 ",
                        tokens, " behind ", start);
  t.specs = {attend ? attention.kernel : append};
  t.info = Counts(tokens);
  t.info.tiles = static_cast<int32_t>((tokens + tile - 1) / tile);
  const int64_t blocks = (start + tokens + 63) / 64;
  const int64_t block_bytes = 2 * 2 * 8 * 64 * 128;
  t.info.blocks_per_seq = static_cast<int32_t>(blocks);
  if (attend) {
    t.flops = 4.0 * 32 * 128 * tokens * (start + (tokens + 1) / 2.0);
  }
  t.bytes = 2.0 * 2 * tokens * 48 * 128;
  t.cold_bytes = int64_t{1} << 30;  // 20 launches
  t.params = [=](TimingMemory* m,
                 int) -> absl::StatusOr<std::vector<std::vector<uint64_t>>> {
    std::vector<int32_t> table(blocks), tiles, positions(tokens),
        slots(tokens, 0);
    std::iota(table.begin(), table.end(), 0);
    std::iota(positions.begin(), positions.end(), static_cast<int32_t>(start));
    for (int64_t i = 0; i < tokens; i += tile) {
      for (int64_t v : {i, std::min(tile, tokens - i), int64_t{0}, start + i}) {
        tiles.push_back(static_cast<int32_t>(v));
      }
    }
    DS_ASSIGN_OR_RETURN(const uint64_t tb, m->Upload(table.data(), 4 * blocks));
    DS_ASSIGN_OR_RETURN(const uint64_t ti,
                        m->Upload(tiles.data(), 4 * tiles.size()));
    DS_ASSIGN_OR_RETURN(const uint64_t p,
                        m->Upload(positions.data(), 4 * tokens));
    DS_ASSIGN_OR_RETURN(const uint64_t sl, m->Upload(slots.data(), 4 * tokens));
    DS_ASSIGN_OR_RETURN(const uint64_t out, m->Zeros(2 * tokens * 32 * 128));
    DS_ASSIGN_OR_RETURN(const uint64_t scratch,
                        m->Zeros(attention.scratch_bytes));
    DS_ASSIGN_OR_RETURN(const uint64_t sync,
                        m->Zeros(4 * attention.sync_words));
    const uint64_t state = m->Random(blocks * block_bytes);
    const uint64_t qkv = m->Random(2 * tokens * 48 * 128);
    if (attend) {
      return std::vector<std::vector<uint64_t>>{
          {qkv, ti, tb, state, scratch, sync, out}};
    }
    return std::vector<std::vector<uint64_t>>{{qkv, qkv + 2 * 32 * 128,
                                               qkv + 2 * 40 * 128, p, sl, tb,
                                               m->Random(4 * 64), state, out}};
  };
  return t;
}

Timing SampleTiming(const std::string& name, SamplerRecord record,
                    const GpuTarget& target) {
  const SampleShape s = {128256, 128256, 1};
  Timing t;
  t.name = absl::StrCat("sample 128256 ", name);
  t.specs = {SpecializeSample(s, target)};
  t.info = Counts(1);
  t.bytes = 4.0 * 128256;
  t.cold_bytes = 4 * 128256;
  t.params = [=](TimingMemory* m,
                 int) -> absl::StatusOr<std::vector<std::vector<uint64_t>>> {
    DS_ASSIGN_OR_RETURN(const uint64_t r, m->Upload(&record, sizeof record));
    DS_ASSIGN_OR_RETURN(const uint64_t work, m->Zeros(SampleScratchBytes(s)));
    DS_ASSIGN_OR_RETURN(const uint64_t sync, m->Zeros(4 * kSampleSyncWords));
    DS_ASSIGN_OR_RETURN(const uint64_t out, m->Zeros(4));
    return std::vector<std::vector<uint64_t>>{
        {m->Random(4 * 128256), r, work, sync, out}};
  };
  return t;
}

}  // namespace

std::vector<ModelLinear> ModelLinears(const std::vector<int64_t>& tokens) {
  struct Model {
    const char* name;
    int64_t hidden, qkv, attn, gate_up, vocab;
  };
  const Model models[] = {{"1b", 2048, 3072, 2048, 16384, 128256},
                          {"8b", 4096, 6144, 4096, 28672, 128256},
                          {"smollm2", 576, 960, 576, 3072, 49152}};
  std::vector<ModelLinear> linears;
  for (const Model& m : models) {
    for (const int64_t n : tokens) {
      const auto add = [&](const char* what, LinearShape s) {
        s.tokens = n;
        s.x_stride = s.in;
        s.y_stride = s.gated ? s.out / 2 : s.out;
        s.residual_stride = s.residual ? s.y_stride : 0;
        s.eps = 1e-5;
        linears.push_back(
            {absl::StrCat(m.name, " ", what, " ", s.in, "x", s.out, " t", n),
             s});
      };
      LinearShape qkv;
      qkv.in = m.hidden, qkv.out = m.qkv;
      qkv.norm = FusedNorm::kRms;
      add("qkv", qkv);
      LinearShape attn;
      attn.in = m.attn, attn.out = m.hidden;
      attn.residual = true;
      add("attn_out", attn);
      LinearShape gate_up;
      gate_up.in = m.hidden, gate_up.out = m.gate_up;
      gate_up.norm = FusedNorm::kRms;
      gate_up.gated = true;
      gate_up.act = Act::kSilu;
      add("gate_up", gate_up);
      LinearShape down;
      down.in = m.gate_up / 2, down.out = m.hidden;
      down.residual = true;
      add("down", down);
      LinearShape head;
      head.in = m.hidden, head.out = m.vocab;
      head.norm = FusedNorm::kRms;
      head.gather = head.by_rows = true;
      head.y = DType::kF32;
      add("lm_head", head);
    }
  }
  return linears;
}

std::vector<Timing> LinearTimings(const GpuTarget& target) {
  std::vector<Timing> timings;
  for (const ModelLinear& linear : ModelLinears({1, 8, 32})) {
    const std::optional<KernelSpec> spec =
        SpecializeLinear(linear.shape, target);
    if (!spec.has_value()) continue;
    timings.push_back(LinearTiming(absl::StrCat("linear ", linear.name),
                                   linear.shape, *spec));
  }
  return timings;
}

std::vector<Timing> AttentionTimings(const GpuTarget& target) {
  const Heads large = {32, 8, 128}, middle = {32, 8, 64}, small = {9, 3, 64};
  return {DecodeTiming(large, 1, 512, target),
          DecodeTiming(large, 1, 2048, target),
          DecodeTiming(large, 1, 16384, target),
          DecodeTiming(large, 8, 512, target),
          DecodeTiming(large, 32, 512, target),
          DecodeTiming(middle, 1, 512, target),
          DecodeTiming(small, 1, 512, target),
          PrefillTiming(2048, 0, false, target),
          PrefillTiming(2048, 0, true, target),
          PrefillTiming(128, 16256, true, target),
          PrefillTiming(1, 16383, true, target)};
}

std::vector<Timing> RowsTimings(const GpuTarget& target) {
  std::vector<Timing> timings;
  NormShape norm = {kType, kType, 4096, 4096, 4096};
  norm.eps = 1e-5;
  norm.max_rows = 2048;
  Timing t;
  t.name = "rms_norm 2048x4096";
  t.specs = {SpecializeNorm(norm, target)};
  t.info = Counts(2048);
  t.bytes = 2.0 * 2 * 2048 * 4096;
  t.cold_bytes = 2 * 2 * 2048 * 4096;
  t.params = [](TimingMemory* m,
                int) -> absl::StatusOr<std::vector<std::vector<uint64_t>>> {
    const int64_t bytes = 2 * 2048 * 4096;
    return std::vector<std::vector<uint64_t>>{
        {m->Random(bytes), m->Random(4 * 4096), 0, 0, m->Random(bytes)}};
  };
  timings.push_back(t);

  ElementwiseShape gated = {kType, kType, 28672, 28672, 14336};
  gated.act = Act::kSilu;
  gated.gated = true;
  gated.max_rows = 2048;
  t.name = "elementwise gated 2048x28672";
  t.specs = {SpecializeElementwise(gated, target)};
  t.bytes = 2.0 * 3 * 2048 * 14336;
  t.cold_bytes = 2 * 3 * 2048 * 14336;
  t.params = [](TimingMemory* m,
                int) -> absl::StatusOr<std::vector<std::vector<uint64_t>>> {
    const int64_t bytes = 2 * 2048 * 14336;
    return std::vector<std::vector<uint64_t>>{
        {m->Random(2 * bytes), 0, 0, 0, m->Random(bytes)}};
  };
  timings.push_back(t);

  timings.push_back(SampleTiming("greedy", {}, target));
  timings.push_back(SampleTiming("t 0.8", {0.8f, 0, 1.0f, 0, 3, 5}, target));
  timings.push_back(
      SampleTiming("t 0.8 top_k 50", {0.8f, 50, 1.0f, 0, 3, 5}, target));
  // Nearly equal logits: the nucleus is most of the vocabulary.
  timings.push_back(
      SampleTiming("t 0.8 top_p 0.95 flat", {0.8f, 0, 0.95f, 0, 3, 5}, target));
  timings.push_back(SampleTiming("t 0.01 top_p 0.95 steep",
                                 {0.01f, 0, 0.95f, 0, 3, 5}, target));
  return timings;
}

}  // namespace deepslice
