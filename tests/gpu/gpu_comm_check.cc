// Compares what ranks do over device memory, by NCCL and by the one-shot
// kernel, with sums on the host, and times it.
//
//   gpu_comm_check [--world=2] [--share-gpu] [--target=sm_90a] [--cache=DIR]
//                  [--time]
//
// Starts a process a rank. Prints a line for each case that fails and a last
// one with the counts; exits 1 when one failed.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "compiler/jit/jit.h"
#include "compiler/target.h"
#include "kernels/cuda/service.h"
#include "runtime/comm/nccl/nccl_comm.h"
#include "runtime/comm/nccl/nccl_environment.h"
#include "runtime/comm/nccl/one_shot.h"
#include "runtime/comm/shm.h"
#include "runtime/spawn.h"
#include "schema/base/exit_code.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16};
// Elements: odd ones, ends of blocks, and beyond what one-shot takes.
constexpr int64_t kCounts[] = {1,    2,    3,     5,     64,     513,
                               4096, 8191, 32769, 65536, 131073, 300000};
constexpr int64_t kMostElements = 300000;

struct Options {
  int world = 2;
  bool share_gpu = false, time = false;
  std::string target = "sm_90a", cache;
};

float Round(DType t, float x) {
  if (t == DType::kF16) return F16ToFloat(FloatToF16(x));
  if (t == DType::kBF16) return BF16ToFloat(FloatToBF16(x));
  return x;
}
void Store(DType t, float x, char* at, int64_t i) {
  const uint16_t half = t == DType::kF16 ? FloatToF16(x) : FloatToBF16(x);
  if (t == DType::kF32) {
    std::memcpy(at + 4 * i, &x, 4);
  } else {
    std::memcpy(at + 2 * i, &half, 2);
  }
}
float Fetch(DType t, const char* at, int64_t i) {
  float x;
  uint16_t half;
  if (t == DType::kF32) {
    std::memcpy(&x, at + 4 * i, 4);
    return x;
  }
  std::memcpy(&half, at + 2 * i, 2);
  return t == DType::kF16 ? F16ToFloat(half) : BF16ToFloat(half);
}

// What every rank gives: the same numbers in all, so that each knows the sum.
std::vector<float> Values(DType t, int64_t count, int rank, int seed) {
  std::mt19937 random(seed * 1000 + rank);
  std::uniform_real_distribution<float> numbers(-2, 2);
  std::vector<float> out(count);
  for (float& x : out) x = Round(t, numbers(random));
  return out;
}

class RankCheck {
 public:
  RankCheck(const Options& options, Comm* host)
      : options_(options), host_(*host) {}

  absl::Status Open();
  absl::Status Run();
  absl::Status Time();
  int passed = 0, failed = 0;

 private:
  absl::Status Cuda(CudaResult r, absl::string_view what) {
    return Annotate(CudaStatus(*cuda_, r), what);
  }
  absl::StatusOr<OneShotKernels> CompileKernels();
  absl::Status Upload(CUdeviceptr to, const std::vector<char>& bytes) {
    return Cuda(cuda_->MemcpyHtoDAsync(to, bytes.data(), bytes.size(), stream_),
                "upload");
  }
  absl::StatusOr<std::vector<char>> Download(CUdeviceptr from, int64_t bytes);
  absl::Status Wait(DeviceComm& comm);
  void Say(bool good, const std::string& what) {
    ++(good ? passed : failed);
    if (!good) {
      std::printf("FAILED rank %d: %s\n", host_.rank(), what.c_str());
      std::fflush(stdout);
    }
  }
  absl::Status CheckSums(DeviceComm& comm, const std::string& name, bool exact);
  absl::Status CheckMoves(DeviceComm& comm, const std::string& name);
  absl::Status CheckGraph(DeviceComm& comm, const std::string& name);

  const Options& options_;
  Comm& host_;
  const CudaApi* cuda_ = nullptr;
  CUstream stream_ = nullptr;
  CUdeviceptr in_ = 0, out_ = 0;
  std::unique_ptr<DeviceComm> nccl_, one_shot_;
};

