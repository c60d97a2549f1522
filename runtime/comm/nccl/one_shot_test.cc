// The host's half of the one-shot all-reduce. The driver is a few functions
// here, and the kernel plain loops over the same buffers, so that ranks which
// are threads exchange what the device would.
#include "runtime/comm/nccl/one_shot.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/comm/local.h"
#include "runtime/comm/nccl/one_shot_args.h"

namespace deepslice {
namespace {

std::atomic<int> launches = 0, allocations = 0;

CudaResult Alloc(CUdeviceptr* out, size_t bytes) {
  ++allocations;
  *out = reinterpret_cast<CUdeviceptr>(std::aligned_alloc(256, bytes));
  return kCudaSuccess;
}
CudaResult Free(CUdeviceptr p) {
  --allocations;
  std::free(reinterpret_cast<void*>(p));
  return kCudaSuccess;
}
CudaResult HostAlloc(void** out, size_t, unsigned) {
  ++allocations;
  *out = std::aligned_alloc(256, 256);
  return kCudaSuccess;
}
CudaResult HostFree(void* p) {
  --allocations;
  std::free(p);
  return kCudaSuccess;
}
CudaResult DevicePointer(CUdeviceptr* out, void* p, unsigned) {
  *out = reinterpret_cast<CUdeviceptr>(p);
  return kCudaSuccess;
}
CudaResult Memset(CUdeviceptr p, unsigned char value, size_t bytes, CUstream) {
  std::memset(reinterpret_cast<void*>(p), value, bytes);
  return kCudaSuccess;
}
CudaResult NoHandle(CudaIpcMemHandle*, CUdeviceptr) { return kCudaNotFound; }

std::atomic_ref<uint64_t> Word(uint64_t buffer, int64_t word) {
  return std::atomic_ref<uint64_t>(reinterpret_cast<uint64_t*>(buffer)[word]);
}

// all_reduce_one_shot.cuh for 4-byte elements, as one thread.
CudaResult LaunchKernel(const CudaLaunchConfig* config, CUfunction kernel,
                        void** parameters, void**) {
  ++launches;
  if (config->block_x != 512 || config->grid_x < 1 || config->grid_x > 16 ||
      reinterpret_cast<uintptr_t>(kernel) != 4) {
    return kCudaInvalidValue;
  }
  const auto* in = *static_cast<const char* const*>(parameters[0]);
  auto* out = *static_cast<char* const*>(parameters[1]);
  const int64_t count = *static_cast<int64_t*>(parameters[2]);
  const auto& a = *static_cast<const OneShotArgs*>(parameters[3]);
  auto* state = reinterpret_cast<uint32_t*>(a.state);
  const uint64_t call = state[0] + 1;
  const int64_t half = (call & 1) * a.world * a.lines;
  // Elements are words of 8 bytes, two to a line.
  std::vector<uint32_t> mine(count + 1);
  if (a.mode != OneShotMode::kBroadcast || a.rank == 0) {
    std::memcpy(mine.data(), in, count * 4);
  }
  if (count * 4 > static_cast<int64_t>(a.lines) * 8) return kCudaInvalidValue;
  for (int peer = 0; peer < a.world; ++peer) {
    for (int64_t i = 0; i < count && peer != a.rank; ++i) {
      Word(a.peers[peer], 2 * (half + a.rank * a.lines) + i)
          .store(call << 32 | mine[i]);
    }
  }
  std::vector<float> sum(count);
  for (int r = 0; r < a.world; ++r) {
    for (int64_t i = 0; i < count; ++i) {
      uint32_t bits = mine[i];
      while (r != a.rank) {
        const uint64_t word =
            Word(a.peers[a.rank], 2 * (half + r * a.lines) + i).load();
        bits = static_cast<uint32_t>(word);
        if (word >> 32 == call) break;
        if (*reinterpret_cast<volatile uint32_t*>(a.stop) != 0) {
          return kCudaSuccess;
        }
        std::this_thread::yield();
      }
      float value;
      std::memcpy(&value, &bits, 4);
      sum[i] += value;
      if (a.mode == OneShotMode::kGather) {
        std::memcpy(out + (r * count + i) * 4, &bits, 4);
      } else if (a.mode == OneShotMode::kBroadcast && r == 0) {
        std::memcpy(out + i * 4, &bits, 4);
      }
    }
  }
  if (a.mode == OneShotMode::kSum) std::memcpy(out, sum.data(), count * 4);
  state[0] = static_cast<uint32_t>(call);
  return kCudaSuccess;
}

CudaApi FakeDriver() {
  CudaApi a;
  a.MemAlloc = Alloc;
  a.MemFree = Free;
  a.MemHostAlloc = HostAlloc;
  a.MemFreeHost = HostFree;
  a.MemHostGetDevicePointer = DevicePointer;
  a.MemsetD8Async = Memset;
  a.StreamCreate = [](CUstream*, unsigned) { return kCudaSuccess; };
  a.StreamDestroy = [](CUstream) { return kCudaSuccess; };
  a.StreamSynchronize = [](CUstream) { return kCudaSuccess; };
  a.IpcGetMemHandle = NoHandle;  // threads need none
  a.LaunchKernelEx = LaunchKernel;
  return a;
}
const OneShotKernels kKernels = {reinterpret_cast<CUfunction>(4),
                                 reinterpret_cast<CUfunction>(2),
                                 reinterpret_cast<CUfunction>(3)};

// Counts what is left to it.
class Inner final : public DeviceComm {
 public:
  Inner(Comm* host, int* calls) : host_(host), calls_(calls) {}
  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  absl::Status AllReduceSum(const void*, void*, int64_t, DType,
                            CUstream) override {
    return Count();
  }
  absl::Status AllGather(const void*, void*, int64_t, DType,
                         CUstream) override {
    return Count();
  }
  absl::Status Broadcast(void*, int64_t, CUstream) override { return Count(); }
  absl::Status Check() override { return host_->Check(); }
  void Abort(const absl::Status& why) override { host_->Abort(why); }

