// Finds the GPU's libraries and the functions in them.
#include <dlfcn.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/backend/cuda/gpu_api.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// Where the toolkit's installers put libraries that no loader cache may know.
constexpr const char* kToolkitFolder = "/usr/local/cuda/lib64/";

std::string VersionText(int version) {
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

template <typename Api>
absl::StatusOr<const Api*> AsTable(const absl::Status& opened, const Api* api) {
  if (!opened.ok()) return opened;
  return api;
}

}  // namespace

absl::Status OpenGpuLibrary(absl::Span<const char* const> names,
                            absl::Span<const GpuSymbol> symbols,
                            absl::string_view remedy) {
  void* library = nullptr;
  std::string found;
  for (const char* folder : {"", kToolkitFolder}) {
    for (const char* name : names) {
      if (library != nullptr) break;
      found = absl::StrCat(folder, name);
      library = dlopen(found.c_str(), RTLD_NOW | RTLD_LOCAL);
    }
  }
  if (library == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        absl::StrJoin(names, " or "),
        ": the library was not found or can't be opened; ", remedy));
  }
  for (const GpuSymbol& symbol : symbols) {
    *symbol.place = dlsym(library, symbol.name);
    if (*symbol.place == nullptr) {
      return absl::FailedPreconditionError(
          absl::StrCat(found, ": the library is too old: it has no function ",
                       symbol.name, "; ", remedy));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckDriver(const CudaApi& cuda) {
  int version = 0;
  if (cuda.DriverGetVersion(&version) == kCudaSuccess &&
      version >= kOldestDriver) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "libcuda.so.1: the driver is of CUDA ", VersionText(version), "; CUDA ",
      VersionText(kOldestDriver),
      " or newer is needed (driver 580); update the driver, or use a "
      "plan with target cpu"));
}

absl::Status CudaStatus(const CudaApi& cuda, CudaResult result) {
  if (result == kCudaSuccess) return absl::OkStatus();
  const char *name = nullptr, *text = nullptr;
  if (cuda.GetErrorName(result, &name) != kCudaSuccess || name == nullptr) {
    name = "CUDA error";
  }
  if (cuda.GetErrorString(result, &text) != kCudaSuccess || text == nullptr) {
    text = "no description";
  }
  const std::string message = absl::StrCat(name, " (", result, "): ", text);
  return result == kCudaOutOfMemory ? absl::ResourceExhaustedError(message)
                                    : absl::InternalError(message);
}

#define DS_SYMBOL(name, symbol, ...) \
  {#symbol, reinterpret_cast<void**>(&api.name)},

absl::StatusOr<const CudaApi*> LoadCuda() {
  static CudaApi api;
  static const absl::Status opened = [] {
    const GpuSymbol symbols[] = {DS_CUDA_FUNCTIONS(DS_SYMBOL)};
    // The driver's version first: a driver that lacks functions is too old.
    const GpuSymbol first[] = {
        {"cuDriverGetVersion",
         reinterpret_cast<void**>(&api.DriverGetVersion)}};
    constexpr const char* kNames[] = {"libcuda.so.1"};
    constexpr absl::string_view kRemedy =
        "install the NVIDIA driver 580 or newer, or use a plan with target cpu";
    absl::Status status = OpenGpuLibrary(kNames, first, kRemedy);
    if (status.ok()) status = CheckDriver(api);
    if (status.ok()) status = OpenGpuLibrary(kNames, symbols, kRemedy);
    return status;
  }();
  return AsTable(opened, &api);
}

bool IsDriverInstalled() {
  return dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) != nullptr;
}

absl::StatusOr<const CublasLtApi*> LoadCublasLt() {
  static CublasLtApi api;
  static const absl::Status opened = [] {
    const GpuSymbol symbols[] = {DS_CUBLASLT_FUNCTIONS(DS_SYMBOL)};
    constexpr const char* kNames[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
    return OpenGpuLibrary(
        kNames, symbols,
        "install cuBLAS 13 (nvidia-cublas) and put its folder into "
        "LD_LIBRARY_PATH, or use a plan with target cpu");
  }();
  return AsTable(opened, &api);
}

absl::StatusOr<const NcclApi*> LoadNccl() {
  static NcclApi api;
  static const absl::Status opened = [] {
    const GpuSymbol symbols[] = {DS_NCCL_FUNCTIONS(DS_SYMBOL)};
    constexpr const char* kNames[] = {"libnccl.so.2"};
    return OpenGpuLibrary(
        kNames, symbols,
        "install NCCL 2.18 or newer (nvidia-nccl-cu13) and put its folder "
        "into LD_LIBRARY_PATH, or use a plan with target cpu");
  }();
  return AsTable(opened, &api);
}

#undef DS_SYMBOL

}  // namespace deepslice