absl::StatusOr<OneShotKernels> RankCheck::CompileKernels() {
  DS_ASSIGN_OR_RETURN(const CompileTarget target, ParseTarget(options_.target));
  std::vector<KernelSpec> specs;
  for (const KernelSpec& k : ServiceKernels(target.gpu)) {
    if (absl::StartsWith(k.label, "all_reduce_one_shot")) specs.push_back(k);
  }
  DS_ASSIGN_OR_RETURN(
      const auto compiler,
      KernelCompiler::Open(JitOptions{.cache_dir = options_.cache}));
  DS_ASSIGN_OR_RETURN(const std::vector<CompiledKernel> compiled,
                      compiler->CompileAll(specs, target.gpu));
  OneShotKernels out;
  for (size_t i = 0; i < specs.size(); ++i) {
    CUmodule module;
    DS_RETURN_IF_ERROR(
        Cuda(cuda_->ModuleLoadData(&module, compiled[i].image.data()),
             specs[i].label));
    CUfunction* place = absl::EndsWith(specs[i].label, " f32")   ? &out.f32
                        : absl::EndsWith(specs[i].label, " f16") ? &out.f16
                                                                 : &out.bf16;
    DS_RETURN_IF_ERROR(
        Cuda(cuda_->ModuleGetFunction(place, module, compiled[i].entry.c_str()),
             specs[i].label));
  }
  return out;
}

absl::Status RankCheck::Open() {
  DS_ASSIGN_OR_RETURN(cuda_, LoadCuda());
  DS_RETURN_IF_ERROR(Cuda(cuda_->Init(0), "cuInit"));
  CUdevice device;
  DS_RETURN_IF_ERROR(
      Cuda(cuda_->DeviceGet(&device, options_.share_gpu ? 0 : host_.rank()),
           "cuDeviceGet"));
  CUcontext context;
  DS_RETURN_IF_ERROR(
      Cuda(cuda_->DevicePrimaryCtxRetain(&context, device), "context"));
  DS_RETURN_IF_ERROR(Cuda(cuda_->CtxSetCurrent(context), "context"));
  DS_RETURN_IF_ERROR(
      Cuda(cuda_->StreamCreate(&stream_, kStreamNonBlocking), "stream"));
  const size_t bytes = kMostElements * 4 * (host_.size() + 1);
  DS_RETURN_IF_ERROR(Cuda(cuda_->MemAlloc(&in_, bytes), "memory"));
  DS_RETURN_IF_ERROR(Cuda(cuda_->MemAlloc(&out_, bytes), "memory"));
  DS_ASSIGN_OR_RETURN(const OneShotKernels kernels, CompileKernels());
  DS_ASSIGN_OR_RETURN(const NcclApi* nccl, LoadNccl());
  DS_ASSIGN_OR_RETURN(nccl_, ConnectNccl(*nccl, &host_));
  DS_ASSIGN_OR_RETURN(auto inner, ConnectNccl(*nccl, &host_));
  DS_ASSIGN_OR_RETURN(
      one_shot_,
      AddOneShot(std::move(inner), *cuda_, kernels, &host_,
                 {.programmatic = absl::StartsWith(options_.target, "sm_9")}));
  if (one_shot_->device_bytes() == 0) {
    return absl::FailedPreconditionError(
        "the ranks can't map each other's memory");
  }
  return absl::OkStatus();
}

absl::Status RankCheck::Wait(DeviceComm& comm) {
  const absl::Time until = absl::Now() + absl::Seconds(60);
  for (;;) {
    const CudaResult r = cuda_->StreamQuery(stream_);
    if (r != kCudaNotReady) return Cuda(r, "stream");
    DS_RETURN_IF_ERROR(comm.Check());
    if (absl::Now() > until) {
      return absl::DeadlineExceededError("the stream does not end");
    }
    absl::SleepFor(absl::Microseconds(50));
  }
}

