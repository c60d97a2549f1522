#include "tests/gpu/attention_sweep.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "schema/base/status_macros.h"
#include "tests/gpu/timing.h"

namespace deepslice {
namespace {

constexpr int64_t kRandomBytes = int64_t{1300} << 20;
// Twice the L2 of an H200.
constexpr int64_t kColdBytes = int64_t{128} << 20;
// Of an output that has the spread of the values: several roundings to bf16.
constexpr double kAllowed = 0.03;

// Groups on their way to L2 behind registers, or halves in shared memory.
constexpr std::pair<int64_t, int64_t> kOnTheirWay[] = {
    {0, 0}, {2, 0}, {0, 2}, {0, 3}, {0, 4}, {0, 6}};

std::string Numbers(const DecodeTuning& t) {
  return absl::StrCat("warps ", t.warps, " cluster ", t.cluster, " even ",
                      t.even, " most ", t.most, " min ", t.min_part, " own ",
                      t.own_part, " ahead ", t.ahead, " ring ", t.ring);
}

AttentionShape Shape(int64_t heads, int64_t kv_heads, int64_t dim,
                     int64_t batch, int64_t max_context) {
  AttentionShape s;
  s.heads = heads, s.kv_heads = kv_heads, s.group = heads / kv_heads;
  s.head_dim = s.rotary_dim = dim;
  s.scale = 1 / std::sqrt(static_cast<double>(dim));
  s.q_stride = s.k_stride = s.v_stride = (heads + 2 * kv_heads) * dim;
  s.out_stride = heads * dim;
  s.tokens = batch;
  s.max_context = max_context;
  return s;
}

// Blocks that fill the GPU or most of it, in all kinds of clusters.
std::vector<DecodeTuning> Tunings(const AttentionShape& s,
                                  const GpuTarget& target) {
  std::vector<DecodeTuning> out;
  const DecodeTuning chosen = TuneDecode(s, target);
  const int64_t heads = s.tokens * s.kv_heads;
  const int64_t warps_of_sm = s.head_dim > 64 ? 8 : 16;
  for (const int64_t warps : {2, 4, 8}) {
    if (warps == 2 && heads < target.num_sms) continue;
    for (const int64_t cluster : {1, 2, 4, 8}) {
      for (const int64_t quarters : {2, 3, 4}) {
        const int64_t blocks =
            quarters * warps_of_sm * target.num_sms / (4 * warps);
        DecodeTuning t = {.warps = warps, .cluster = cluster};
        t.even = std::min<int64_t>(blocks / heads, 64) / cluster * cluster;
        if (t.even == 0) {
          if (quarters < 4 || cluster > 2) continue;
          t.even = cluster;
        }
        t.most = std::max(t.even, chosen.most / cluster * cluster);
        t.min_part = 32 * warps;
        if (cluster > 1 && !target.hopper()) continue;
        for (const auto& [ahead, ring] : kOnTheirWay) {
          t.ahead = ahead, t.ring = ring;
          if (!DecodeFits(s, target, t)) continue;
          const bool seen = std::any_of(
              out.begin(), out.end(),
              [&](const DecodeTuning& u) { return Numbers(u) == Numbers(t); });
          if (!seen) out.push_back(t);
        }
      }
    }
  }
  return out;
}

// Parameters behind the StepInfo for each of several caches, at one context.
struct Memory {
  std::vector<std::vector<uint64_t>> params;
  CUdeviceptr info = 0, out = 0;
  int64_t out_bytes = 0;
};

absl::StatusOr<Memory> MakeMemory(const DecodeSweep& sweep, int64_t context,
                                  TimingMemory* m) {
  const AttentionShape& s = sweep.shape;
  const int64_t batch = s.tokens;
  const int64_t blocks = (context + s.block_tokens - 1) / s.block_tokens;
  Memory out;
  StepInfo info = {};
  info.tokens = info.rows = static_cast<int32_t>(batch);
  info.blocks_per_seq = static_cast<int32_t>(blocks);
  DS_ASSIGN_OR_RETURN(out.info, m->Upload(&info, sizeof info));
  std::vector<int32_t> positions(batch, static_cast<int32_t>(context - 1));
  std::vector<int32_t> slots(batch), table(batch * blocks);
  std::iota(slots.begin(), slots.end(), 0);
  std::iota(table.begin(), table.end(), 0);
  DS_ASSIGN_OR_RETURN(const uint64_t p, m->Upload(positions.data(), 4 * batch));
  DS_ASSIGN_OR_RETURN(const uint64_t sl, m->Upload(slots.data(), 4 * batch));
  DS_ASSIGN_OR_RETURN(const uint64_t tb,
                      m->Upload(table.data(), 4 * batch * blocks));
  int64_t scratch_bytes = 0, sync_words = 0;
  for (const DecodeCut& cut : sweep.cuts) {
    scratch_bytes = std::max(scratch_bytes, cut.decode.scratch_bytes);
    sync_words = std::max(sync_words, cut.decode.sync_words);
  }
  DS_ASSIGN_OR_RETURN(const uint64_t scratch, m->Zeros(scratch_bytes));
  DS_ASSIGN_OR_RETURN(const uint64_t sync, m->Zeros(4 * sync_words));
  out.out_bytes = 2 * batch * s.out_stride;
  DS_ASSIGN_OR_RETURN(out.out, m->Zeros(out.out_bytes));
  const uint64_t qkv = m->Random(2 * batch * s.q_stride);
  const uint64_t k = qkv + 2 * s.heads * s.head_dim;
  const uint64_t v = k + 2 * s.kv_heads * s.head_dim;
  const uint64_t freqs = m->Random(2 * s.rotary_dim);
  const int64_t state =
      batch * blocks * 4 * s.kv_heads * s.block_tokens * s.head_dim;
  const int64_t copies = std::clamp<int64_t>(kColdBytes / state, 20, 128);
  for (int64_t i = 0; i < copies; ++i) {
    out.params.push_back({qkv, k, v, p, sl, tb, freqs, m->Random(state),
                          scratch, sync, out.out});
  }
  return out;
}

// Microseconds of a launch; what the last copy's gave to `values`.
absl::StatusOr<double> TimeCut(const DecodeCut& cut, int64_t tokens,
                               Memory* memory, CompiledKernels* kernels,
                               GpuDevice* device, std::vector<double>* values) {
  const KernelSpec& spec = cut.decode.kernel;
  StepInfo grid = {};
  grid.tokens = static_cast<int32_t>(tokens);
  DS_RETURN_IF_ERROR(device->Fill(memory->out, 0xff, memory->out_bytes));
  DS_ASSIGN_OR_RETURN(const CUfunction function,
                      kernels->Function(spec, device));
  DS_ASSIGN_OR_RETURN(const double us, device->Time([&]() -> absl::Status {
    for (auto& copy : memory->params) {
      std::vector<void*> pointers = {&memory->info};
      for (uint64_t& v : copy) pointers.push_back(&v);
      DS_RETURN_IF_ERROR(device->Launch(spec, function, grid, pointers.data()));
    }
    return absl::OkStatus();
  }));
  std::vector<char> bytes(memory->out_bytes);
  DS_RETURN_IF_ERROR(device->Download(bytes.data(), memory->out, bytes.size()));
  DS_RETURN_IF_ERROR(device->Wait());
  values->clear();
  for (int64_t i = 0; i < memory->out_bytes; i += 2) {
    values->push_back(GetElement(DType::kBF16, bytes.data() + i));
  }
  return us / memory->params.size();
}

absl::Status PrintSweep(const DecodeSweep& sweep, const GpuTarget& target,
                        CompiledKernels* kernels, GpuDevice* device) {
  struct Line {
    std::string times;
    double mean = 0, off = 0;
    std::string note;
  };
  std::vector<Line> lines(sweep.cuts.size());
  for (const int64_t context : sweep.contexts) {
    absl::StatusOr<TimingMemory> random =
        TimingMemory::Make(device, kernels, target, kRandomBytes);
    DS_RETURN_IF_ERROR(random.status());
    absl::StatusOr<Memory> memory = MakeMemory(sweep, context, &*random);
    DS_RETURN_IF_ERROR(memory.status());
    std::vector<double> want, got;
    for (size_t i = 0; i < sweep.cuts.size(); ++i) {
      const absl::StatusOr<double> us =
          TimeCut(sweep.cuts[i], sweep.shape.tokens, &*memory, kernels, device,
                  i == 0 ? &want : &got);
      Line& line = lines[i];
      if (!us.ok()) {
        if (i == 0) return us.status();
        line.note = std::string(us.status().message());
        line.mean += 1e9;
        continue;
      }
      char number[32];
      std::snprintf(number, sizeof number, " | %.2f", *us);
      line.times += number;
      line.mean += std::log(*us);
      if (i > 0) line.off = std::max(line.off, Distance(got, want));
    }
  }
  std::vector<size_t> order(lines.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return lines[a].mean < lines[b].mean;
  });
  std::string title = "decode | shape | place";
  for (const int64_t c : sweep.contexts) {
    absl::StrAppend(&title, " | us at ", c);
  }
  std::printf("%s | numbers | off by | note\n", title.c_str());
  for (size_t place = 0; place < order.size(); ++place) {
    const size_t i = order[place];
    const Line& line = lines[i];
    std::printf("decode | %s | %zu%s | %s | %.2g | %s\n", sweep.name.c_str(),
                place + 1, line.times.c_str(), sweep.cuts[i].numbers.c_str(),
                line.off,
                i == 0                   ? "chosen"
                : !line.note.empty()     ? line.note.c_str()
                : !(line.off < kAllowed) ? "WRONG"
                                         : "");
  }
  std::fflush(stdout);
  return absl::OkStatus();
}

}  // namespace

