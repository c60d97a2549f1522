#include "runtime/testing/fake_gpu.h"

#include <cstdlib>
#include <cstring>
#include <sstream>

#include "schema/base/check.h"

namespace deepslice {
namespace {

constexpr char kImageMagic[] = "FAKEIMAGE";
constexpr int kInvalidContext = 201, kInvalidHandle = 400;
// What fresh device memory holds, so that a missing memset shows.
constexpr int kFreshByte = 0xa5;

FakeGpu* g_fake = nullptr;
thread_local bool t_current = false;  // whether this thread has the context

struct Function {
  std::string entry;
  std::vector<int> params;
};
struct Module {
  std::map<std::string, Function> functions;
};
struct Event {
  double ms = -1;  // when it was recorded
};

FakeGpu::Stream* Of(CUstream s) {
  return reinterpret_cast<FakeGpu::Stream*>(s);
}
FakeGpu::Graph* Of(CUgraph g) { return reinterpret_cast<FakeGpu::Graph*>(g); }
FakeGpu::Graph* Of(CUgraphExec g) {
  return reinterpret_cast<FakeGpu::Graph*>(g);
}
void* Pointer(CUdeviceptr p) { return reinterpret_cast<void*>(p); }

// Every call takes the lock, may be told to fail, and but for the first ones
// needs a context.
#define DS_ENTER(name)                                       \
  FakeGpu& f = *g_fake;                                      \
  const std::lock_guard<std::recursive_mutex> lock(f.mutex); \
  if (const int failure = f.Enter(name); failure != 0) return failure
#define DS_ENTER_CONTEXT(name) \
  DS_ENTER(name);              \
  if (!t_current) return kInvalidContext

int Init(unsigned) {
  DS_ENTER("Init");
  return f.device_count == 0 ? kCudaNoDevice : 0;
}
int DriverGetVersion(int* out) {
  DS_ENTER("DriverGetVersion");
  *out = f.driver;
  return 0;
}
int GetErrorName(int error, const char** out) {
  *out = error == kCudaOutOfMemory      ? "CUDA_ERROR_OUT_OF_MEMORY"
         : error == kCudaIllegalAddress ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                                        : "CUDA_ERROR_FAKE";
  return 0;
}
int GetErrorString(int error, const char** out) {
  *out = error == kCudaOutOfMemory ? "out of memory"
         : error == kCudaIllegalAddress
             ? "an illegal memory access was encountered"
             : "fake error";
  return 0;
}
int DeviceGetCount(int* out) {
  DS_ENTER("DeviceGetCount");
  if (f.device_count == 0) return kCudaNoDevice;
  *out = f.device_count;
  return 0;
}
int DeviceGet(CUdevice* out, int ordinal) {
  DS_ENTER("DeviceGet");
  *out = ordinal;
  return ordinal < f.device_count ? 0 : kCudaInvalidDevice;
}
int DeviceGetName(char* out, int length, CUdevice) {
  DS_ENTER("DeviceGetName");
  std::strncpy(out, f.name.c_str(), length);
  return 0;
}
int DeviceGetUuid(CudaUuid* out, CUdevice device) {
  DS_ENTER("DeviceGetUuid");
  std::memset(out, device, sizeof(*out));
  return 0;
}
int DeviceGetAttribute(int* out, int which, CUdevice) {
  DS_ENTER("DeviceGetAttribute");
  switch (which) {
    case kDeviceMajor:
      *out = f.major;
      return 0;
    case kDeviceMinor:
      *out = f.minor;
      return 0;
    case kDeviceMultiprocessors:
      *out = f.multiprocessors;
      return 0;
    case kDeviceSharedBytesOptin:
      *out = 227 << 10;
      return 0;
    default:
      *out = 0;
      return 0;
  }
}
int DeviceTotalMem(size_t* out, CUdevice) {
  DS_ENTER("DeviceTotalMem");
  *out = f.memory_bytes;
  return 0;
}
int DeviceCanAccessPeer(int* out, CUdevice, CUdevice) {
  DS_ENTER("DeviceCanAccessPeer");
  *out = 1;
  return 0;
}
int CtxRetain(CUcontext* out, CUdevice device) {
  DS_ENTER("DevicePrimaryCtxRetain");
  ++f.contexts;
  *out = reinterpret_cast<CUcontext>(uintptr_t{1} + device);
  return 0;
}
int CtxRelease(CUdevice) {
  DS_ENTER("DevicePrimaryCtxRelease");
  --f.contexts;
  return 0;
}
int CtxSetCurrent(CUcontext context) {
  DS_ENTER("CtxSetCurrent");
  t_current = context != nullptr;
  return 0;
}
int CtxSynchronize() {
  DS_ENTER_CONTEXT("CtxSynchronize");
  return 0;
}
int MemGetInfo(size_t* free, size_t* total) {
  DS_ENTER_CONTEXT("MemGetInfo");
  *total = f.memory_bytes;
  *free = f.memory_bytes - f.allocated();
  return 0;
}
int MemAlloc(CUdeviceptr* out, size_t bytes) {
  DS_ENTER_CONTEXT("MemAlloc");
  if (bytes == 0) return kCudaInvalidValue;
  if (static_cast<int64_t>(bytes) > f.memory_bytes - f.allocated()) {
    return kCudaOutOfMemory;
  }
  void* p = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  std::memset(p, kFreshByte, bytes);
  *out = reinterpret_cast<CUdeviceptr>(p);
  f.memory[*out] = bytes;
  return 0;
}
int MemFree(CUdeviceptr p) {
  DS_ENTER("MemFree");
  if (f.memory.erase(p) == 0) return kCudaInvalidValue;
  std::free(Pointer(p));
  return 0;
}
int MemHostAlloc(void** out, size_t bytes, unsigned) {
  DS_ENTER_CONTEXT("MemHostAlloc");
  *out = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  std::memset(*out, kFreshByte, bytes);
  return 0;
}
int MemFreeHost(void* p) {
  DS_ENTER("MemFreeHost");
  std::free(p);
  return 0;
}
int MemHostGetDevicePointer(CUdeviceptr* out, void* p, unsigned) {
  DS_ENTER_CONTEXT("MemHostGetDevicePointer");
  *out = reinterpret_cast<CUdeviceptr>(p);
  return 0;
}
int CopyToDevice(CUdeviceptr to, const void* from, size_t n, CUstream s) {
  DS_ENTER_CONTEXT("MemcpyHtoDAsync");
  if (!f.Owns(to, n)) return kCudaInvalidValue;
  f.Do(s, [=] { std::memcpy(Pointer(to), from, n); });
  return 0;
}
int CopyToHost(void* to, CUdeviceptr from, size_t n, CUstream s) {
  DS_ENTER_CONTEXT("MemcpyDtoHAsync");
  if (!f.Owns(from, n)) return kCudaInvalidValue;
  f.Do(s, [=] { std::memcpy(to, Pointer(from), n); });
  return 0;
}
int CopyOnDevice(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s) {
  DS_ENTER_CONTEXT("MemcpyDtoDAsync");
  if (!f.Owns(from, n) || !f.Owns(to, n)) return kCudaInvalidValue;
  // Overlapping copies are undefined.
  if (from < to + n && to < from + n) return kCudaInvalidValue;
  f.Do(s, [=] { std::memcpy(Pointer(to), Pointer(from), n); });
  return 0;
}
int MemsetD8(CUdeviceptr p, unsigned char value, size_t n, CUstream s) {
  DS_ENTER_CONTEXT("MemsetD8Async");
  if (!f.Owns(p, n)) return kCudaInvalidValue;
  f.Do(s, [=] { std::memset(Pointer(p), value, n); });
  return 0;
}
int MemsetD32(CUdeviceptr p, unsigned value, size_t n, CUstream s) {
  DS_ENTER_CONTEXT("MemsetD32Async");
  if (!f.Owns(p, 4 * n)) return kCudaInvalidValue;
  f.Do(s, [=] {
    for (size_t i = 0; i < n; ++i)
      static_cast<unsigned*>(Pointer(p))[i] = value;
  });
  return 0;
}
int StreamCreate(CUstream* out, unsigned) {
  DS_ENTER_CONTEXT("StreamCreate");
  *out = reinterpret_cast<CUstream>(new FakeGpu::Stream);
  return 0;
}
int StreamDestroy(CUstream s) {
  DS_ENTER("StreamDestroy");
  delete Of(s);
  return 0;
}
int StreamSynchronize(CUstream s) {
  DS_ENTER_CONTEXT("StreamSynchronize");
  return Of(s)->capture != nullptr ? kCudaInvalidValue : 0;
}
int StreamQuery(CUstream) {
  DS_ENTER_CONTEXT("StreamQuery");
  return 0;
}
int StreamWaitEvent(CUstream, CUevent, unsigned) {
  DS_ENTER_CONTEXT("StreamWaitEvent");
  return 0;
}
int StreamIsCapturing(CUstream s, int* out) {
  DS_ENTER_CONTEXT("StreamIsCapturing");
  *out = Of(s)->capture != nullptr ? kCaptureStatusActive : kCaptureStatusNone;
  return 0;
}
int StreamBeginCapture(CUstream s, int) {
  DS_ENTER_CONTEXT("StreamBeginCapture");
  if (Of(s)->capture != nullptr) return kInvalidHandle;
  Of(s)->capture = std::make_unique<FakeGpu::Graph>();
  return 0;
}
int StreamEndCapture(CUstream s, CUgraph* out) {
  DS_ENTER_CONTEXT("StreamEndCapture");
  if (Of(s)->capture == nullptr) return kInvalidHandle;
  *out = reinterpret_cast<CUgraph>(Of(s)->capture.release());
  return 0;
}
int EventCreate(CUevent* out, unsigned) {
  DS_ENTER_CONTEXT("EventCreate");
  *out = reinterpret_cast<CUevent>(new Event);
  return 0;
}
int EventDestroy(CUevent e) {
  DS_ENTER("EventDestroy");
  delete reinterpret_cast<Event*>(e);
  return 0;
}
int EventRecord(CUevent e, CUstream) {
  DS_ENTER_CONTEXT("EventRecord");
  reinterpret_cast<Event*>(e)->ms = f.clock_ms;
  return 0;
}
int EventSynchronize(CUevent) {
  DS_ENTER_CONTEXT("EventSynchronize");
  return 0;
}
int EventQuery(CUevent) {
  DS_ENTER_CONTEXT("EventQuery");
  return 0;
}
int EventElapsedTime(float* out, CUevent a, CUevent b) {
  DS_ENTER_CONTEXT("EventElapsedTime");
  *out = static_cast<float>(reinterpret_cast<Event*>(b)->ms -
                            reinterpret_cast<Event*>(a)->ms);
  return 0;
}
int ModuleLoadData(CUmodule* out, const void* image) {
  DS_ENTER_CONTEXT("ModuleLoadData");
  std::istringstream in(static_cast<const char*>(image));
  std::string word;
  if (!(in >> word) || word != kImageMagic) return kCudaInvalidImage;
  auto module = std::make_unique<Module>();
  std::string entry;
  int params;
  while (in >> entry >> params) {
    Function& function = module->functions[entry];
    function.entry = entry;
    function.params.resize(params);
    for (int& bytes : function.params) in >> bytes;
  }
  *out = reinterpret_cast<CUmodule>(module.release());
  return 0;
}
int ModuleUnload(CUmodule m) {
  DS_ENTER("ModuleUnload");
  delete reinterpret_cast<Module*>(m);
  return 0;
}
int ModuleGetFunction(CUfunction* out, CUmodule m, const char* name) {
  DS_ENTER_CONTEXT("ModuleGetFunction");
  auto& functions = reinterpret_cast<Module*>(m)->functions;
  const auto found = functions.find(name);
  if (found == functions.end()) return kCudaNotFound;
  *out = reinterpret_cast<CUfunction>(&found->second);
  return 0;
}
int FuncLoad(CUfunction) {
  DS_ENTER_CONTEXT("FuncLoad");
  return 0;
}
int FuncSetAttribute(CUfunction, int, int) {
  DS_ENTER_CONTEXT("FuncSetAttribute");
  return 0;
}
int FuncGetAttribute(int* out, int, CUfunction) {
  DS_ENTER_CONTEXT("FuncGetAttribute");
  *out = 0;
  return 0;
}
int LaunchKernelEx(const CudaLaunchConfig* c, CUfunction function,
                   void** params, void**) {
  DS_ENTER_CONTEXT("LaunchKernelEx");
  const Function& kernel = *reinterpret_cast<Function*>(function);
  FakeLaunch launch;
  launch.entry = kernel.entry;
  launch.grid[0] = c->grid_x;
  launch.grid[1] = c->grid_y;
  launch.grid[2] = c->grid_z;
  launch.block[0] = c->block_x;
  launch.block[1] = c->block_y;
  launch.block[2] = c->block_z;
  for (const unsigned blocks : launch.grid) {
    if (blocks == 0) return kCudaInvalidValue;
  }
  launch.shared_bytes = c->shared_bytes;
  for (unsigned i = 0; i < c->num_attributes; ++i) {
    launch.programmatic |=
        c->attributes[i].id == kLaunchProgrammaticSerialization &&
        c->attributes[i].value.flag == 1;
  }
  for (size_t i = 0; i < kernel.params.size(); ++i) {
    uint64_t value = 0;
    std::memcpy(&value, params[i], kernel.params[i]);
    launch.params.push_back(value);
  }
  f.Do(c->stream, [launch] { g_fake->Run(launch, g_fake->running_graph); });
  return 0;
}
int GraphInstantiate(CUgraphExec* out, CUgraph graph, unsigned long long) {
  DS_ENTER_CONTEXT("GraphInstantiate");
  *out = reinterpret_cast<CUgraphExec>(new FakeGpu::Graph(*Of(graph)));
  return 0;
}
int GraphUpload(CUgraphExec, CUstream) {
  DS_ENTER_CONTEXT("GraphUpload");
  return 0;
}
int GraphLaunch(CUgraphExec graph, CUstream) {
  DS_ENTER_CONTEXT("GraphLaunch");
  ++f.graph_launches;
  f.running_graph = true;
  for (const auto& work : Of(graph)->work) work();
  f.running_graph = false;
  return 0;
}
int GraphExecDestroy(CUgraphExec graph) {
  DS_ENTER("GraphExecDestroy");
  delete Of(graph);
  return 0;
}
int GraphDestroy(CUgraph graph) {
  DS_ENTER("GraphDestroy");
  delete Of(graph);
  return 0;
}
int IpcGetMemHandle(CudaIpcMemHandle* out, CUdeviceptr p) {
  DS_ENTER_CONTEXT("IpcGetMemHandle");
  std::memset(out, 0, sizeof(*out));
  std::memcpy(out->reserved, &p, sizeof(p));
  return 0;
}
int IpcOpenMemHandle(CUdeviceptr* out, CudaIpcMemHandle handle, unsigned) {
  DS_ENTER_CONTEXT("IpcOpenMemHandle");
  std::memcpy(out, handle.reserved, sizeof(*out));
  return 0;
}
int IpcCloseMemHandle(CUdeviceptr) {
  DS_ENTER("IpcCloseMemHandle");
  return 0;
}

}  // namespace

CudaApi FakeCudaApi() {
  CudaApi api;
  api.Init = Init;
  api.DriverGetVersion = DriverGetVersion;
  api.GetErrorName = GetErrorName;
  api.GetErrorString = GetErrorString;
  api.DeviceGetCount = DeviceGetCount;
  api.DeviceGet = DeviceGet;
  api.DeviceGetName = DeviceGetName;
  api.DeviceGetUuid = DeviceGetUuid;
  api.DeviceGetAttribute = DeviceGetAttribute;
  api.DeviceTotalMem = DeviceTotalMem;
  api.DeviceCanAccessPeer = DeviceCanAccessPeer;
  api.DevicePrimaryCtxRetain = CtxRetain;
  api.DevicePrimaryCtxRelease = CtxRelease;
  api.CtxSetCurrent = CtxSetCurrent;
  api.CtxSynchronize = CtxSynchronize;
  api.MemGetInfo = MemGetInfo;
  api.MemAlloc = MemAlloc;
  api.MemFree = MemFree;
  api.MemHostAlloc = MemHostAlloc;
  api.MemFreeHost = MemFreeHost;
  api.MemHostGetDevicePointer = MemHostGetDevicePointer;
  api.MemcpyHtoDAsync = CopyToDevice;
  api.MemcpyDtoHAsync = CopyToHost;
  api.MemcpyDtoDAsync = CopyOnDevice;
  api.MemsetD8Async = MemsetD8;
  api.MemsetD32Async = MemsetD32;
  api.StreamCreate = StreamCreate;
  api.StreamDestroy = StreamDestroy;
  api.StreamSynchronize = StreamSynchronize;
  api.StreamQuery = StreamQuery;
  api.StreamWaitEvent = StreamWaitEvent;
  api.StreamIsCapturing = StreamIsCapturing;
  api.StreamBeginCapture = StreamBeginCapture;
  api.StreamEndCapture = StreamEndCapture;
  api.EventCreate = EventCreate;
  api.EventDestroy = EventDestroy;
  api.EventRecord = EventRecord;
  api.EventSynchronize = EventSynchronize;
  api.EventQuery = EventQuery;
  api.EventElapsedTime = EventElapsedTime;
  api.ModuleLoadData = ModuleLoadData;
  api.ModuleUnload = ModuleUnload;
  api.ModuleGetFunction = ModuleGetFunction;
  api.FuncLoad = FuncLoad;
  api.FuncSetAttribute = FuncSetAttribute;
  api.FuncGetAttribute = FuncGetAttribute;
  api.LaunchKernelEx = LaunchKernelEx;
  api.GraphInstantiate = GraphInstantiate;
  api.GraphUpload = GraphUpload;
  api.GraphLaunch = GraphLaunch;
  api.GraphExecDestroy = GraphExecDestroy;
  api.GraphDestroy = GraphDestroy;
  api.IpcGetMemHandle = IpcGetMemHandle;
  api.IpcOpenMemHandle = IpcOpenMemHandle;
  api.IpcCloseMemHandle = IpcCloseMemHandle;
#define DS_THERE(name, ...) DS_CHECK(api.name != nullptr);
  DS_CUDA_FUNCTIONS(DS_THERE)
#undef DS_THERE
  return api;
}

FakeGpu* CurrentFakeGpu() { return g_fake; }

FakeGpu::FakeGpu() : cuda_(FakeCudaApi()), cublaslt_(FakeCublasLtApi()) {
  DS_CHECK(g_fake == nullptr);
  g_fake = this;
}

FakeGpu::~FakeGpu() {
  for (const auto& [p, bytes] : memory) std::free(Pointer(p));
  g_fake = nullptr;
}

int FakeGpu::Enter(const char* function) {
  ++calls_[function];
  const auto failure = failures_.find(function);
  if (failure == failures_.end()) return 0;
  if (failure->second.good > 0) {
    --failure->second.good;
    return 0;
  }
  return failure->second.bad-- > 0 ? failure->second.result : 0;
}

void FakeGpu::Fail(const std::string& function, int result, int good, int bad) {
  failures_[function] = {result, good, bad};
}

int FakeGpu::calls(const std::string& function) const {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  const auto found = calls_.find(function);
  return found == calls_.end() ? 0 : found->second;
}

void FakeGpu::OnLaunch(const std::string& entry,
                       std::function<void(const FakeLaunch&)> kernel) {
  kernels_[entry] = std::move(kernel);
}

int64_t FakeGpu::allocated() const {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  int64_t bytes = 0;
  for (const auto& [p, size] : memory) bytes += static_cast<int64_t>(size);
  return bytes;
}

bool FakeGpu::Owns(CUdeviceptr p, size_t bytes) const {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  auto next = memory.upper_bound(p);
  if (next == memory.begin()) return false;
  const auto& [start, size] = *--next;
  return p + bytes <= start + size;
}

void FakeGpu::Do(CUstream stream, std::function<void()> work) {
  Stream* s = Of(stream);
  if (s != nullptr && s->capture != nullptr) {
    s->capture->work.push_back(std::move(work));
  } else {
    work();
  }
}

void FakeGpu::Run(FakeLaunch launch, bool in_graph) {
  launch.in_graph = in_graph;
  launches.push_back(launch);
  clock_ms += 0.25;
  const auto kernel = kernels_.find(launch.entry);
  if (kernel != kernels_.end()) kernel->second(launch);
}

std::string FakeImage(
    const std::vector<std::pair<std::string, std::vector<int>>>& entries) {
  std::ostringstream out;
  out << kImageMagic;
  for (const auto& [entry, params] : entries) {
    out << '\n' << entry << ' ' << params.size();
    for (const int bytes : params) out << ' ' << bytes;
  }
  out << '\n' << '\0';
  return out.str();
}

}  // namespace deepslice