absl::StatusOr<std::vector<char>> RankCheck::Download(CUdeviceptr from,
                                                      int64_t bytes) {
  std::vector<char> out(bytes);
  DS_RETURN_IF_ERROR(Cuda(
      cuda_->MemcpyDtoHAsync(out.data(), from, bytes, stream_), "download"));
  DS_RETURN_IF_ERROR(Cuda(cuda_->StreamSynchronize(stream_), "download"));
  return out;
}

absl::Status RankCheck::CheckSums(DeviceComm& comm, const std::string& name,
                                  bool exact) {
  int seed = 1;
  for (const DType t : kTypes) {
    for (const int64_t count : kCounts) {
      ++seed;
      const int64_t bytes = count * DTypeSize(t);
      std::vector<char> mine(bytes);
      std::vector<float> sum(count, 0.0f);
      std::vector<double> size(count, 0.0);
      for (int r = 0; r < host_.size(); ++r) {
        const std::vector<float> v = Values(t, count, r, seed);
        for (int64_t i = 0; i < count; ++i) {
          sum[i] += v[i];
          size[i] += std::abs(v[i]);
          if (r == host_.rank()) Store(t, v[i], mine.data(), i);
        }
      }
      DS_RETURN_IF_ERROR(Upload(in_, mine));
      // In place for every other count.
      const CUdeviceptr to = seed % 2 == 0 ? in_ : out_;
      DS_RETURN_IF_ERROR(comm.AllReduceSum(reinterpret_cast<void*>(in_),
                                           reinterpret_cast<void*>(to), count,
                                           t, stream_));
      DS_RETURN_IF_ERROR(Wait(comm));
      DS_ASSIGN_OR_RETURN(const std::vector<char> got, Download(to, bytes));
      const bool small = exact && bytes <= OneShotBytes(host_.size());
      const double unit = t == DType::kF32   ? 0x1p-23
                          : t == DType::kF16 ? 0x1p-10
                                             : 0x1p-7;
      int64_t bad = -1;
      for (int64_t i = 0; i < count && bad < 0; ++i) {
        const float x = Fetch(t, got.data(), i);
        const bool good =
            small ? x == Round(t, sum[i])
                  : std::abs(x - sum[i]) <= host_.size() * unit * size[i];
        if (!good) bad = i;
      }
      Say(bad < 0,
          absl::StrFormat("%s: sum of %d %s: element %d is %.9g, wanted %.9g",
                          name, count, DTypeName(t), bad,
                          bad < 0 ? 0 : Fetch(t, got.data(), bad),
                          bad < 0 ? 0 : sum[bad]));
    }
  }
  return absl::OkStatus();
}

absl::Status RankCheck::CheckMoves(DeviceComm& comm, const std::string& name) {
  int seed = 500;
  for (const DType t : {DType::kBF16, DType::kI32, DType::kU8}) {
    for (const int64_t count : kCounts) {
      ++seed;
      const int64_t bytes = count * DTypeSize(t);
      const auto pattern = [&](int rank) {
        std::vector<char> v(bytes);
        std::mt19937 random(seed * 100 + rank);
        for (char& c : v) c = static_cast<char>(random());
        return v;
      };
      std::vector<char> want, root = pattern(0);
      for (int r = 0; r < host_.size(); ++r) {
        const std::vector<char> v = pattern(r);
        want.insert(want.end(), v.begin(), v.end());
      }
      DS_RETURN_IF_ERROR(Upload(in_, pattern(host_.rank())));
      DS_RETURN_IF_ERROR(comm.AllGather(reinterpret_cast<void*>(in_),
                                        reinterpret_cast<void*>(out_), count, t,
                                        stream_));
      DS_RETURN_IF_ERROR(
          comm.Broadcast(reinterpret_cast<void*>(in_), bytes, stream_));
      DS_RETURN_IF_ERROR(Wait(comm));
      DS_ASSIGN_OR_RETURN(const std::vector<char> all,
                          Download(out_, bytes * host_.size()));
      Say(all == want, absl::StrCat(name, ": gather of ", count, " ",
                                    DTypeName(t), " is wrong"));
      DS_ASSIGN_OR_RETURN(const std::vector<char> got, Download(in_, bytes));
      Say(got == root,
          absl::StrCat(name, ": broadcast of ", bytes, " bytes is wrong"));
    }
  }
  return absl::OkStatus();
}