std::vector<DecodeSweep> DecodeSweeps(const GpuTarget& target,
                                      absl::string_view text) {
  struct Model {
    const char* name;
    int64_t heads, kv_heads, dim;
    std::vector<std::pair<int64_t, std::vector<int64_t>>> batches;
  };
  const Model models[] = {
      {"8b",
       32,
       8,
       128,
       {{1, {128, 512, 2048, 16384}}, {8, {512, 4096}}, {32, {512, 2048}}}},
      {"1b", 32, 8, 64, {{1, {512, 4096}}, {8, {512}}}},
      {"smollm2", 9, 3, 64, {{1, {512, 2048}}, {8, {512}}}}};
  std::vector<DecodeSweep> sweeps;
  for (const Model& m : models) {
    for (const auto& [batch, contexts] : m.batches) {
      DecodeSweep sweep;
      sweep.name = absl::StrCat(m.name, " ", m.heads, "/", m.kv_heads, "x",
                                m.dim, " b", batch);
      if (!absl::StrContains(sweep.name, text)) continue;
      sweep.shape = Shape(m.heads, m.kv_heads, m.dim, batch, 16384);
      sweep.contexts = contexts;
      const DecodeTuning chosen = TuneDecode(sweep.shape, target);
      sweep.cuts.push_back({Numbers(chosen), SpecializeDecodeAttention(
                                                 sweep.shape, target, chosen)});
      for (const DecodeTuning& t : Tunings(sweep.shape, target)) {
        sweep.cuts.push_back(
            {Numbers(t), SpecializeDecodeAttention(sweep.shape, target, t)});
      }
      sweeps.push_back(std::move(sweep));
    }
  }
  return sweeps;
}

absl::Status PrintDecodeSweeps(const std::vector<DecodeSweep>& sweeps,
                               const GpuTarget& target,
                               CompiledKernels* kernels, GpuDevice* device) {
  for (const DecodeSweep& sweep : sweeps) {
    const absl::Status printed = PrintSweep(sweep, target, kernels, device);
    if (!printed.ok()) {
      return absl::InternalError(
          absl::StrCat(sweep.name, ": ", printed.message()));
    }
  }
  return absl::OkStatus();
}

}  // namespace deepslice
