// libcuda, cuBLASLt and NCCL in one shared library, for a whole dsrun without a
// card: device memory is host memory and holds zeros, kernels do nothing, and
// the environment says what is wrong. A test gives it the names of the
// libraries that are to be there, in a folder of LD_LIBRARY_PATH.
//
//   FAKE_CUDA_MEMORY=BYTES, FAKE_CUDA_DRIVER=13000, FAKE_CUDA_CC=9.0,
//   FAKE_CUDA_DEVICES=1
//   FAKE_CUDA_FAIL=LaunchKernelEx:700:5   the function returns 700 after 5
//   calls
//                                         (several with commas)
//   FAKE_CUDA_GRAPH_US=500                a graph takes so long
//   FAKE_NCCL_HANG=20    the stream never ends behind the 20th collective,
//   until
//                        its communicator is aborted
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <sstream>
#include <string>

#include "runtime/backend/cuda/gpu_api.h"
#include "runtime/testing/fake_gpu.h"

namespace deepslice {
namespace {

// What a kernel's image is: ELF for CUDA.
constexpr int kElfMachineOffset = 18, kElfMachineCuda = 190;

FakeGpu& Gpu();
std::atomic<int> collectives = 0;
std::atomic<bool> hanging = false;

int64_t EnvInt(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoll(text, nullptr, 10);
}

int Counted(const char* function) {
  const std::lock_guard<std::recursive_mutex> lock(Gpu().mutex);
  return Gpu().Enter(function);
}

CudaResult ModuleLoadData(CUmodule* out, const void* image) {
  if (const int failure = Counted("ModuleLoadData")) return failure;
  const auto* bytes = static_cast<const unsigned char*>(image);
  if (std::memcmp(bytes, "\177ELF", 4) != 0 ||
      bytes[kElfMachineOffset] != kElfMachineCuda) {
    return kCudaInvalidImage;
  }
  *out = reinterpret_cast<CUmodule>(1);
  return kCudaSuccess;
}
CudaResult ModuleUnload(CUmodule) { return kCudaSuccess; }
CudaResult ModuleGetFunction(CUfunction* out, CUmodule, const char*) {
  if (const int failure = Counted("ModuleGetFunction")) return failure;
  *out = reinterpret_cast<CUfunction>(1);
  return kCudaSuccess;
}
CudaResult LaunchKernelEx(const CudaLaunchConfig*, CUfunction, void**, void**) {
  return Counted("LaunchKernelEx");
}
CudaResult (*real_alloc)(CUdeviceptr*, size_t);
CudaResult MemAlloc(CUdeviceptr* out, size_t bytes) {
  const CudaResult result = real_alloc(out, bytes);
  if (result == kCudaSuccess) {
    std::memset(reinterpret_cast<void*>(*out), 0, bytes);
  }
  return result;
}
CudaResult (*real_host_alloc)(void**, size_t, unsigned);
CudaResult MemHostAlloc(void** out, size_t bytes, unsigned flags) {
  const CudaResult result = real_host_alloc(out, bytes, flags);
  if (result == kCudaSuccess) std::memset(*out, 0, bytes);
  return result;
}
CudaResult (*real_graph_launch)(CUgraphExec, CUstream);
CudaResult GraphLaunch(CUgraphExec graph, CUstream stream) {
  usleep(static_cast<useconds_t>(EnvInt("FAKE_CUDA_GRAPH_US", 0)));
  return real_graph_launch(graph, stream);
}
CudaResult EventElapsedTime(float* milliseconds, CUevent, CUevent) {
  *milliseconds = 1;
  return Counted("EventElapsedTime");
}
CudaResult StreamQuery(CUstream) {
  if (const int failure = Counted("StreamQuery")) return failure;
  return hanging ? kCudaNotReady : kCudaSuccess;
}
CudaResult EventQuery(CUevent) {
  if (const int failure = Counted("EventQuery")) return failure;
  return hanging ? kCudaNotReady : kCudaSuccess;
}

FakeGpu* MakeGpu() {
  auto* gpu = new FakeGpu;
  gpu->driver = static_cast<int>(EnvInt("FAKE_CUDA_DRIVER", 13000));
  gpu->device_count = static_cast<int>(EnvInt("FAKE_CUDA_DEVICES", 1));
  gpu->memory_bytes = EnvInt("FAKE_CUDA_MEMORY", gpu->memory_bytes);
  if (const char* text = std::getenv("FAKE_CUDA_CC")) {
    gpu->major = text[0] - '0';
    gpu->minor = text[2] - '0';
  }
  const char* failures = std::getenv("FAKE_CUDA_FAIL");
  std::istringstream each(failures == nullptr ? "" : failures);
  for (std::string one; std::getline(each, one, ',');) {
    std::istringstream parts(one);
    std::string function;
    int result = 0, good = 0;
    char colon;
    std::getline(parts, function, ':');
    parts >> result >> colon >> good;
    gpu->Fail(function, result, good);
  }
  return gpu;
}
FakeGpu& Gpu() {
  static FakeGpu* gpu = MakeGpu();
  return *gpu;
}

const CudaApi& Cuda() {
  static const CudaApi* api = [] {
    auto* a = new CudaApi(*Gpu().apis().cuda);
    real_alloc = a->MemAlloc;
    real_host_alloc = a->MemHostAlloc;
    real_graph_launch = a->GraphLaunch;
    a->GraphLaunch = GraphLaunch;
    a->EventElapsedTime = EventElapsedTime;
    a->MemAlloc = MemAlloc;
    a->MemHostAlloc = MemHostAlloc;
    a->ModuleLoadData = ModuleLoadData;
    a->ModuleUnload = ModuleUnload;
    a->ModuleGetFunction = ModuleGetFunction;
    a->LaunchKernelEx = LaunchKernelEx;
    a->StreamQuery = StreamQuery;
    a->EventQuery = EventQuery;
    return a;
  }();
  return *api;
}
// A product of real size would take the host minutes.
CublasStatus Matmul(CublasLtHandle, CublasLtDesc, const void*, const void*,
                    CublasLtLayout, const void*, CublasLtLayout, const void*,
                    const void*, CublasLtLayout, void*, CublasLtLayout,
                    const CublasLtAlgo*, void*, size_t, CUstream) {
  return Counted("Matmul");
}
const CublasLtApi& CublasLt() {
  static const CublasLtApi* api = [] {
    auto* a = new CublasLtApi(*Gpu().apis().cublaslt);
    a->Matmul = Matmul;
    return a;
  }();
  return *api;
}

// ---- NCCL: ranks that are always there and send nothing
// ------------------------

NcclResult Collective() {
  const int64_t limit = EnvInt("FAKE_NCCL_HANG", 0);
  if (limit > 0 && ++collectives == limit) hanging = true;
  return kNcclSuccess;
}

const NcclApi& Nccl() {
  static const NcclApi* api = [] {
    auto* a = new NcclApi;
    a->GetVersion = [](int* v) {
      *v = 22800;
      return kNcclSuccess;
    };
    a->GetErrorString = [](NcclResult) { return "fake error"; };
    a->GetLastError = [](ncclComm_t) { return ""; };
    a->GetUniqueId = [](NcclUniqueId*) { return kNcclSuccess; };
    a->CommInitRankConfig = [](ncclComm_t* comm, int, NcclUniqueId, int,
                               NcclConfig*) {
      *comm = reinterpret_cast<ncclComm_t>(1);
      return kNcclSuccess;
    };
    a->CommGetAsyncError = [](ncclComm_t, NcclResult* state) {
      *state = kNcclSuccess;
      return kNcclSuccess;
    };
    a->CommFinalize = [](ncclComm_t) { return kNcclSuccess; };
    a->CommDestroy = [](ncclComm_t) { return kNcclSuccess; };
    a->CommAbort = [](ncclComm_t) {
      hanging = false;
      return kNcclSuccess;
    };
    a->GroupStart = [] { return kNcclSuccess; };
    a->GroupEnd = [] { return kNcclSuccess; };
    a->AllReduce = [](const void*, void*, size_t, int, int, ncclComm_t,
                      CUstream) { return Collective(); };
    a->AllGather = [](const void*, void*, size_t, int, ncclComm_t, CUstream) {
      return Collective();
    };
    a->Broadcast = [](const void*, void*, size_t, int, int, ncclComm_t,
                      CUstream) { return Collective(); };
    return a;
  }();
  return *api;
}

}  // namespace

// Each symbol is resolved, when it is looked up, to the member of its table.
#define DS_EXPORT(Api, table, name, symbol, result, params)                 \
  extern "C" __attribute__((used)) decltype(Api::name) Resolve_##symbol() { \
    return table().name;                                                    \
  }                                                                         \
  extern "C" result symbol params                                           \
      __attribute__((visibility("default"), ifunc("Resolve_" #symbol)));
#define DS_EXPORT_CUDA(name, symbol, params) \
  DS_EXPORT(CudaApi, Cuda, name, symbol, CudaResult, params)
#define DS_EXPORT_CUBLASLT(name, symbol, result, params) \
  DS_EXPORT(CublasLtApi, CublasLt, name, symbol, result, params)
#define DS_EXPORT_NCCL(name, symbol, result, params) \
  DS_EXPORT(NcclApi, Nccl, name, symbol, result, params)

DS_CUDA_FUNCTIONS(DS_EXPORT_CUDA)
DS_CUBLASLT_FUNCTIONS(DS_EXPORT_CUBLASLT)
DS_NCCL_FUNCTIONS(DS_EXPORT_NCCL)

}  // namespace deepslice