// A chain of sums in a graph, launched again and again: in doubles its result
// is world ** (sums * launches) times the input.
absl::Status RankCheck::CheckGraph(DeviceComm& comm, const std::string& name) {
  constexpr int kSums = 3, kLaunches = 4;
  constexpr int64_t kCount = 5000;
  std::vector<char> mine(kCount * 4);
  for (int64_t i = 0; i < kCount; ++i) {
    Store(DType::kF32, static_cast<float>(i % 17), mine.data(), i);
  }
  DS_RETURN_IF_ERROR(Upload(in_, mine));
  // Once without: connections come up outside of the graph.
  DS_RETURN_IF_ERROR(
      comm.Broadcast(reinterpret_cast<void*>(in_), 4 * kCount, stream_));
  DS_RETURN_IF_ERROR(Wait(comm));
  DS_RETURN_IF_ERROR(
      Cuda(cuda_->StreamBeginCapture(stream_, kCaptureThreadLocal), "capture"));
  absl::Status recorded;
  for (int i = 0; i < kSums && recorded.ok(); ++i) {
    recorded = comm.AllReduceSum(reinterpret_cast<void*>(in_),
                                 reinterpret_cast<void*>(in_), kCount,
                                 DType::kF32, stream_);
  }
  CUgraph graph = nullptr;
  DS_RETURN_IF_ERROR(Cuda(cuda_->StreamEndCapture(stream_, &graph), "capture"));
  DS_RETURN_IF_ERROR(recorded);
  CUgraphExec exec = nullptr;
  DS_RETURN_IF_ERROR(
      Cuda(cuda_->GraphInstantiate(&exec, graph, 0), "instantiate"));
  for (int i = 0; i < kLaunches; ++i) {
    DS_RETURN_IF_ERROR(Cuda(cuda_->GraphLaunch(exec, stream_), "launch"));
  }
  DS_RETURN_IF_ERROR(Wait(comm));
  DS_ASSIGN_OR_RETURN(const std::vector<char> got, Download(in_, kCount * 4));
  double factor = 1;
  for (int i = 0; i < kSums * kLaunches; ++i) factor *= host_.size();
  int64_t bad = -1;
  for (int64_t i = 0; i < kCount && bad < 0; ++i) {
    // Powers of two and small integers: exact; else to rounding.
    const double want = factor * static_cast<double>(i % 17);
    if (std::abs(Fetch(DType::kF32, got.data(), i) - want) > 1e-5 * want) {
      bad = i;
    }
  }
  Say(bad < 0, absl::StrCat(name, ": graph of sums: element ", bad));
  cuda_->GraphExecDestroy(exec);
  cuda_->GraphDestroy(graph);
  return absl::OkStatus();
}

absl::Status RankCheck::Run() {
  for (const auto& [comm, name, exact] :
       {std::tuple<DeviceComm*, const char*, bool>{nccl_.get(), "nccl", false},
        {one_shot_.get(), "one-shot", true}}) {
    DS_RETURN_IF_ERROR(Annotate(CheckSums(*comm, name, exact), name, ", sums"));
    DS_RETURN_IF_ERROR(Annotate(CheckMoves(*comm, name), name, ", moves"));
    DS_RETURN_IF_ERROR(Annotate(CheckGraph(*comm, name), name, ", graph"));
  }
  return absl::OkStatus();
}

