// Compares the GPU's kernels with plain loops over doubles, or times them.
//
//   gpu_kernel_check [--only=FAMILY[,...]] [--time] [--sweep[=TEXT]]
//                    [--sweep-attention[=TEXT]] [--compile-only]
//                    [--target=sm_90a] [--threads=N] [--cache=DIR]
//                    [--carveout=PERCENT] [--list]
//
// Families: linear, decode, tile, latent, rows, heads, encoder, cross, sample,
// service. Prints a line for each case that fails and a last one with the
// counts; exits 1 when one failed.
// --sweep times ways to cut the linear layers whose name has the text in it
// (timing_sweep.h), --sweep-attention those to cut decode attention
// (attention_sweep.h). --carveout=-1 leaves the share of shared memory to the
// driver. --compile-only needs no GPU.
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "compiler/target.h"
#include "tests/gpu/attention_sweep.h"
#include "tests/gpu/gpu_case.h"
#include "tests/gpu/gpu_device.h"
#include "tests/gpu/run_cases.h"
#include "tests/gpu/timing.h"
#include "tests/gpu/timing_sweep.h"

namespace deepslice {
namespace {

struct Options {
  std::vector<std::string> only;
  bool time = false, sweep = false, sweep_decode = false;
  bool compile_only = false, list = false;
  std::string target = "sm_90a", cache, sweep_text;
  int threads = 4, carveout = 100;

