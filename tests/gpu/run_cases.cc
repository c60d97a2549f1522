#include "tests/gpu/run_cases.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <thread>

#include "absl/strings/str_cat.h"
#include "schema/base/status_macros.h"

namespace deepslice {

absl::StatusOr<CompiledKernels> CompiledKernels::Make(
    const std::vector<KernelSpec>& specs, const GpuTarget& target,
    const JitOptions& options) {
  DS_ASSIGN_OR_RETURN(const std::unique_ptr<KernelCompiler> compiler,
                      KernelCompiler::Open(options));
  CompiledKernels out;
  const auto keep = [&out](const KernelSpec& spec, CompiledKernel kernel) {
    out.kernels_[{spec.source, spec.entry}] = std::move(kernel);
  };
  absl::StatusOr<std::vector<CompiledKernel>> all =
      compiler->CompileAll(specs, target);
  if (all.ok()) {
    for (size_t i = 0; i < specs.size(); ++i) keep(specs[i], (*all)[i]);
    return out;
  }
  for (const KernelSpec& spec : specs) {
    if (out.kernels_.count({spec.source, spec.entry}) > 0) continue;
    absl::StatusOr<std::vector<CompiledKernel>> one =
        compiler->CompileAll({&spec, 1}, target);
    if (one.ok()) {
      keep(spec, std::move((*one)[0]));
    } else {
      ++out.failed_;
      std::printf("FAIL compile %s: %s\n", spec.entry.c_str(),
                  one.status().ToString().c_str());
    }
  }
  return out;
}

const CompiledKernel* CompiledKernels::Find(const KernelSpec& spec) const {
  const auto it = kernels_.find({spec.source, spec.entry});
  return it == kernels_.end() ? nullptr : &it->second;
}

absl::StatusOr<CUfunction> CompiledKernels::Function(const KernelSpec& spec,
                                                     GpuDevice* device) {
  const Key key = {spec.source, spec.entry};
  const auto it = functions_.find(key);
  if (it != functions_.end()) return it->second;
  const CompiledKernel* kernel = Find(spec);
  if (kernel == nullptr) {
    return absl::InternalError(absl::StrCat("no image of ", spec.entry));
  }
  DS_ASSIGN_OR_RETURN(const CUfunction function,
                      device->Load(spec, kernel->image, kernel->entry));
  functions_[key] = function;
  return function;
}

namespace {

// Before and after every buffer; a read or a write of it is seen.
constexpr int64_t kGuard = 4096;
constexpr char kPoison = '\xff';

struct Placed {
  std::vector<CUdeviceptr> at;  // of each buffer, behind its guard
};

int64_t RoundUp256(int64_t n) { return (n + 255) / 256 * 256; }

absl::StatusOr<Placed> Place(const GpuCase& c, GpuDevice* device) {
  device->Reset();
  Placed placed;
  for (const GpuBuffer& b : c.buffers) {
    const int64_t bytes = static_cast<int64_t>(b.bytes.size());
    DS_ASSIGN_OR_RETURN(const CUdeviceptr at,
                        device->Allocate(RoundUp256(bytes) + 2 * kGuard));
    placed.at.push_back(at + kGuard);
  }
  return placed;
}

// One run: uploads everything, launches, and brings all buffers back with
// their guards.
absl::StatusOr<std::vector<std::vector<char>>> RunOnce(
    const GpuCase& c, const Placed& placed, CompiledKernels* kernels,
    GpuDevice* device) {
  for (size_t i = 0; i < c.buffers.size(); ++i) {
    const int64_t bytes = static_cast<int64_t>(c.buffers[i].bytes.size());
    DS_RETURN_IF_ERROR(
        device->Fill(placed.at[i] - kGuard, static_cast<unsigned char>(kPoison),
                     RoundUp256(bytes) + 2 * kGuard));
    DS_RETURN_IF_ERROR(
        device->Upload(placed.at[i], c.buffers[i].bytes.data(), bytes));
  }
  for (const GpuLaunch& launch : c.launches) {
    DS_ASSIGN_OR_RETURN(const CUfunction function,
                        kernels->Function(launch.spec, device));
    std::vector<uint64_t> values;
    for (const GpuParam& p : launch.params) {
      values.push_back(p.buffer < 0 ? p.value
                                    : placed.at[p.buffer] + p.offset);
    }
    std::vector<void*> params;
    for (uint64_t& v : values) params.push_back(&v);
    DS_RETURN_IF_ERROR(
        device->Launch(launch.spec, function, launch.info, params.data()));
  }
  DS_RETURN_IF_ERROR(device->Wait());
  std::vector<std::vector<char>> after;
  for (size_t i = 0; i < c.buffers.size(); ++i) {
    const int64_t bytes = static_cast<int64_t>(c.buffers[i].bytes.size());
    std::vector<char>& host = after.emplace_back(bytes + 2 * kGuard);
    DS_RETURN_IF_ERROR(
        device->Download(host.data(), placed.at[i] - kGuard, host.size()));
  }
  DS_RETURN_IF_ERROR(device->Wait());
  return after;
}

// "" or what is wrong with the buffer that the check names.
std::string Compare(const GpuCheck& check, const char* got) {
  const int64_t size = DTypeSize(check.type);
  int64_t bad = 0, first = -1, worst = -1;
  double worst_ratio = 0;
  for (int64_t i = 0; i < static_cast<int64_t>(check.want.size()); ++i) {
    const double want = check.want[i];
    const char* p = got + i * size;
    bool fine;
    if (std::isnan(want)) {
      fine = std::all_of(p, p + size, [](char b) { return b == kPoison; });
    } else {
      const double off = std::fabs(GetElement(check.type, p) - want);
      const double allowed = check.allowed.empty() ? 0 : check.allowed[i];
      fine = off <= allowed;  // false for NaN
      const double ratio = off / (allowed + 1e-30);
      if (!fine && (ratio > worst_ratio || std::isnan(ratio))) {
        worst_ratio = ratio;
        worst = i;
      }
    }
    if (fine) continue;
    ++bad;
    if (first < 0) first = i;
  }
  if (bad == 0) return "";
  const auto at = [&](int64_t i) {
    return absl::StrCat("element ", i, ": got ",
                        GetElement(check.type, got + i * size), ", want ",
                        std::isnan(check.want[i])
                            ? std::string("untouched")
                            : absl::StrCat(check.want[i]),
                        " +- ", check.allowed.empty() ? 0 : check.allowed[i]);
  };
  std::string text = absl::StrCat(bad, " of ", check.want.size(),
                                  " elements are wrong; first ", at(first));
  if (worst >= 0 && worst != first) {
    absl::StrAppend(&text, "; worst ", at(worst));
  }
  return text;
}

std::string CheckCase(const GpuCase& c, CompiledKernels* kernels,
                      GpuDevice* device) {
  const absl::StatusOr<Placed> placed = Place(c, device);
  if (!placed.ok()) return placed.status().ToString();
  std::vector<std::vector<char>> runs[2];
  for (auto& run : runs) {
    absl::StatusOr<std::vector<std::vector<char>>> after =
        RunOnce(c, *placed, kernels, device);
    if (!after.ok()) return after.status().ToString();
    run = std::move(*after);
  }
  for (size_t i = 0; i < c.buffers.size(); ++i) {
    const std::vector<char>& got = runs[0][i];
    const auto is_poison = [](char b) { return b == kPoison; };
    if (!std::all_of(got.begin(), got.begin() + kGuard, is_poison)) {
      return absl::StrCat("buffer ", i, ": written before its begin");
    }
    if (!std::all_of(got.end() - kGuard, got.end(), is_poison)) {
      return absl::StrCat("buffer ", i, ": written behind its end");
    }
    const GpuCheck* check = nullptr;
    for (const GpuCheck& k : c.checks) {
      if (k.buffer == static_cast<int>(i)) check = &k;
    }
    if (check != nullptr) {
      const std::string wrong = Compare(*check, got.data() + kGuard);
      if (!wrong.empty()) return absl::StrCat("buffer ", i, ": ", wrong);
    } else if (!c.buffers[i].scratch &&
               !std::equal(got.begin() + kGuard, got.end() - kGuard,
                           c.buffers[i].bytes.begin())) {
      return absl::StrCat("buffer ", i, " of ", c.buffers[i].bytes.size(),
                          " bytes: changed, and should not be");
    }
    if (!c.buffers[i].scratch && got != runs[1][i]) {
      return absl::StrCat("buffer ", i, ": two runs differ");
    }
  }
  return "";
}

}  // namespace

CheckResult RunCases(const std::vector<GpuCaseEntry>& entries,
                     CompiledKernels* kernels, GpuDevice* device,
                     int threads) {
  CheckResult result;
  const size_t batch = 2 * static_cast<size_t>(threads);
  for (size_t begin = 0; begin < entries.size(); begin += batch) {
    const size_t n = std::min(batch, entries.size() - begin);
    std::vector<GpuCase> cases(n);
    std::atomic<size_t> next = 0;
    std::vector<std::thread> makers;
    for (int t = 0; t < threads; ++t) {
      makers.emplace_back([&] {
        for (size_t i; (i = next++) < n;) cases[i] = entries[begin + i].make();
      });
    }
    for (std::thread& t : makers) t.join();
    for (size_t i = 0; i < n; ++i) {
      const std::string wrong = CheckCase(cases[i], kernels, device);
      if (wrong.empty()) {
        ++result.passed;
        continue;
      }
      ++result.failed;
      std::printf("FAIL %s: %s\n", entries[begin + i].name.c_str(),
                  wrong.c_str());
      std::fflush(stdout);
    }
  }
  return result;
}

}  // namespace deepslice
