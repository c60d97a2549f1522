#include "tests/gpu/timing_sweep.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kernels/cuda/linear_tiling.h"
#include "schema/base/status_macros.h"
#include "tests/gpu/timing.h"

namespace deepslice {
namespace {

constexpr int64_t kSmShared = 227 << 10;
constexpr int64_t kColdBytes = int64_t{128} << 20;
constexpr int64_t kRandomBytes = int64_t{1300} << 20;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

std::string Numbers(const LinearTiling& t) {
  return absl::StrCat("tiles ", t.tiles, " warps ", t.warps, " unroll ",
                      t.unroll, " stages ", t.stages, " cluster ", t.cluster,
                      " registers ", t.registers);
}

// A thread's registers below which the assembler spills, roughly.
int RegistersOf(const LinearShape& s, int tiles) {
  if (s.tokens > 16) return tiles <= 4 ? 128 : tiles <= 6 ? 168 : 240;
  if (s.tokens > 8) return tiles <= 2 ? 96 : tiles <= 4 ? 128 : 168;
  return tiles == 1 ? 64 : tiles == 2 ? 72 : tiles <= 4 ? 96 : 128;
}

std::vector<int> TilesOf(const LinearShape& s) {
  if (s.tokens > 16) return {2, 3, 4, 5, 6, 7, 8};
  if (s.tokens > 8) return {1, 2, 3, 4, 6};
  return {1, 2, 3, 4};
}

// The deepest ring with which `per_sm` blocks fit, or no stages at all.
LinearTiling Fit(const LinearShape& s, LinearTiling t, int64_t per_sm) {
  const int64_t steps =
      CeilDiv(s.in, int64_t{32} * t.cluster * t.warps * t.unroll);
  int stages = 0;
  for (t.stages = 1; t.stages <= std::min<int64_t>(steps, 8); ++t.stages) {
    if (LinearMmaShared(s, t) > kSmShared / per_sm - 1024) break;
    stages = t.stages;
  }
  t.stages = stages;
  return t;
}

// Bytes of weights that a multiprocessor waits for at a time.
int64_t InFlight(const LinearShape& s, const LinearTiling& t, int64_t sms) {
  const int64_t blocks = CeilDiv(s.out, 16 * t.tiles) * t.cluster;
  const int64_t ring = int64_t{1024} * t.warps * t.stages * t.unroll * t.tiles;
  const int64_t all = 32 * t.tiles * s.in / t.cluster;
  const int64_t per_sm =
      std::min<int64_t>(65536 / (t.warps * 32 * t.registers),
                        kSmShared / (LinearMmaShared(s, t) + 1024));
  return std::min(per_sm, CeilDiv(blocks, sms)) * std::min(ring, all);
}

// Everything that could be good.
std::vector<LinearTiling> AllTilings(const LinearShape& s, int64_t sms) {
  std::vector<LinearTiling> out;
  // Of those that differ in registers alone the one with the most blocks.
  std::map<std::string, size_t> seen;
  const auto keep = [&](const LinearTiling& t) {
    LinearTiling same = t;
    same.registers = 0;
    const auto [it, is_new] = seen.emplace(Numbers(same), out.size());
    if (is_new) {
      out.push_back(t);
    } else {
      out[it->second] = t;
    }
  };
  for (const int tiles : TilesOf(s)) {
    const int64_t row_blocks = CeilDiv(s.out, 16 * tiles);
    for (const int cluster : {1, 2, 4, 8}) {
      const int64_t blocks = row_blocks * cluster;
      if (cluster > 1 && (row_blocks > 200 || blocks > 5 * sms)) continue;
      if (tiles % (cluster > 4 ? 2 : 1) != 0) continue;
      if (blocks < std::min<int64_t>(sms / 2, s.out / 16)) continue;
      const int64_t share = CeilDiv(blocks, sms);
      for (const int unroll : {1, 2, 4, 8}) {
        if (unroll * tiles > 8) continue;
        for (const int warps : {2, 3, 4, 6, 8, 12, 16}) {
          const int64_t step = int64_t{32} * cluster * warps * unroll;
          const int64_t steps = CeilDiv(s.in, step);
          if (steps * step > s.in * 9 / 8) continue;
          for (const int64_t per_sm : {1, 2, 3, 4, 5, 6}) {
            if (per_sm > 2 * share) continue;
            LinearTiling t = {.tiles = tiles,
                              .warps = warps,
                              .unroll = unroll,
                              .cluster = cluster};
            t.registers = static_cast<int>(
                std::min<int64_t>(255, 65536 / (warps * 32 * per_sm)));
            if (t.registers < RegistersOf(s, tiles)) continue;
            t = Fit(s, t, per_sm);
            if (t.stages < std::min<int64_t>(2, steps)) continue;
            if (InFlight(s, t, sms) < 64 << 10 && t.stages < steps) continue;
            keep(t);
          }
        }
      }
    }
  }
  return out;
}

uint64_t Hash(uint64_t x) {
  x = (x ^ (x >> 31)) * 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 29)) * 0xBF58476D1CE4E5B9u;
  return x ^ (x >> 32);
}