  bool Wants(absl::string_view family) const {
    if (only.empty()) return true;
    for (const std::string& o : only) {
      if (o == family) return true;
    }
    return false;
  }
};

bool Parse(int argc, char** argv, Options* o) {
  o->threads = static_cast<int>(std::thread::hardware_concurrency());
  for (int i = 1; i < argc; ++i) {
    absl::string_view arg = argv[i];
    if (arg == "--time") {
      o->time = true;
    } else if (arg == "--sweep") {
      o->sweep = true;
    } else if (absl::ConsumePrefix(&arg, "--sweep=")) {
      o->sweep = true;
      o->sweep_text = std::string(arg);
    } else if (arg == "--sweep-attention") {
      o->sweep_decode = true;
    } else if (absl::ConsumePrefix(&arg, "--sweep-attention=")) {
      o->sweep_decode = true;
      o->sweep_text = std::string(arg);
    } else if (absl::ConsumePrefix(&arg, "--carveout=")) {
      if (!absl::SimpleAtoi(arg, &o->carveout)) return false;
    } else if (arg == "--compile-only") {
      o->compile_only = true;
    } else if (arg == "--list") {
      o->list = true;
    } else if (absl::ConsumePrefix(&arg, "--only=")) {
      o->only = absl::StrSplit(arg, ',');
    } else if (absl::ConsumePrefix(&arg, "--target=")) {
      o->target = std::string(arg);
    } else if (absl::ConsumePrefix(&arg, "--cache=")) {
      o->cache = std::string(arg);
    } else if (absl::ConsumePrefix(&arg, "--threads=")) {
      if (!absl::SimpleAtoi(arg, &o->threads) || o->threads < 1) return false;
    } else {
      return false;
    }
  }
  return true;
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "gpu_kernel_check: %s\n", status.ToString().c_str());
  return 1;
}

int Run(const Options& options) {
  const absl::StatusOr<CompileTarget> target = ParseTarget(options.target);
  if (!target.ok()) return Fail(target.status());
  const GpuTarget& gpu = target->gpu;
  std::vector<GpuCaseEntry> entries;
  std::vector<Timing> timings;
  std::vector<LinearSweep> sweeps;
  std::vector<DecodeSweep> decodes;
  if (options.sweep_decode) {
    decodes = DecodeSweeps(gpu, options.sweep_text);
  } else if (options.sweep) {
    sweeps = LinearSweeps(gpu, options.sweep_text);
  } else if (options.time) {
    const auto add = [&](const char* family, auto make) {
      if (!options.Wants(family)) return;
      for (Timing& t : make(gpu)) timings.push_back(std::move(t));
    };
    add("linear", LinearTimings);
    add("attention", AttentionTimings);
    add("rows", RowsTimings);
  } else {
    const std::pair<const char*, AddCases> families[] = {
        {"linear", AddLinearCases},   {"decode", AddDecodeCases},
        {"tile", AddTileCases},       {"latent", AddLatentCases},
        {"rows", AddRowsCases},       {"heads", AddHeadCases},
        {"encoder", AddEncoderCases}, {"cross", AddCrossCases},
        {"sample", AddSampleCases},   {"service", AddServiceCases}};
    for (const auto& [family, add] : families) {
      if (options.Wants(family)) add(gpu, &entries);
    }
  }
  std::vector<KernelSpec> specs;
  for (const GpuCaseEntry& e : entries) {
    specs.insert(specs.end(), e.specs.begin(), e.specs.end());
  }
  for (const Timing& t : timings) {
    specs.insert(specs.end(), t.specs.begin(), t.specs.end());
  }
  for (const LinearSweep& s : sweeps) {
    for (const LinearCut& cut : s.cuts) specs.push_back(cut.spec);
  }
  for (const DecodeSweep& s : decodes) {
    for (const DecodeCut& cut : s.cuts) specs.push_back(cut.decode.kernel);
  }
  if (options.time || options.sweep || options.sweep_decode) {
    std::vector<GpuCaseEntry> service;
    AddServiceCases(gpu, &service);
    for (const GpuCaseEntry& e : service) {
      specs.insert(specs.end(), e.specs.begin(), e.specs.end());
    }
  }
  if (options.list) {
    for (const GpuCaseEntry& e : entries) std::printf("%s\n", e.name.c_str());
    for (const DecodeSweep& s : decodes) {
      for (const DecodeCut& cut : s.cuts) {
        std::printf("%s %s\n", s.name.c_str(), cut.numbers.c_str());
      }
    }
    return 0;
  }

  JitOptions jit;
  jit.cache_dir = options.cache;
  jit.threads = options.threads;
  const absl::Time begin = absl::Now();
  absl::StatusOr<CompiledKernels> kernels =
      CompiledKernels::Make(specs, gpu, jit);
  if (!kernels.ok()) return Fail(kernels.status());
  std::printf("%zu kernels of %zu cases ready after %.1f s\n",
              kernels->size(), entries.size() + timings.size() + sweeps.size() +
                  decodes.size(),
              absl::ToDoubleSeconds(absl::Now() - begin));
  std::fflush(stdout);
  if (options.compile_only) return kernels->failed() > 0 ? 1 : 0;

  absl::StatusOr<std::unique_ptr<GpuDevice>> device =
      GpuDevice::Open(int64_t{4} << 30);
  if (!device.ok()) return Fail(device.status());
  (*device)->set_carveout(options.carveout);
  std::printf("%s, %d multiprocessors\n", (*device)->name().c_str(),
              (*device)->multiprocessors());
  if (options.sweep_decode) {
    const absl::Status printed =
        PrintDecodeSweeps(decodes, gpu, &*kernels, device->get());
    return printed.ok() ? 0 : Fail(printed);
  }
  if (options.sweep) {
    const absl::Status printed =
        PrintSweeps(sweeps, gpu, &*kernels, device->get());
    return printed.ok() ? 0 : Fail(printed);
  }
  if (options.time) {
    const absl::Status printed =
        PrintTimings(timings, gpu, &*kernels, device->get());
    return printed.ok() ? 0 : Fail(printed);
  }
  const CheckResult result =
      RunCases(entries, &*kernels, device->get(), options.threads);
  std::printf("%d passed, %d failed\n", result.passed, result.failed);
  return result.failed > 0 || kernels->failed() > 0 ? 1 : 0;
}

}  // namespace
}  // namespace deepslice

int main(int argc, char** argv) {
  deepslice::Options options;
  if (!deepslice::Parse(argc, argv, &options)) {
    std::fprintf(
        stderr,
        "usage: gpu_kernel_check [--only=FAMILY[,...]] [--time]\n"
        "         [--sweep[=TEXT]] [--sweep-attention[=TEXT]]\n"
        "         [--compile-only] [--target=sm_90a] [--threads=N]\n"
        "         [--cache=DIR] [--carveout=PERCENT] [--list]\n"
        "families: linear, decode, tile, latent, rows, heads, encoder,\n"
        "cross, sample, service;\n"
        "with --time: linear, attention, rows\n");
    return 2;
  }
  return deepslice::Run(options);
}
