// Compares our declarations with the real headers, where they are installed:
// each block compiles only with the header that it names.
#include "runtime/backend/cuda/gpu_types.h"

#include <cstddef>
#include <type_traits>

#include "gtest/gtest.h"
#include "runtime/backend/cuda/gpu_api.h"

#ifdef DS_HAVE_CUDA_H
#include <cuda.h>
#endif
#ifdef DS_HAVE_CUBLASLT_H
#include <cublasLt.h>
#endif
#ifdef DS_HAVE_NCCL_H
#include <nccl.h>
#endif

namespace deepslice {
namespace {

// Whether two types travel alike through a call: both pointers, or both
// integers or enums of a size, or the same floating-point type, or classes of a
// size and alignment.
template <typename A, typename B>
constexpr bool SameType() {
  if constexpr (std::is_void_v<A> || std::is_void_v<B>) {
    return std::is_void_v<A> && std::is_void_v<B>;
  } else if constexpr (sizeof(A) != sizeof(B) || alignof(A) != alignof(B)) {
    return false;
  } else if constexpr (std::is_pointer_v<A> || std::is_pointer_v<B>) {
    return std::is_pointer_v<A> && std::is_pointer_v<B>;
  } else if constexpr (std::is_floating_point_v<A>) {
    return std::is_same_v<A, B>;
  } else if constexpr (std::is_class_v<A> || std::is_class_v<B>) {
    return std::is_class_v<A> && std::is_class_v<B>;
  } else {
    return (std::is_integral_v<A> ||
            std::is_enum_v<A>)&&(std::is_integral_v<B> || std::is_enum_v<B>);
  }
}

template <typename F, typename G>
struct SameCall : std::false_type {};
template <typename R, typename... P, typename S, typename... Q>
requires(sizeof...(P) == sizeof...(Q)) struct SameCall<R (*)(P...), S (*)(Q...)>
    : std::bool_constant<SameType<R, S>() && (SameType<P, Q>() && ...)> {
};
// The header's functions may be declared noexcept.
template <typename R, typename... P, typename S, typename... Q>
requires(sizeof...(P) ==
         sizeof...(Q)) struct SameCall<R (*)(P...), S (*)(Q...) noexcept>
    : std::bool_constant<SameType<R, S>() && (SameType<P, Q>() && ...)> {
};

static_assert(SameCall<int (*)(int, char *), unsigned (*)(unsigned, void *)>());
static_assert(!SameCall<int (*)(int, char *), int (*)(char *, int)>());
static_assert(!SameCall<int (*)(float), int (*)(int)>());
static_assert(!SameCall<int (*)(), int (*)(int)>());

#ifdef DS_HAVE_CUDA_H
// Names with a version are not declared in cuda.h, where a macro stands for
// them: without it the newest declaration has the plain name.
#define DS_SAME(name, symbol, ...)                                           \
  static_assert(SameCall<decltype(CudaApi::name), decltype(&symbol)>::value, \
                #symbol);
DS_CUDA_FUNCTIONS(DS_SAME)
#undef DS_SAME

static_assert(kCudaInvalidValue == CUDA_ERROR_INVALID_VALUE);
static_assert(kCudaOutOfMemory == CUDA_ERROR_OUT_OF_MEMORY);
static_assert(kCudaNoDevice == CUDA_ERROR_NO_DEVICE);
static_assert(kCudaInvalidDevice == CUDA_ERROR_INVALID_DEVICE);
static_assert(kCudaInvalidImage == CUDA_ERROR_INVALID_IMAGE);
static_assert(kCudaNoBinaryForGpu == CUDA_ERROR_NO_BINARY_FOR_GPU);
static_assert(kCudaInvalidPtx == CUDA_ERROR_INVALID_PTX);
static_assert(kCudaUnsupportedPtxVersion == CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
static_assert(kCudaInvalidSource == CUDA_ERROR_INVALID_SOURCE);
static_assert(kCudaNotFound == CUDA_ERROR_NOT_FOUND);
static_assert(kCudaNotReady == CUDA_ERROR_NOT_READY);
static_assert(kCudaIllegalAddress == CUDA_ERROR_ILLEGAL_ADDRESS);
static_assert(kCudaLaunchFailed == CUDA_ERROR_LAUNCH_FAILED);
static_assert(kDeviceMultiprocessors ==
              CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
static_assert(kDeviceClockKilohertz == CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
static_assert(kDeviceMemoryClockKilohertz ==
              CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
static_assert(kDeviceMemoryBusBits ==
              CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
static_assert(kDeviceL2Bytes == CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
static_assert(kDeviceMajor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
static_assert(kDeviceMinor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
static_assert(kDeviceSharedBytesOptin ==
              CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
static_assert(kDeviceHostNumaId == CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID);
static_assert(kFunctionSharedBytes == CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
static_assert(kFunctionLocalBytes == CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
static_assert(kFunctionRegisters == CU_FUNC_ATTRIBUTE_NUM_REGS);
static_assert(kFunctionMaxDynamicShared ==
              CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
static_assert(kFunctionSharedCarveout ==
              CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
static_assert(kStreamNonBlocking == CU_STREAM_NON_BLOCKING);
static_assert(kEventBlockingSync == CU_EVENT_BLOCKING_SYNC);
static_assert(kEventDisableTiming == CU_EVENT_DISABLE_TIMING);
static_assert(kHostAllocPortable == CU_MEMHOSTALLOC_PORTABLE);
static_assert(kHostAllocDeviceMap == CU_MEMHOSTALLOC_DEVICEMAP);
static_assert(kIpcLazyEnablePeerAccess == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
static_assert(kCaptureGlobal == CU_STREAM_CAPTURE_MODE_GLOBAL);
static_assert(kCaptureThreadLocal == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
static_assert(kCaptureRelaxed == CU_STREAM_CAPTURE_MODE_RELAXED);
static_assert(kCaptureStatusNone == CU_STREAM_CAPTURE_STATUS_NONE);
static_assert(kCaptureStatusActive == CU_STREAM_CAPTURE_STATUS_ACTIVE);
static_assert(kLaunchCooperative == CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
static_assert(kLaunchClusterDimension == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
static_assert(kLaunchProgrammaticSerialization ==
              CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
static_assert(sizeof(CudaUuid) == sizeof(CUuuid));
static_assert(sizeof(CudaIpcMemHandle) == sizeof(CUipcMemHandle));
static_assert(sizeof(CudaLaunchAttribute) == sizeof(CUlaunchAttribute));
static_assert(offsetof(CudaLaunchAttribute, value) ==
              offsetof(CUlaunchAttribute, value));
static_assert(sizeof(CudaLaunchConfig) == sizeof(CUlaunchConfig));
static_assert(offsetof(CudaLaunchConfig, grid_x) ==
              offsetof(CUlaunchConfig, gridDimX));
static_assert(offsetof(CudaLaunchConfig, block_z) ==
              offsetof(CUlaunchConfig, blockDimZ));
static_assert(offsetof(CudaLaunchConfig, shared_bytes) ==
              offsetof(CUlaunchConfig, sharedMemBytes));
static_assert(offsetof(CudaLaunchConfig, stream) ==
              offsetof(CUlaunchConfig, hStream));
static_assert(offsetof(CudaLaunchConfig, attributes) ==
              offsetof(CUlaunchConfig, attrs));
static_assert(offsetof(CudaLaunchConfig, num_attributes) ==
              offsetof(CUlaunchConfig, numAttrs));
#endif  // DS_HAVE_CUDA_H

#ifdef DS_HAVE_CUBLASLT_H
#define DS_SAME(name, symbol, ...)                                     \
  static_assert(                                                       \
      SameCall<decltype(CublasLtApi::name), decltype(&symbol)>::value, \
      #symbol);
DS_CUBLASLT_FUNCTIONS(DS_SAME)
#undef DS_SAME

static_assert(kCublasNotInitialized == CUBLAS_STATUS_NOT_INITIALIZED);
static_assert(kCublasAllocFailed == CUBLAS_STATUS_ALLOC_FAILED);
static_assert(kCublasInvalidValue == CUBLAS_STATUS_INVALID_VALUE);
static_assert(kCublasNotSupported == CUBLAS_STATUS_NOT_SUPPORTED);
static_assert(kCublasCompute32F == CUBLAS_COMPUTE_32F);
static_assert(kCublasOpN == CUBLAS_OP_N && kCublasOpT == CUBLAS_OP_T);
static_assert(kCudaR32F == CUDA_R_32F && kCudaR16F == CUDA_R_16F &&
              kCudaR16BF == CUDA_R_16BF);
static_assert(kMatmulDescTransA == CUBLASLT_MATMUL_DESC_TRANSA);
static_assert(kMatmulDescTransB == CUBLASLT_MATMUL_DESC_TRANSB);
static_assert(kMatrixLayoutCols == CUBLASLT_MATRIX_LAYOUT_COLS);
static_assert(kMatmulPrefMaxWorkspaceBytes ==
              CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
static_assert(kMatmulPrefAlignA == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
static_assert(kMatmulPrefAlignB == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
static_assert(kMatmulPrefAlignC == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
static_assert(kMatmulPrefAlignD == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
static_assert(sizeof(CublasLtAlgo) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(CublasLtHeuristic) ==
              sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(CublasLtHeuristic, workspace_bytes) ==
              offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(CublasLtHeuristic, state) ==
              offsetof(cublasLtMatmulHeuristicResult_t, state));
static_assert(offsetof(CublasLtHeuristic, waves) ==
              offsetof(cublasLtMatmulHeuristicResult_t, wavesCount));
#endif  // DS_HAVE_CUBLASLT_H

#ifdef DS_HAVE_NCCL_H
#define DS_SAME(name, symbol, ...)                                           \
  static_assert(SameCall<decltype(NcclApi::name), decltype(&symbol)>::value, \
                #symbol);
DS_NCCL_FUNCTIONS(DS_SAME)
#undef DS_SAME

static_assert(kNcclUnhandledCudaError == ncclUnhandledCudaError);
static_assert(kNcclSystemError == ncclSystemError);
static_assert(kNcclInternalError == ncclInternalError);
static_assert(kNcclInvalidArgument == ncclInvalidArgument);
static_assert(kNcclInvalidUsage == ncclInvalidUsage);
static_assert(kNcclRemoteError == ncclRemoteError);
static_assert(kNcclInProgress == ncclInProgress);
static_assert(kNcclInt8 == ncclInt8 && kNcclUint8 == ncclUint8 &&
              kNcclInt32 == ncclInt32 && kNcclFloat16 == ncclFloat16 &&
              kNcclFloat32 == ncclFloat32 && kNcclBfloat16 == ncclBfloat16);
static_assert(kNcclSum == ncclSum);
static_assert(sizeof(NcclUniqueId) == sizeof(ncclUniqueId));
static_assert(kNcclUndefined == NCCL_CONFIG_UNDEF_INT);
static_assert(sizeof(NcclConfig) <= sizeof(ncclConfig_t));
static_assert(offsetof(NcclConfig, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(NcclConfig, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(NcclConfig, blocking) ==
              offsetof(ncclConfig_t, blocking));
static_assert(offsetof(NcclConfig, max_ctas) ==
              offsetof(ncclConfig_t, maxCTAs));
static_assert(offsetof(NcclConfig, net_name) ==
              offsetof(ncclConfig_t, netName));
static_assert(offsetof(NcclConfig, split_share) ==
              offsetof(ncclConfig_t, splitShare));
static_assert(NCCL_VERSION(2, 18, 0) == 21800);

TEST(GpuTypes, NcclConfigStartsAsTheHeadersOwn) {
  const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  const NcclConfig ours;
  EXPECT_EQ(ours.magic, theirs.magic);
  EXPECT_EQ(ours.blocking, theirs.blocking);
  EXPECT_EQ(ours.split_share, theirs.splitShare);
}
#endif  // DS_HAVE_NCCL_H

TEST(OpenGpuLibrary, NamesAMissingLibrary) {
  const absl::Status s = OpenGpuLibrary(
      {"libdeepslice-none.so.1", "libdeepslice-none.so.2"}, {}, "install it");
  EXPECT_EQ(s.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(s.message(),
            "libdeepslice-none.so.1 or libdeepslice-none.so.2: the library was "
            "not found or can't be opened; install it");
}

TEST(OpenGpuLibrary, NamesAMissingFunction) {
  void *there = nullptr, *missing = nullptr;
  const absl::Status s = OpenGpuLibrary(
      {"libm.so.6"}, {{"cos", &there}, {"deepslice_none", &missing}}, "renew");
  EXPECT_EQ(s.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(s.message(),
            "libm.so.6: the library is too old: it has no function "
            "deepslice_none; renew");
  EXPECT_NE(there, nullptr);
}

}  // namespace
}  // namespace deepslice