// `count` of them, from all kinds in turn, the same at every run.
std::vector<LinearTiling> Sample(const LinearShape& s,
                                 const std::vector<LinearTiling>& all,
                                 int64_t sms, size_t count) {
  std::map<int64_t, std::vector<std::pair<uint64_t, size_t>>> kinds;
  for (size_t i = 0; i < all.size(); ++i) {
    const LinearTiling& t = all[i];
    const uint64_t key =
        Hash((t.warps * 16 + t.unroll) * 4096 + t.stages * 256 + t.tiles);
    const int64_t kind =
        (t.tiles * 16 + t.cluster) * 4 + InFlight(s, t, sms) / (72 << 10);
    kinds[kind].push_back({Hash(key + t.registers), i});
  }
  for (auto& [kind, list] : kinds) std::sort(list.begin(), list.end());
  std::vector<LinearTiling> out;
  for (size_t round = 0; out.size() < count && round < all.size(); ++round) {
    for (const auto& [kind, list] : kinds) {
      if (round < list.size() && out.size() < count) {
        out.push_back(all[list[round].second]);
      }
    }
  }
  return out;
}

size_t SampleSize(const ModelLinear& linear) {
  const bool head = absl::StrContains(linear.name, "lm_head");
  if (linear.shape.tokens > 16 && linear.shape.in >= 2048) {
    return head ? 20 : 60;
  }
  if (absl::StartsWith(linear.name, "8b")) return head ? 8 : 48;
  return head ? 5 : 12;
}

// What all launches of a layer share, and a weight and an output for each copy.
struct Memory {
  std::vector<std::vector<uint64_t>> params;  // of each copy
  CUdeviceptr info = 0;
  CUdeviceptr y = 0;  // of copy 0
  int64_t y_bytes = 0;
};

absl::StatusOr<Memory> MakeMemory(const LinearSweep& sweep, int copies,
                                  TimingMemory* m) {
  const LinearShape& s = sweep.shape;
  Memory out;
  StepInfo info = {};
  info.tokens = info.rows = static_cast<int32_t>(s.tokens);
  DS_ASSIGN_OR_RETURN(out.info, m->Upload(&info, sizeof info));
  std::vector<int32_t> rows(s.tokens);
  std::iota(rows.begin(), rows.end(), 0);
  DS_ASSIGN_OR_RETURN(const CUdeviceptr from,
                      m->Upload(rows.data(), 4 * s.tokens));
  const CUdeviceptr x = m->Random(2 * s.tokens * s.x_stride);
  const CUdeviceptr residual =
      s.residual ? m->Random(2 * s.tokens * s.residual_stride) : 0;
  out.y_bytes = DTypeSize(s.y) * s.tokens * s.y_stride;
  for (int i = 0; i < copies; ++i) {
    const CUdeviceptr scale =
        s.norm != FusedNorm::kNone ? m->Random(4 * s.in) : 0;
    DS_ASSIGN_OR_RETURN(const CUdeviceptr y, m->Zeros(out.y_bytes));
    if (i == 0) out.y = y;
    out.params.push_back({x, m->Random(2 * s.in * s.out), scale, 0, 0, residual,
                          s.gather ? from : 0, y});
  }
  return out;
}

// Microseconds of a launch; the output of copy 0 to `values`.
absl::StatusOr<double> TimeCut(const LinearCut& cut, const LinearShape& s,
                               Memory* memory, CompiledKernels* kernels,
                               GpuDevice* device, std::vector<double>* values) {
  DS_RETURN_IF_ERROR(device->Fill(memory->y, 0xff, memory->y_bytes));
  DS_ASSIGN_OR_RETURN(const CUfunction function,
                      kernels->Function(cut.spec, device));
  DS_ASSIGN_OR_RETURN(const double us, device->Time([&]() -> absl::Status {
    for (auto& copy : memory->params) {
      std::vector<void*> pointers = {&memory->info};
      for (uint64_t& v : copy) pointers.push_back(&v);
      DS_RETURN_IF_ERROR(
          device->Launch(cut.spec, function, StepInfo{}, pointers.data()));
    }
    return absl::OkStatus();
  }));
  std::vector<char> bytes(memory->y_bytes);
  DS_RETURN_IF_ERROR(device->Download(bytes.data(), memory->y, bytes.size()));
  DS_RETURN_IF_ERROR(device->Wait());
  values->clear();
  for (int64_t i = 0; i < memory->y_bytes; i += DTypeSize(s.y)) {
    values->push_back(GetElement(s.y, bytes.data() + i));
  }
  return us / memory->params.size();
}

