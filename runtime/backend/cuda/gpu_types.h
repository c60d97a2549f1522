// The parts of cuda.h, cublasLt.h and nccl.h that the runtime uses, declared
// here because no toolkit is needed to build it. gpu_types_test.cc compares
// them with the real headers where those exist.
#ifndef DEEPSLICE_RUNTIME_BACKEND_CUDA_GPU_TYPES_H_
#define DEEPSLICE_RUNTIME_BACKEND_CUDA_GPU_TYPES_H_

#include <climits>
#include <cstddef>
#include <cstdint>

// Handles as the headers name them: pointers whose targets are the driver's
// own.
typedef struct CUctx_st* CUcontext;
typedef struct CUmod_st* CUmodule;
typedef struct CUfunc_st* CUfunction;
typedef struct CUstream_st* CUstream;
typedef struct CUevent_st* CUevent;
typedef struct CUgraph_st* CUgraph;
typedef struct CUgraphExec_st* CUgraphExec;
typedef struct ncclComm* ncclComm_t;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;

namespace deepslice {

// ---- the driver
// ----------------------------------------------------------------

// CUresult.
using CudaResult = int;
inline constexpr CudaResult kCudaSuccess = 0, kCudaInvalidValue = 1,
                            kCudaOutOfMemory = 2, kCudaNoDevice = 100,
                            kCudaInvalidDevice = 101, kCudaInvalidImage = 200,
                            kCudaNoBinaryForGpu = 209, kCudaInvalidPtx = 218,
                            kCudaUnsupportedPtxVersion = 222,
                            kCudaInvalidSource = 300, kCudaNotFound = 500,
                            kCudaNotReady = 600, kCudaIllegalAddress = 700,
                            kCudaLaunchFailed = 719;

// CUdevice_attribute.
inline constexpr int kDeviceMultiprocessors = 16, kDeviceClockKilohertz = 13,
                     kDeviceMemoryClockKilohertz = 36,
                     kDeviceMemoryBusBits = 37, kDeviceL2Bytes = 38,
                     kDeviceMajor = 75, kDeviceMinor = 76,
                     kDeviceSharedBytesOptin = 97, kDeviceHostNumaId = 134;

// CUfunction_attribute.
inline constexpr int kFunctionSharedBytes = 1, kFunctionLocalBytes = 3,
                     kFunctionRegisters = 4, kFunctionMaxDynamicShared = 8,
                     kFunctionSharedCarveout = 9;

inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDefault = 0, kEventBlockingSync = 1,
                          kEventDisableTiming = 2;
inline constexpr unsigned kHostAllocPortable = 1, kHostAllocDeviceMap = 2;
inline constexpr unsigned kIpcLazyEnablePeerAccess = 1;
// CUstreamCaptureMode and CUstreamCaptureStatus.
inline constexpr int kCaptureGlobal = 0, kCaptureThreadLocal = 1,
                     kCaptureRelaxed = 2;
inline constexpr int kCaptureStatusNone = 0, kCaptureStatusActive = 1;

// CUuuid and CUipcMemHandle.
struct CudaUuid {
  char bytes[16];
};
struct CudaIpcMemHandle {
  char reserved[64];
};

// CUlaunchAttributeID.
inline constexpr int kLaunchCooperative = 2, kLaunchClusterDimension = 4,
                     kLaunchProgrammaticSerialization = 6;
// CUlaunchAttribute.
struct CudaLaunchAttribute {
  int id;
  char pad[4];
  union {
    int flag;  // cooperative, programmatic
    struct {
      unsigned x, y, z;
    } cluster;
    alignas(8) char bytes[64];
  } value;
};
// CUlaunchConfig.
struct CudaLaunchConfig {
  unsigned grid_x, grid_y, grid_z;
  unsigned block_x, block_y, block_z;
  unsigned shared_bytes;
  CUstream stream;
  CudaLaunchAttribute* attributes;
  unsigned num_attributes;
};

// ---- cuBLASLt
// ------------------------------------------------------------------

using CublasStatus = int;  // cublasStatus_t
inline constexpr CublasStatus kCublasSuccess = 0, kCublasNotInitialized = 1,
                              kCublasAllocFailed = 3, kCublasInvalidValue = 7,
                              kCublasNotSupported = 15;
inline constexpr int kCublasCompute32F = 68;          // cublasComputeType_t
inline constexpr int kCublasOpN = 0, kCublasOpT = 1;  // cublasOperation_t
inline constexpr int kCudaR32F = 0, kCudaR16F = 2, kCudaR16BF = 14;
inline constexpr int kMatmulDescTransA = 3, kMatmulDescTransB = 4;
inline constexpr int kMatrixLayoutCols = 3;
inline constexpr int kMatmulPrefMaxWorkspaceBytes = 1, kMatmulPrefAlignA = 5,
                     kMatmulPrefAlignB = 6, kMatmulPrefAlignC = 7,
                     kMatmulPrefAlignD = 8;

using CublasLtHandle =
    void*;  // cublasLtHandle_t and the *Opaque_t* of the header
using CublasLtDesc = void*;
using CublasLtLayout = void*;
using CublasLtPreference = void*;
// cublasLtMatmulAlgo_t: may be kept in a file for the same library and card.
struct CublasLtAlgo {
  uint64_t data[8];
};
// cublasLtMatmulHeuristicResult_t.
struct CublasLtHeuristic {
  CublasLtAlgo algo;
  size_t workspace_bytes;
  CublasStatus state;
  float waves;
  int reserved[4];
};

// ---- NCCL
// ----------------------------------------------------------------------

using NcclResult = int;  // ncclResult_t
inline constexpr NcclResult kNcclSuccess = 0, kNcclUnhandledCudaError = 1,
                            kNcclSystemError = 2, kNcclInternalError = 3,
                            kNcclInvalidArgument = 4, kNcclInvalidUsage = 5,
                            kNcclRemoteError = 6, kNcclInProgress = 7;
// ncclDataType_t and ncclRedOp_t.
inline constexpr int kNcclInt8 = 0, kNcclUint8 = 1, kNcclInt32 = 2,
                     kNcclFloat16 = 6, kNcclFloat32 = 7, kNcclBfloat16 = 9;
inline constexpr int kNcclSum = 0;

struct NcclUniqueId {
  char internal[128];
};
inline constexpr int kNcclUndefined = INT_MIN;
// ncclConfig_t as of 2.18, which every later library accepts, since it goes by
// `size` and `version`.
struct NcclConfig {
  size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 21800;
  int blocking = kNcclUndefined;
  int cga_cluster_size = kNcclUndefined;
  int min_ctas = kNcclUndefined;
  int max_ctas = kNcclUndefined;
  const char* net_name = nullptr;
  int split_share = kNcclUndefined;
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_BACKEND_CUDA_GPU_TYPES_H_
