#include "runtime/backend/cuda/gemm_tuner.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "schema/base/file.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

constexpr int kAlgoWords = 8;

class Timer {
 public:
  Timer(const GpuContext& gpu, const GemmSample& sample, CUstream stream,
        Gemms* gemms)
      : gpu_(gpu), sample_(sample), stream_(stream), gemms_(*gemms) {}

  absl::Status Init() {
    DS_ASSIGN_OR_RETURN(begin_, GpuEvent::Make(gpu_, /*timing=*/true));
    DS_ASSIGN_OR_RETURN(end_, GpuEvent::Make(gpu_, /*timing=*/true));
    return absl::OkStatus();
  }

  // The least microseconds of `rounds`; infinity when it does not run.
  double Time(int64_t rows, const CublasLtAlgo& algo, int rounds) {
    double best = std::numeric_limits<double>::infinity();
    if (!Run(rows, algo).ok()) return best;  // loads the kernel
    for (int r = 0; r < rounds; ++r) {
      const CudaApi& cuda = gpu_.cuda();
      float ms = 0;
      if (cuda.EventRecord(begin_.get(), stream_) != kCudaSuccess ||
          !Run(rows, algo).ok() ||
          cuda.EventRecord(end_.get(), stream_) != kCudaSuccess ||
          cuda.EventSynchronize(end_.get()) != kCudaSuccess ||
          cuda.EventElapsedTime(&ms, begin_.get(), end_.get()) !=
              kCudaSuccess) {
        return std::numeric_limits<double>::infinity();
      }
      best = std::min(best, 1e3 * ms);
    }
    return best;
  }

 private:
  absl::Status Run(int64_t rows, const CublasLtAlgo& algo) {
    const CUdeviceptr w = sample_.weights[next_++ % sample_.weights.size()];
    return gemms_.RunWith(sample_.problem, rows, algo, sample_.a, w,
                          sample_.residual, sample_.out, stream_);
  }

  const GpuContext& gpu_;
  const GemmSample& sample_;
  const CUstream stream_;
  Gemms& gemms_;
  GpuEvent begin_, end_;
  size_t next_ = 0;
};

std::string Safe(absl::string_view text) {
  std::string out;
  for (const char c : text) {
    out += absl::ascii_isalnum(c) || c == '.' || c == '_' ? c : '_';
  }
  // "." and ".." are no names of files.
  return out.empty() || out[0] == '.' ? absl::StrCat("_", out) : out;
}

absl::Status MakeFolders(const std::string& path) {
  for (size_t at = path.find('/', 1); at != std::string::npos;
       at = path.find('/', at + 1)) {
    const std::string folder = path.substr(0, at);
    if (mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) {
      return absl::FailedPreconditionError(
          absl::StrCat(folder, ": can't make it: ", std::strerror(errno)));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status TuneGemms(const GpuContext& gpu,
                       const std::vector<GemmSample>& samples,
                       const TuneOptions& options, CUstream stream,
                       Gemms* gemms) {
  const absl::Time deadline = absl::Now() + absl::Seconds(options.seconds);
  for (int c = kNumGemmClasses - 1; c >= 0; --c) {
    for (const GemmSample& sample : samples) {
      const int64_t rows = std::min(kGemmClasses[c], sample.most_rows);
      // Heights that the run never has.
      if (rows < 1 || (c > 0 && rows <= kGemmClasses[c - 1])) continue;
      if (!options.again && gemms->chosen(sample.problem, c) != nullptr) {
        continue;
      }
      if (absl::Now() > deadline) return absl::OkStatus();
      Timer timer(gpu, sample, stream, gemms);
      DS_RETURN_IF_ERROR(timer.Init());
      DS_ASSIGN_OR_RETURN(
          const std::vector<CublasLtAlgo> algos,
          gemms->Candidates(sample.problem, rows, options.candidates));
      double first = 0, best = std::numeric_limits<double>::infinity();
      const CublasLtAlgo* winner = nullptr;
      for (const CublasLtAlgo& algo : algos) {
        const double us = timer.Time(rows, algo, options.rounds);
        if (&algo == &algos[0]) first = us;
        // Within noise the heuristic's order stands.
        if (us < 0.98 * best) {
          best = us;
          winner = &algo;
        }
      }
      if (winner == nullptr) continue;
      gemms->Choose(sample.problem, c, *winner);
      if (options.report) {
        options.report(gemms->shape(sample.problem), rows, first, best);
      }
    }
  }
  return gpu.Check(gpu.cuda().StreamSynchronize(stream), "tuning");
}

std::string FormatGemmChoices(const Gemms& gemms) {
  std::string out;
  for (int i = 0; i < gemms.size(); ++i) {
    for (int c = 0; c < kNumGemmClasses; ++c) {
      const CublasLtAlgo* algo = gemms.chosen(i, c);
      if (algo == nullptr) continue;
      absl::StrAppend(&out, kGemmClasses[c], " ", gemms.shape(i).Text(), ":");
      for (const uint64_t word : algo->data) {
        absl::StrAppend(&out, " ", absl::Hex(word, absl::kZeroPad16));
      }
      out += '\n';
    }
  }
  return out;
}

int AdoptGemmChoices(absl::string_view text, Gemms* gemms) {
  int adopted = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 1));
    const std::vector<absl::string_view> words =
        absl::StrSplit(parts.second, ' ', absl::SkipEmpty());
    CublasLtAlgo algo = {};
    bool good = words.size() == kAlgoWords;
    for (int w = 0; good && w < kAlgoWords; ++w) {
      good = absl::SimpleHexAtoi(words[w], &algo.data[w]);
    }
    if (!good) continue;
    for (int i = 0; i < gemms->size(); ++i) {
      for (int c = 0; c < kNumGemmClasses; ++c) {
        if (parts.first !=
                absl::StrCat(kGemmClasses[c], " ", gemms->shape(i).Text()) ||
            !gemms->Accepts(i, c, algo)) {
          continue;
        }
        gemms->Choose(i, c, algo);
        ++adopted;
      }
    }
  }
  return adopted;
}

std::string GemmCachePath(absl::string_view cache_folder,
                          absl::string_view plan_set_id,
                          absl::string_view gpu_name, size_t cublas_version) {
  if (cache_folder.empty()) return "";
  return absl::StrCat(cache_folder, "/deepslice/", Safe(plan_set_id), "/",
                      Safe(gpu_name), "-", cublas_version);
}

absl::Status WriteGemmCache(const std::string& path, absl::string_view text) {
  DS_RETURN_IF_ERROR(MakeFolders(path));
  const std::string aside = absl::StrCat(path, ".", getpid());
  absl::Status status = WriteFile(aside, text);
  if (status.ok() && std::rename(aside.c_str(), path.c_str()) != 0) {
    status = absl::FailedPreconditionError(
        absl::StrCat(path, ": can't replace it: ", std::strerror(errno)));
  }
  if (!status.ok()) unlink(aside.c_str());
  return status;
}

}  // namespace deepslice