absl::Status PrintSweep(const LinearSweep& sweep, const GpuTarget& target,
                        CompiledKernels* kernels, GpuDevice* device) {
  // A copy more than fill L2 twice; many of small ones.
  const int64_t weight = 2 * sweep.shape.in * sweep.shape.out;
  const int copies =
      static_cast<int>(std::clamp<int64_t>(kColdBytes / weight, 20, 128));
  absl::StatusOr<TimingMemory> random =
      TimingMemory::Make(device, kernels, target, kRandomBytes);
  DS_RETURN_IF_ERROR(random.status());
  absl::StatusOr<Memory> memory = MakeMemory(sweep, copies, &*random);
  DS_RETURN_IF_ERROR(memory.status());

  struct Line {
    double us = 0;
    std::string rest;
  };
  std::vector<Line> lines;
  std::vector<double> want, got;
  for (const LinearCut& cut : sweep.cuts) {
    const bool chosen = &cut == &sweep.cuts[0];
    const absl::StatusOr<double> us = TimeCut(
        cut, sweep.shape, &*memory, kernels, device, chosen ? &want : &got);
    if (!us.ok()) {
      return absl::InternalError(
          absl::StrCat(cut.numbers, ": ", us.status().message()));
    }
    const double off = chosen ? 0 : Distance(got, want);
    char number[32];
    std::snprintf(number, sizeof number, "%.2g", off);
    lines.push_back({*us, absl::StrCat(cut.numbers, " | ", number, " | ",
                                       chosen          ? "chosen"
                                       : off <= 0.0157 ? ""
                                                       : "WRONG")});
  }
  std::stable_sort(lines.begin(), lines.end(),
                   [](const Line& a, const Line& b) { return a.us < b.us; });
  for (size_t i = 0; i < lines.size(); ++i) {
    std::printf("sweep | %s | %zu | %.2f | %.3f | %s\n", sweep.name.c_str(),
                i + 1, lines[i].us, weight / lines[i].us * 1e-6,
                lines[i].rest.c_str());
  }
  std::fflush(stdout);
  return absl::OkStatus();
}

}  // namespace

std::vector<LinearSweep> LinearSweeps(const GpuTarget& target,
                                      absl::string_view text) {
  std::vector<LinearSweep> sweeps;
  for (const ModelLinear& linear : ModelLinears({1, 8, 16, 32})) {
    if (!absl::StrContains(linear.name, text)) continue;
    if (linear.shape.tokens == 16 && !absl::StartsWith(linear.name, "8b")) {
      continue;
    }
    LinearSweep sweep = {linear.name, linear.shape, {}};
    const LinearTiling chosen = ChooseLinearTiling(linear.shape, target);
    sweep.cuts.push_back(
        {Numbers(chosen), *SpecializeLinear(linear.shape, target)});
    sweep.cuts.push_back(sweep.cuts[0]);
    sweep.cuts[1].numbers += " alone";
    sweep.cuts[1].spec.programmatic = false;
    for (const LinearTiling& t :
         Sample(linear.shape, AllTilings(linear.shape, target.num_sms),
                target.num_sms, SampleSize(linear))) {
      sweep.cuts.push_back(
          {Numbers(t), SpecializeLinearMma(linear.shape, target, t)});
    }
    sweeps.push_back(std::move(sweep));
  }
  return sweeps;
}

absl::Status PrintSweeps(const std::vector<LinearSweep>& sweeps,
                         const GpuTarget& target, CompiledKernels* kernels,
                         GpuDevice* device) {
  for (const LinearSweep& sweep : sweeps) {
    const absl::Status printed = PrintSweep(sweep, target, kernels, device);
    if (!printed.ok()) {
      return absl::InternalError(
          absl::StrCat(sweep.name, ": ", printed.message()));
    }
  }
  return absl::OkStatus();
}

}  // namespace deepslice