absl::Status RankCheck::Time() {
  constexpr int kCalls = 200;
  for (int64_t bytes = 1024; bytes <= OneShotBytes(host_.size()); bytes *= 2) {
    double us[2] = {};
    for (const int which : {0, 1}) {
      DeviceComm& comm = which == 0 ? *nccl_ : *one_shot_;
      for (int round = 0; round < 2; ++round) {  // the first warms up
        DS_RETURN_IF_ERROR(host_.Barrier());
        const absl::Time begin = absl::Now();
        for (int i = 0; i < (options_.share_gpu ? 5 : kCalls); ++i) {
          DS_RETURN_IF_ERROR(comm.AllReduceSum(
              reinterpret_cast<void*>(in_), reinterpret_cast<void*>(out_),
              bytes / 2, DType::kBF16, stream_));
        }
        DS_RETURN_IF_ERROR(Wait(comm));
        us[which] = absl::ToDoubleMicroseconds(absl::Now() - begin) /
                    (options_.share_gpu ? 5 : kCalls);
      }
    }
    if (host_.rank() == 0) {
      std::printf(
          "all-reduce of %7d bytes, %d ranks: NCCL %8.1f us, "
          "one-shot %8.1f us\n",
          static_cast<int>(bytes), host_.size(), us[0], us[1]);
    }
  }
  return absl::OkStatus();
}

int RunRank(const Options& options, const SpawnedRank& place) {
  SetNcclEnvironment(place.rank, options.share_gpu);
  const auto body = [&]() -> absl::Status {
    ShmOptions shm = {.rank = place.rank, .world = place.world};
    shm.sockets = place.sockets;
    DS_ASSIGN_OR_RETURN(const auto host, ConnectShm(shm));
    RankCheck check(options, host.get());
    absl::Status status = check.Open();
    if (status.ok()) status = check.Run();
    if (status.ok() && options.time) status = check.Time();
    if (!status.ok()) {
      host->Abort(status);
      return status;
    }
    float counts[2] = {static_cast<float>(check.passed),
                       static_cast<float>(check.failed)};
    DS_RETURN_IF_ERROR(host->AllReduceSum(counts, 2));
    if (place.rank == 0) {
      std::printf("%.0f passed, %.0f failed\n", counts[0], counts[1]);
    }
    return counts[1] == 0 ? absl::OkStatus()
                          : absl::InternalError("sums are wrong");
  };
  const absl::Status status = body();
  if (!status.ok()) ReportFailure(place.report_fd, status);
  return ExitCodeOf(status);
}

int Main(int argc, char** argv) {
  Options options;
  std::vector<std::string> arguments;
  std::optional<SpawnedRank> place;
  for (int i = 1; i < argc; ++i) {
    absl::string_view arg = argv[i];
    if (absl::ConsumePrefix(&arg, "--spawned=")) {
      auto parsed = SpawnedRank::FromFlag(arg);
      if (!parsed.ok()) return kExitUsage;
      place = *std::move(parsed);
      continue;
    }
    arguments.push_back(argv[i]);
    if (arg == "--share-gpu") {
      options.share_gpu = true;
    } else if (arg == "--time") {
      options.time = true;
    } else if (absl::ConsumePrefix(&arg, "--target=")) {
      options.target = std::string(arg);
    } else if (absl::ConsumePrefix(&arg, "--cache=")) {
      options.cache = std::string(arg);
    } else if (!absl::ConsumePrefix(&arg, "--world=") ||
               !absl::SimpleAtoi(arg, &options.world) || options.world < 2) {
      std::fprintf(stderr,
                   "usage: gpu_comm_check [--world=2] [--share-gpu] [--time]\n"
                   "         [--target=sm_90a] [--cache=DIR]\n");
      return kExitUsage;
    }
  }
  if (place.has_value()) return RunRank(options, *place);
  const auto end = RunRanks(arguments, options.world);
  const absl::Status why = end.ok() ? end->why : end.status();
  if (!why.ok()) {
    std::fprintf(stderr, "gpu_comm_check: %s\n", why.ToString().c_str());
  }
  return end.ok() ? end->exit_code : ExitCodeOf(why);
}

}  // namespace
}  // namespace deepslice

int main(int argc, char** argv) { return deepslice::Main(argc, argv); }