 private:
  absl::Status Count() {
    ++*calls_;
    return absl::OkStatus();
  }
  Comm* const host_;
  int* const calls_;
};

// Runs `body` in `world` threads; what each said.
using Body = std::function<std::string(DeviceComm&, int* inner_calls)>;
std::vector<std::string> RunRanksHere(int world, const OneShotOptions& options,
                                      const Body& body,
                                      const CudaApi& driver = FakeDriver()) {
  auto hosts = MakeLocalComms(world);
  std::vector<std::string> said(world);
  std::vector<std::thread> threads;
  for (int r = 0; r < world; ++r) {
    threads.emplace_back([&, r] {
      int calls = 0;
      auto comm = AddOneShot(std::make_unique<Inner>(hosts[r].get(), &calls),
                             driver, kKernels, hosts[r].get(), options);
      said[r] = comm.ok() ? body(**comm, &calls) : comm.status().ToString();
    });
  }
  for (std::thread& t : threads) t.join();
  return said;
}

TEST(OneShot, SumsGathersAndBroadcastsInAnyOrderOfCalls) {
  for (const int world : {2, 3, 8}) {
    const auto said =
        RunRanksHere(world, {}, [&](DeviceComm& comm, int* inner) {
          for (int call = 0; call < 50; ++call) {
            const int n = 1 + call * 37 % 300;
            std::vector<float> x(n), sum(n), all(n * world), first(n);
            for (int i = 0; i < n; ++i) {
              x[i] = static_cast<float>(comm.rank() * 1000 + i + call);
              first[i] = x[i];
            }
            if (!comm.AllReduceSum(x.data(), sum.data(), n, DType::kF32,
                                   nullptr)
                     .ok() ||
                !comm.AllGather(x.data(), all.data(), n, DType::kI32, nullptr)
                     .ok() ||
                !comm.Broadcast(first.data(), n * 4, nullptr).ok()) {
              return std::string("a call failed");
            }
            for (int i = 0; i < n; ++i) {
              float want = 0;
              for (int r = 0; r < world; ++r) {
                const auto v = static_cast<float>(r * 1000 + i + call);
                want += v;
                if (all[r * n + i] != v) return std::string("gather is wrong");
              }
              if (sum[i] != want) return std::string("sum is wrong");
              if (first[i] != static_cast<float>(i + call)) {
                return std::string("broadcast is wrong");
              }
            }
          }
          return std::string(*inner == 0 ? "good" : "went to the other");
        });
    for (const std::string& s : said) EXPECT_EQ(s, "good") << world;
    EXPECT_EQ(allocations, 0);
  }
}

TEST(OneShot, LeavesLargeAndOddMessagesToTheOther) {
  const auto said =
      RunRanksHere(2, {.max_bytes = 44}, [](DeviceComm& comm, int* inner) {
        std::vector<float> x(64);
        const int before = launches;
        // 44 bytes are five whole lines of 8.
        if (!comm.AllReduceSum(x.data(), x.data(), 11, DType::kF32, nullptr)
                 .ok() ||
            !comm.AllReduceSum(x.data(), x.data(), 3, DType::kF64, nullptr)
                 .ok() ||
            !comm.Broadcast(x.data(), 7, nullptr).ok() ||
            !comm.AllGather(x.data(), x.data(), 5, DType::kI8, nullptr).ok() ||
            !comm.Broadcast(x.data(), 48, nullptr).ok() || launches != before) {
          return std::string("failed");
        }
        return std::to_string(*inner);
      });
  for (const std::string& s : said) EXPECT_EQ(s, "5");
}

TEST(OneShot, Rank0sSizeCounts) {
  auto hosts = MakeLocalComms(2);
  int calls[2] = {};
  std::unique_ptr<DeviceComm> comms[2];
  const CudaApi driver = FakeDriver();
  std::thread other([&] {
    comms[1] = *AddOneShot(std::make_unique<Inner>(hosts[1].get(), &calls[1]),
                           driver, kKernels, hosts[1].get(), {.max_bytes = 0});
  });
  comms[0] = *AddOneShot(std::make_unique<Inner>(hosts[0].get(), &calls[0]),
                         driver, kKernels, hosts[0].get(), {.max_bytes = 64});
  other.join();
  EXPECT_GT(comms[1]->device_bytes(), 0);
}

TEST(OneShot, IsLeftOutWhereItCannotWork) {
  const auto give_inner = [](DeviceComm& comm, int*) {
    return std::string(comm.device_bytes() == 0 ? "other" : "one-shot");
  };
  for (const std::string& s : RunRanksHere(2, {.max_bytes = 0}, give_inner)) {
    EXPECT_EQ(s, "other");
  }
  for (const std::string& s : RunRanksHere(9, {}, give_inner))
    EXPECT_EQ(s, "other");
  EXPECT_EQ(OneShotBytes(9), 0);
  EXPECT_EQ(OneShotBytes(2), 256 << 10);
  EXPECT_EQ(OneShotBytes(8), 64 << 10);
}

TEST(OneShot, TheEnvironmentSwitchesIt) {
  const auto which = [](DeviceComm& comm, int*) {
    return std::string(comm.device_bytes() == 0 ? "other" : "one-shot");
  };
  setenv("DEEPSLICE_ONE_SHOT_BYTES", "0", 1);
  for (const std::string& s : RunRanksHere(2, {}, which)) {
    EXPECT_EQ(s, "other");
  }
  setenv("DEEPSLICE_ONE_SHOT_BYTES", "4k", 1);
  for (const std::string& s : RunRanksHere(1, {}, which)) {
    EXPECT_NE(s.find("is \"4k\"; a number from 0 (off)"), std::string::npos);
  }
  unsetenv("DEEPSLICE_ONE_SHOT_BYTES");
}

TEST(OneShot, LackOfMemoryIsAnErrorThatSaysForWhat) {
  CudaApi driver = FakeDriver();
  driver.MemAlloc = [](CUdeviceptr*, size_t) { return kCudaOutOfMemory; };
  driver.GetErrorName = [](CudaResult, const char** s) {
    *s = "CUDA_ERROR_OUT_OF_MEMORY";
    return kCudaSuccess;
  };
  driver.GetErrorString = [](CudaResult, const char** s) {
    *s = "out of memory";
    return kCudaSuccess;
  };
  const auto said = RunRanksHere(
      2, {}, [](DeviceComm&, int*) { return std::string("came up"); }, driver);
  for (const std::string& s : said) {
    EXPECT_NE(s.find("RESOURCE_EXHAUSTED: buffers of the one-shot"),
              std::string::npos)
        << s;
  }
}

TEST(OneShot, ALostRankEndsTheWait) {
  const auto said = RunRanksHere(2, {}, [](DeviceComm& comm, int*) {
    float x = 1;
    if (comm.rank() == 1) {
      comm.Abort(absl::InternalError("step 5"));
      return std::string("left");
    }
    // Another thread looks after the ranks, as the executor's does while it
    // waits for the stream.
    std::atomic<bool> over = false;
    std::thread watch([&] {
      while (!over) {
        comm.Check().IgnoreError();
        std::this_thread::yield();
      }
    });
    comm.AllReduceSum(&x, &x, 1, DType::kF32, nullptr).IgnoreError();
    over = true;
    watch.join();
    return comm.Check().ToString();
  });
  EXPECT_NE(said[0].find("rank 1 stopped: INTERNAL: step 5"), std::string::npos)
      << said[0];
}

}  // namespace
}  // namespace deepslice
