// A GPU for tests, behind the tables of gpu_api.h: device memory is host
// memory, every call is done when it returns, kernels are what the test says.
#ifndef DEEPSLICE_RUNTIME_TESTING_FAKE_GPU_H_
#define DEEPSLICE_RUNTIME_TESTING_FAKE_GPU_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "runtime/backend/cuda/gpu_api.h"

namespace deepslice {

struct FakeLaunch {
  std::string entry;
  unsigned grid[3], block[3];
  unsigned shared_bytes = 0;
  bool programmatic = false;
  bool in_graph = false;
  std::vector<uint64_t> params;  // the bytes of each, from the low end

  template <typename T>
  T* at(int i) const {
    return reinterpret_cast<T*>(params[i]);
  }
};

// A kernel image that the fake's ModuleLoadData takes: entries with the sizes
// of their parameters in bytes.
std::string FakeImage(
    const std::vector<std::pair<std::string, std::vector<int>>>& entries);

// One at a time: the tables' functions find the latest. For any thread.
class FakeGpu {
 public:
  FakeGpu();
  ~FakeGpu();
  FakeGpu(const FakeGpu&) = delete;

  GpuApis apis() const { return {&cuda_, &cublaslt_}; }
  CudaApi& cuda() { return cuda_; }

  // What the machine is.
  int device_count = 1;
  std::string name = "Fake H200";
  int major = 9, minor = 0, multiprocessors = 4;
  int driver = 13000;
  int64_t memory_bytes = int64_t{1} << 30;
  // Algorithms that cuBLASLt's heuristic offers, and the milliseconds that a
  // product takes with each.
  std::vector<float> gemm_milliseconds = {3, 1, 2};
  size_t cublas_version = 130100;

  // The named call ("MemAlloc", "Matmul") fails with `result`, after `good`
  // calls that still succeed, `bad` times.
  void Fail(const std::string& function, int result, int good = 0,
            int bad = 1 << 30);
  // How often it was called.
  int calls(const std::string& function) const;

  // Runs at each launch of the kernel.
  void OnLaunch(const std::string& entry,
                std::function<void(const FakeLaunch&)> kernel);
  // As they ran, those of a graph when it was launched.
  std::vector<FakeLaunch> launches;
  int graph_launches = 0;
  // Products as they ran, row-major: rows m and columns n of the result.
  struct Product {
    int64_t m, n, k;
    uint64_t algo;
    bool in_graph;
  };
  std::vector<Product> products;

  int64_t allocated() const;  // bytes of device memory now
  // Whether [p, p + bytes) is within one allocation.
  bool Owns(CUdeviceptr p, size_t bytes) const;

  // ---- for the tables' functions ----
  struct Graph {
    std::vector<std::function<void()>> work;
  };
  struct Stream {
    std::unique_ptr<Graph> capture;
  };
  // The failure that this call was told to have, or 0; counts the call.
  int Enter(const char* function);
  // Runs `work` now, or when the graph that `stream` captures is launched.
  void Do(CUstream stream, std::function<void()> work);
  void Run(FakeLaunch launch, bool in_graph);

  mutable std::recursive_mutex mutex;
  std::map<CUdeviceptr, size_t> memory;
  int contexts = 0;
  double clock_ms = 0;
  bool running_graph = false;

 private:
  struct Failure {
    int result, good, bad;
  };
  CudaApi cuda_;
  CublasLtApi cublaslt_;
  std::map<std::string, int> calls_;
  std::map<std::string, Failure> failures_;
  std::map<std::string, std::function<void(const FakeLaunch&)>> kernels_;
};

// The tables of the fake, in their files.
CudaApi FakeCudaApi();
CublasLtApi FakeCublasLtApi();
FakeGpu* CurrentFakeGpu();

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TESTING_FAKE_GPU_H_
