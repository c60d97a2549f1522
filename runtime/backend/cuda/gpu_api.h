// libcuda, cuBLASLt and NCCL as tables of functions, opened when a run wants
// them: the same program runs on machines that lack them.
#ifndef DEEPSLICE_RUNTIME_BACKEND_CUDA_GPU_API_H_
#define DEEPSLICE_RUNTIME_BACKEND_CUDA_GPU_API_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/backend/cuda/gpu_types.h"

namespace deepslice {

// X(member, exported symbol, parameters): the driver's functions, all returning
// CudaResult. Symbols with a version are the ones that cuda.h's names stand
// for.
#define DS_CUDA_FUNCTIONS(X)                                                  \
  X(Init, cuInit, (unsigned))                                                 \
  X(DriverGetVersion, cuDriverGetVersion, (int*))                             \
  X(GetErrorName, cuGetErrorName, (CudaResult, const char**))                 \
  X(GetErrorString, cuGetErrorString, (CudaResult, const char**))             \
  X(DeviceGetCount, cuDeviceGetCount, (int*))                                 \
  X(DeviceGet, cuDeviceGet, (CUdevice*, int))                                 \
  X(DeviceGetName, cuDeviceGetName, (char*, int, CUdevice))                   \
  X(DeviceGetUuid, cuDeviceGetUuid_v2, (CudaUuid*, CUdevice))                 \
  X(DeviceGetAttribute, cuDeviceGetAttribute, (int*, int, CUdevice))          \
  X(DeviceTotalMem, cuDeviceTotalMem_v2, (size_t*, CUdevice))                 \
  X(DeviceCanAccessPeer, cuDeviceCanAccessPeer, (int*, CUdevice, CUdevice))   \
  X(DevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, (CUcontext*, CUdevice)) \
  X(DevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, (CUdevice))        \
  X(CtxSetCurrent, cuCtxSetCurrent, (CUcontext))                              \
  X(CtxSynchronize, cuCtxSynchronize, ())                                     \
  X(MemGetInfo, cuMemGetInfo_v2, (size_t*, size_t*))                          \
  X(MemAlloc, cuMemAlloc_v2, (CUdeviceptr*, size_t))                          \
  X(MemFree, cuMemFree_v2, (CUdeviceptr))                                     \
  X(MemHostAlloc, cuMemHostAlloc, (void**, size_t, unsigned))                 \
  X(MemFreeHost, cuMemFreeHost, (void*))                                      \
  X(MemHostGetDevicePointer, cuMemHostGetDevicePointer_v2,                    \
    (CUdeviceptr*, void*, unsigned))                                          \
  X(MemcpyHtoDAsync, cuMemcpyHtoDAsync_v2,                                    \
    (CUdeviceptr, const void*, size_t, CUstream))                             \
  X(MemcpyDtoHAsync, cuMemcpyDtoHAsync_v2,                                    \
    (void*, CUdeviceptr, size_t, CUstream))                                   \
  X(MemcpyDtoDAsync, cuMemcpyDtoDAsync_v2,                                    \
    (CUdeviceptr, CUdeviceptr, size_t, CUstream))                             \
  X(MemsetD8Async, cuMemsetD8Async,                                           \
    (CUdeviceptr, unsigned char, size_t, CUstream))                           \
  X(MemsetD32Async, cuMemsetD32Async,                                         \
    (CUdeviceptr, unsigned, size_t, CUstream))                                \
  X(StreamCreate, cuStreamCreate, (CUstream*, unsigned))                      \
  X(StreamDestroy, cuStreamDestroy_v2, (CUstream))                            \
  X(StreamSynchronize, cuStreamSynchronize, (CUstream))                       \
  X(StreamQuery, cuStreamQuery, (CUstream))                                   \
  X(StreamWaitEvent, cuStreamWaitEvent, (CUstream, CUevent, unsigned))        \
  X(StreamIsCapturing, cuStreamIsCapturing, (CUstream, int*))                 \
  X(StreamBeginCapture, cuStreamBeginCapture_v2, (CUstream, int))             \
  X(StreamEndCapture, cuStreamEndCapture, (CUstream, CUgraph*))               \
  X(EventCreate, cuEventCreate, (CUevent*, unsigned))                         \
  X(EventDestroy, cuEventDestroy_v2, (CUevent))                               \
  X(EventRecord, cuEventRecord, (CUevent, CUstream))                          \
  X(EventSynchronize, cuEventSynchronize, (CUevent))                          \
  X(EventQuery, cuEventQuery, (CUevent))                                      \
  X(EventElapsedTime, cuEventElapsedTime, (float*, CUevent, CUevent))         \
  X(ModuleLoadData, cuModuleLoadData, (CUmodule*, const void*))               \
  X(ModuleUnload, cuModuleUnload, (CUmodule))                                 \
  X(ModuleGetFunction, cuModuleGetFunction,                                   \
    (CUfunction*, CUmodule, const char*))                                     \
  X(FuncLoad, cuFuncLoad, (CUfunction))                                       \
  X(FuncSetAttribute, cuFuncSetAttribute, (CUfunction, int, int))             \
  X(FuncGetAttribute, cuFuncGetAttribute, (int*, int, CUfunction))            \
  X(LaunchKernelEx, cuLaunchKernelEx,                                         \
    (const CudaLaunchConfig*, CUfunction, void**, void**))                    \
  X(GraphInstantiate, cuGraphInstantiateWithFlags,                            \
    (CUgraphExec*, CUgraph, unsigned long long))                              \
  X(GraphUpload, cuGraphUpload, (CUgraphExec, CUstream))                      \
  X(GraphLaunch, cuGraphLaunch, (CUgraphExec, CUstream))                      \
  X(GraphExecDestroy, cuGraphExecDestroy, (CUgraphExec))                      \
  X(GraphDestroy, cuGraphDestroy, (CUgraph))                                  \
  X(IpcGetMemHandle, cuIpcGetMemHandle, (CudaIpcMemHandle*, CUdeviceptr))     \
  X(IpcOpenMemHandle, cuIpcOpenMemHandle_v2,                                  \
    (CUdeviceptr*, CudaIpcMemHandle, unsigned))                               \
  X(IpcCloseMemHandle, cuIpcCloseMemHandle, (CUdeviceptr))

struct CudaApi {
#define DS_MEMBER(name, symbol, params) CudaResult(*name) params = nullptr;
  DS_CUDA_FUNCTIONS(DS_MEMBER)
#undef DS_MEMBER
};

// X(member, symbol, result, parameters).
#define DS_CUBLASLT_FUNCTIONS(X)                                              \
  X(GetVersion, cublasLtGetVersion, size_t, ())                               \
  X(GetStatusName, cublasLtGetStatusName, const char*, (CublasStatus))        \
  X(Create, cublasLtCreate, CublasStatus, (CublasLtHandle*))                  \
  X(Destroy, cublasLtDestroy, CublasStatus, (CublasLtHandle))                 \
  X(MatmulDescCreate, cublasLtMatmulDescCreate, CublasStatus,                 \
    (CublasLtDesc*, int compute, int scale))                                  \
  X(MatmulDescDestroy, cublasLtMatmulDescDestroy, CublasStatus,               \
    (CublasLtDesc))                                                           \
  X(MatmulDescSetAttribute, cublasLtMatmulDescSetAttribute, CublasStatus,     \
    (CublasLtDesc, int, const void*, size_t))                                 \
  X(MatrixLayoutCreate, cublasLtMatrixLayoutCreate, CublasStatus,             \
    (CublasLtLayout*, int type, uint64_t rows, uint64_t cols, int64_t ld))    \
  X(MatrixLayoutDestroy, cublasLtMatrixLayoutDestroy, CublasStatus,           \
    (CublasLtLayout))                                                         \
  X(MatrixLayoutSetAttribute, cublasLtMatrixLayoutSetAttribute, CublasStatus, \
    (CublasLtLayout, int, const void*, size_t))                               \
  X(MatmulPreferenceCreate, cublasLtMatmulPreferenceCreate, CublasStatus,     \
    (CublasLtPreference*))                                                    \
  X(MatmulPreferenceDestroy, cublasLtMatmulPreferenceDestroy, CublasStatus,   \
    (CublasLtPreference))                                                     \
  X(MatmulPreferenceSetAttribute, cublasLtMatmulPreferenceSetAttribute,       \
    CublasStatus, (CublasLtPreference, int, const void*, size_t))             \
  X(MatmulAlgoGetHeuristic, cublasLtMatmulAlgoGetHeuristic, CublasStatus,     \
    (CublasLtHandle, CublasLtDesc, CublasLtLayout a, CublasLtLayout b,        \
     CublasLtLayout c, CublasLtLayout d, CublasLtPreference, int wanted,      \
     CublasLtHeuristic*, int* found))                                         \
  X(MatmulAlgoCheck, cublasLtMatmulAlgoCheck, CublasStatus,                   \
    (CublasLtHandle, CublasLtDesc, CublasLtLayout a, CublasLtLayout b,        \
     CublasLtLayout c, CublasLtLayout d, const CublasLtAlgo*,                 \
     CublasLtHeuristic*))                                                     \
  X(Matmul, cublasLtMatmul, CublasStatus,                                     \
    (CublasLtHandle, CublasLtDesc, const void* alpha, const void* a,          \
     CublasLtLayout, const void* b, CublasLtLayout, const void* beta,         \
     const void* c, CublasLtLayout, void* d, CublasLtLayout,                  \
     const CublasLtAlgo*, void* workspace, size_t workspace_bytes, CUstream))

struct CublasLtApi {
#define DS_MEMBER(name, symbol, result, params) result(*name) params = nullptr;
  DS_CUBLASLT_FUNCTIONS(DS_MEMBER)
#undef DS_MEMBER
};

#define DS_NCCL_FUNCTIONS(X)                                              \
  X(GetVersion, ncclGetVersion, NcclResult, (int*))                       \
  X(GetErrorString, ncclGetErrorString, const char*, (NcclResult))        \
  X(GetLastError, ncclGetLastError, const char*, (ncclComm_t))            \
  X(GetUniqueId, ncclGetUniqueId, NcclResult, (NcclUniqueId*))            \
  X(CommInitRankConfig, ncclCommInitRankConfig, NcclResult,               \
    (ncclComm_t*, int ranks, NcclUniqueId, int rank, NcclConfig*))        \
  X(CommGetAsyncError, ncclCommGetAsyncError, NcclResult,                 \
    (ncclComm_t, NcclResult*))                                            \
  X(CommFinalize, ncclCommFinalize, NcclResult, (ncclComm_t))             \
  X(CommDestroy, ncclCommDestroy, NcclResult, (ncclComm_t))               \
  X(CommAbort, ncclCommAbort, NcclResult, (ncclComm_t))                   \
  X(GroupStart, ncclGroupStart, NcclResult, ())                           \
  X(GroupEnd, ncclGroupEnd, NcclResult, ())                               \
  X(AllReduce, ncclAllReduce, NcclResult,                                 \
    (const void*, void*, size_t, int type, int op, ncclComm_t, CUstream)) \
  X(AllGather, ncclAllGather, NcclResult,                                 \
    (const void*, void*, size_t, int type, ncclComm_t, CUstream))         \
  X(Broadcast, ncclBroadcast, NcclResult,                                 \
    (const void*, void*, size_t, int type, int root, ncclComm_t, CUstream))

struct NcclApi {
#define DS_MEMBER(name, symbol, result, params) result(*name) params = nullptr;
  DS_NCCL_FUNCTIONS(DS_MEMBER)
#undef DS_MEMBER
};

// Each opens its library once, for the life of the process, and returns the
// same table or the same FailedPrecondition at every call: the library is
// missing, lacks a function, or (CUDA) is of a driver that can't run what this
// build's compiler makes. For any thread.
absl::StatusOr<const CudaApi*> LoadCuda();
absl::StatusOr<const CublasLtApi*> LoadCublasLt();
absl::StatusOr<const NcclApi*> LoadNccl();
// Whether there is a libcuda at all, fit or not.
bool IsDriverInstalled();

// How the three open theirs: the first of `names` that the system finds, else
// in /usr/local/cuda/lib64; then every symbol, into its place. `remedy` ends
// the error's line.
struct GpuSymbol {
  const char* name;
  void** place;
};
absl::Status OpenGpuLibrary(absl::Span<const char* const> names,
                            absl::Span<const GpuSymbol> symbols,
                            absl::string_view remedy);

// CUDA 13.0, driver 580: older ones run neither the cubins nor the PTX of
// compiler/jit's NVRTC.
inline constexpr int kOldestDriver = 13000;
// FailedPrecondition with both versions when `cuda`'s driver is older.
absl::Status CheckDriver(const CudaApi& cuda);

// What a run uses, tests put fakes in. Null: not there.
struct GpuApis {
  const CudaApi* cuda = nullptr;
  const CublasLtApi* cublaslt = nullptr;
};

// OK, or Internal with "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access
// was encountered"; ResourceExhausted for a lack of memory.
absl::Status CudaStatus(const CudaApi& cuda, CudaResult result);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_BACKEND_CUDA_GPU_API_H_
