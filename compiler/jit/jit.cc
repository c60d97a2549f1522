#include "compiler/jit/jit.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compiler/jit/kernel_cache.h"
#include "compiler/jit/kernel_text.h"
#include "compiler/jit/nvrtc.h"
#include "schema/base/digest.h"
#include "schema/base/file.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// Part of every key: raised when an entry's files or meaning change.
constexpr char kCacheFormat[] = "deepslice kernel 1";

// The first line of a log that says error, without what surrounds it.
std::string FirstError(absl::string_view log) {
  std::string first;
  for (absl::string_view line : absl::StrSplit(log, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (line.empty()) continue;
    if (absl::StrContains(line, "error")) return std::string(line);
    if (first.empty()) first = std::string(line);
  }
  return first;
}

// A program of NVRTC that is destroyed with the object.
class NvrtcProgram {
 public:
  explicit NvrtcProgram(const Nvrtc& nvrtc) : nvrtc_(nvrtc) {}
  ~NvrtcProgram() {
    if (program_ != nullptr) nvrtc_.destroy_program(&program_);
  }
  NvrtcProgram(const NvrtcProgram&) = delete;
  NvrtcProgram& operator=(const NvrtcProgram&) = delete;
  Nvrtc::Program* address() { return &program_; }
  Nvrtc::Program get() const { return program_; }

  // What a pair of size and get functions gives, without a final NUL.
  std::string Text(int (*size)(Nvrtc::Program, size_t*),
                   int (*get)(Nvrtc::Program, char*)) const {
    size_t bytes = 0;
    if (size(program_, &bytes) != 0 || bytes == 0) return "";
    std::string out(bytes, '\0');
    if (get(program_, out.data()) != 0) return "";
    return out;
  }

 private:
  const Nvrtc& nvrtc_;
  Nvrtc::Program program_ = nullptr;
};

class NvrtcCompiler final : public KernelCompiler {
 public:
  NvrtcCompiler(Nvrtc nvrtc, const JitOptions& options)
      : nvrtc_(std::move(nvrtc)),
        options_(options),
        cache_(options.cache_dir),
        version_(absl::StrCat(nvrtc_.major, ".", nvrtc_.minor)) {}

  const std::string& version() const override { return version_; }
  int cached() const override { return cached_; }
  int compiled() const override { return compiled_; }

  absl::StatusOr<std::vector<CompiledKernel>> CompileAll(
      absl::Span<const KernelSpec> specs, const GpuTarget& target) override {
    DS_RETURN_IF_ERROR(CheckTarget(target));
    // Each source's files once, each entry once, in the order of the specs.
    std::map<std::string, std::vector<const EmbeddedKernelFile*>> files;
    std::map<std::pair<std::string, std::string>, size_t> place;
    std::vector<const KernelSpec*> unique;
    for (const KernelSpec& spec : specs) {
      if (!place.emplace(std::make_pair(spec.source, spec.entry), unique.size())
               .second) {
        continue;
      }
      unique.push_back(&spec);
      if (files.contains(spec.source)) continue;
      DS_ASSIGN_OR_RETURN(files[spec.source], KernelFilesOf(spec.source));
    }

    std::vector<CompiledKernel> made(unique.size());
    std::vector<absl::Status> failed(unique.size());
    std::atomic<size_t> next{0};
    std::atomic<bool> stop{false};
    std::mutex progress_mutex;
    int done = 0;
    const auto work = [&] {
      for (;;) {
        if (options_.stopped && options_.stopped()) stop = true;
        const size_t i = next.fetch_add(1);
        if (i >= unique.size() || stop) return;
        absl::StatusOr<CompiledKernel> kernel =
            Make(*unique[i], files.at(unique[i]->source), target);
        if (kernel.ok()) {
          made[i] = *std::move(kernel);
          if (!options_.progress) continue;
          const std::lock_guard<std::mutex> lock(progress_mutex);
          options_.progress(++done, static_cast<int>(unique.size()));
        } else {
          failed[i] = kernel.status();
          stop = true;
        }
      }
    };
    std::vector<std::thread> helpers;
    const size_t wanted =
        std::min<size_t>(std::max(options_.threads, 1), unique.size());
    for (size_t i = 1; i < wanted; ++i) helpers.emplace_back(work);
    work();
    for (std::thread& t : helpers) t.join();
    for (const absl::Status& status : failed) DS_RETURN_IF_ERROR(status);
    if (stop) return absl::CancelledError("interrupted");

    std::vector<CompiledKernel> out;
    out.reserve(specs.size());
    for (const KernelSpec& spec : specs) {
      out.push_back(made[place.at({spec.source, spec.entry})]);
    }
    return out;
  }

 private:
  absl::Status CheckTarget(const GpuTarget& target) const {
    const int arch = target.major * 10 + target.minor;
    if (nvrtc_.archs.empty() ||
        std::find(nvrtc_.archs.begin(), nvrtc_.archs.end(), arch) !=
            nvrtc_.archs.end()) {
      return absl::OkStatus();
    }
    std::vector<std::string> known;
    for (const int a : nvrtc_.archs) known.push_back(absl::StrCat("sm_", a));
    return absl::FailedPreconditionError(absl::StrCat(
        "--target ", target.name, ": NVRTC ", version_, " (", nvrtc_.path,
        ") compiles for ", absl::StrJoin(known, ", "),
        "; install a newer nvidia-cuda-nvrtc or name another target"));
  }

  std::vector<std::string> Options(const GpuTarget& target) const {
    // Nothing that writes names of files, places or times into the image:
    // images are the same everywhere. Products and sums fuse (NVRTC's default);
    // division and roots are exact.
    std::vector<std::string> out = {
        absl::StrCat("--gpu-architecture=", target.name), "--std=c++17",
        // Generic lambdas and constexpr functions carry no __device__.
        "--device-as-default-execution-space"};
    if (options_.verbose) out.push_back("--ptxas-options=-v");
    // NVRTC's own cache, which from this version on is there, writes to the
    // home folder; ours also holds for other users' plans.
    if (nvrtc_.major > 12 || nvrtc_.minor >= 9) out.push_back("--no-cache");
    return out;
  }

  std::string Key(const KernelSpec& spec,
                  const std::vector<const EmbeddedKernelFile*>& files,
                  const std::vector<std::string>& options) const {
    Sha256 sha;
    const auto add = [&](absl::string_view text) {
      const uint64_t size = text.size();
      sha.Update(&size, sizeof(size));
      sha.Update(text.data(), text.size());
    };
    add(kCacheFormat);
    add(version_);
    add(nvrtc_.build);
    for (const std::string& option : options) add(option);
    for (const EmbeddedKernelFile* file : files) {
      add(file->name);
      add(file->text);
    }
    add(spec.entry);
    return sha.Finish();
  }

  absl::StatusOr<CompiledKernel> Make(
      const KernelSpec& spec,
      const std::vector<const EmbeddedKernelFile*>& files,
      const GpuTarget& target) {
    const std::vector<std::string> options = Options(target);
    const std::string key = Key(spec, files, options);
    if (auto found = cache_.Find(key, target.ptx)) {
      ++cached_;
      return *std::move(found);
    }
    DS_ASSIGN_OR_RETURN(CompiledKernel kernel,
                        CompileOne(spec, files, options, target));
    ++compiled_;
    cache_.Keep(key, target.ptx, kernel, KernelTextOf(files, spec.entry));
    return kernel;
  }

  absl::StatusOr<CompiledKernel> CompileOne(
      const KernelSpec& spec,
      const std::vector<const EmbeddedKernelFile*>& files,
      const std::vector<std::string>& options, const GpuTarget& target) const {
    const auto error = [&](absl::string_view what) {
      return absl::InternalError(absl::StrCat(
          "kernel ", spec.label, " (", spec.entry, " of ", spec.source,
          ") for ", target.name, ": NVRTC ", version_, ": ", what));
    };
    std::vector<const char*> texts, names, option_texts;
    for (const EmbeddedKernelFile* file : files) {
      texts.push_back(file->text);
      names.push_back(file->name);
    }
    for (const std::string& o : options) option_texts.push_back(o.c_str());
    const std::string source = absl::StrCat("#include \"", spec.source, "\"\n");
    NvrtcProgram program(nvrtc_);
    int result =
        nvrtc_.create_program(program.address(), source.c_str(), "kernel.cu",
                              texts.size(), texts.data(), names.data());
    if (result == 0) {
      result = nvrtc_.add_name_expression(program.get(), spec.entry.c_str());
    }
    if (result != 0) return error(nvrtc_.error_string(result));
    result = nvrtc_.compile_program(program.get(), option_texts.size(),
                                    option_texts.data());
    std::string log = program.Text(nvrtc_.log_size, nvrtc_.log);
    if (!log.empty() && log.back() == '\0') log.pop_back();
    const char* lowered = nullptr;
    if (result == 0) {
      result = nvrtc_.lowered_name(program.get(), spec.entry.c_str(), &lowered);
    }
    if (result != 0) {
      const std::string first = FirstError(log);
      return error(first.empty() ? nvrtc_.error_string(result) : first);
    }
    CompiledKernel kernel;
    kernel.entry = lowered;
    if (options_.verbose) kernel.log = std::move(log);
    // PTX keeps its final NUL: the driver reads it as a string.
    kernel.image = target.ptx ? program.Text(nvrtc_.ptx_size, nvrtc_.ptx)
                              : program.Text(nvrtc_.cubin_size, nvrtc_.cubin);
    if (kernel.image.empty()) return error("made no image");
    return kernel;
  }

  const Nvrtc nvrtc_;
  const JitOptions options_;
  const KernelCache cache_;
  const std::string version_;
  std::atomic<int> cached_{0}, compiled_{0};
};

}  // namespace

std::string DefaultKernelCache() {
  const std::string cache = UserCacheFolder();
  return cache.empty() ? "" : JoinPath(cache, "deepslice/kernels");
}

absl::StatusOr<std::unique_ptr<KernelCompiler>> KernelCompiler::Open(
    const JitOptions& options) {
  DS_ASSIGN_OR_RETURN(Nvrtc nvrtc, OpenNvrtc());
  return std::make_unique<NvrtcCompiler>(std::move(nvrtc), options);
}

}  // namespace deepslice
