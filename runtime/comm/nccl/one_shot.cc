#include "runtime/comm/nccl/one_shot.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "runtime/comm/nccl/one_shot_args.h"
#include "schema/base/checked_math.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

constexpr int64_t kThreads = 512;
// Enough to fill the links with 256 KB, and few enough to be on the card
// together with whatever else runs there.
constexpr int64_t kMaxBlocks = 16;
// The driver shares memory between processes in pieces of this size.
constexpr int64_t kSharedPiece = 2 << 20;
// Of a message; far beyond where the kernel is of use.
constexpr int64_t kMostBytes = 16 << 20;

// What a rank tells the others about its receive buffer.
struct Offer {
  int64_t process = 0;
  uint64_t address = 0;  // for ranks that are threads of one process
  CudaIpcMemHandle handle = {};
  bool good = false;
};

// All ranks' offers, in rank order.
absl::StatusOr<std::vector<Offer>> Exchange(Comm* host, const Offer& mine) {
  // As one float a byte: a Comm's floats are for adding, so their bits are not
  // promised to arrive.
  constexpr int64_t kBytes = sizeof(Offer);
  unsigned char bytes[kBytes];
  std::memcpy(bytes, &mine, kBytes);
  const std::vector<float> in(bytes, bytes + kBytes);
  std::vector<float> out(kBytes * host->size());
  DS_RETURN_IF_ERROR(
      host->AllGatherColumns(in.data(), out.data(), 1, kBytes * host->size()));
  std::vector<Offer> offers(host->size());
  for (int r = 0; r < host->size(); ++r) {
    for (int64_t i = 0; i < kBytes; ++i) {
      bytes[i] = static_cast<unsigned char>(out[r * kBytes + i]);
    }
    std::memcpy(&offers[r], bytes, kBytes);
  }
  return offers;
}

absl::StatusOr<int64_t> DefaultBytes(int world) {
  const char* text = getenv("DEEPSLICE_ONE_SHOT_BYTES");
  if (text == nullptr || *text == '\0') return OneShotBytes(world);
  int64_t bytes;
  if (absl::SimpleAtoi(text, &bytes) && bytes >= 0 && bytes <= kMostBytes) {
    return bytes;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "DEEPSLICE_ONE_SHOT_BYTES is \"", text, "\"; a number from 0 (off) to ",
      kMostBytes, " belongs there"));
}

class OneShotComm final : public DeviceComm {
 public:
  OneShotComm(const CudaApi& cuda, const OneShotKernels& kernels, Comm* host,
              int64_t max_bytes, bool programmatic)
      : cuda_(cuda),
        kernels_(kernels),
        host_(*host),
        max_bytes_(max_bytes),
        programmatic_(programmatic) {}
  ~OneShotComm() override;
  // Whether all ranks have each other's buffers; the same answer in all.
  absl::StatusOr<bool> Connect();
  void TakeOver(std::unique_ptr<DeviceComm> inner) {
    inner_ = std::move(inner);
  }

  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }

  absl::Status AllReduceSum(const void* in, void* out, int64_t count,
                            DType type, CUstream stream) override {
    const CUfunction kernel = type == DType::kF32    ? kernels_.f32
                              : type == DType::kF16  ? kernels_.f16
                              : type == DType::kBF16 ? kernels_.bf16
                                                     : nullptr;
    if (kernel == nullptr || !IsSmall(count * DTypeSize(type))) {
      return inner_->AllReduceSum(in, out, count, type, stream);
    }
    return Launch(kernel, OneShotMode::kSum, in, out, count, DTypeSize(type),
                  stream);
  }
  absl::Status AllGather(const void* in, void* out, int64_t count_per_rank,
                         DType type, CUstream stream) override {
    const int64_t size = DTypeSize(type);
    if (OfSize(size) == nullptr || !IsSmall(count_per_rank * size)) {
      return inner_->AllGather(in, out, count_per_rank, type, stream);
    }
    return Launch(OfSize(size), OneShotMode::kGather, in, out, count_per_rank,
                  size, stream);
  }
  absl::Status Broadcast(void* data, int64_t bytes, CUstream stream) override {
    const int64_t size = bytes % 4 == 0 ? 4 : 2;
    if (bytes % size != 0 || OfSize(size) == nullptr || !IsSmall(bytes)) {
      return inner_->Broadcast(data, bytes, stream);
    }
    return Launch(OfSize(size), OneShotMode::kBroadcast, data, data,
                  bytes / size, size, stream);
  }

  absl::Status Check() override {
    absl::Status status = inner_->Check();
    if (!status.ok()) Stop();
    return status;
  }
  void Abort(const absl::Status& why) override {
    Stop();
    inner_->Abort(why);
  }
  int64_t device_bytes() const override {
    return inner_->device_bytes() + BufferBytes() + kStateBytes;
  }

 private:
  static constexpr int64_t kStateBytes = 256;
  int64_t lines() const { return max_bytes_ / kOneShotLineData; }
  int64_t BufferBytes() const {
    return RoundUp(2 * size() * lines() * kOneShotLineBytes, kSharedPiece);
  }
  bool IsSmall(int64_t bytes) const { return bytes > 0 && bytes <= max_bytes_; }
  // The kernel that moves elements of `size` bytes without looking at them.
  CUfunction OfSize(int64_t size) const {
    return size == 4 ? kernels_.f32 : size == 2 ? kernels_.f16 : nullptr;
  }
  // Ends every wait of the kernels.
  void Stop() {
    if (stop_ != nullptr) {
      std::atomic_ref<uint32_t>(*stop_).store(1, std::memory_order_relaxed);
    }
  }
  absl::Status Allocate();
  absl::Status Launch(CUfunction kernel, OneShotMode mode, const void* in,
                      void* out, int64_t count, int64_t size, CUstream stream);

  const CudaApi& cuda_;
  const OneShotKernels kernels_;
  Comm& host_;
  const int64_t max_bytes_;
  const bool programmatic_;
  std::unique_ptr<DeviceComm> inner_;
  uint32_t* stop_ = nullptr;
  CUdeviceptr buffer_ = 0, state_ = 0;
  std::vector<CUdeviceptr> mapped_;  // other processes' buffers
  OneShotArgs args_ = {};
};

OneShotComm::~OneShotComm() {
  Stop();
  for (const CUdeviceptr p : mapped_) cuda_.IpcCloseMemHandle(p);
  if (buffer_ != 0) cuda_.MemFree(buffer_);
  if (state_ != 0) cuda_.MemFree(state_);
  if (stop_ != nullptr) cuda_.MemFreeHost(stop_);
}

absl::Status OneShotComm::Allocate() {
  const auto check = [this](CudaResult result) {
    return Annotate(CudaStatus(cuda_, result),
                    "buffers of the one-shot all-reduce");
  };
  DS_RETURN_IF_ERROR(check(cuda_.MemAlloc(&buffer_, BufferBytes())));
  DS_RETURN_IF_ERROR(check(cuda_.MemAlloc(&state_, kStateBytes)));
  void* host = nullptr;
  DS_RETURN_IF_ERROR(check(cuda_.MemHostAlloc(
      &host, sizeof(uint32_t), kHostAllocPortable | kHostAllocDeviceMap)));
  stop_ = static_cast<uint32_t*>(host);
  *stop_ = 0;
  CUdeviceptr stop_on_device = 0;
  DS_RETURN_IF_ERROR(
      check(cuda_.MemHostGetDevicePointer(&stop_on_device, stop_, 0)));
  CUstream stream = nullptr;
  DS_RETURN_IF_ERROR(check(cuda_.StreamCreate(&stream, kStreamNonBlocking)));
  // Zero is the number of no call.
  absl::Status zeroed =
      check(cuda_.MemsetD8Async(buffer_, 0, BufferBytes(), stream));
  if (zeroed.ok()) {
    zeroed = check(cuda_.MemsetD8Async(state_, 0, kStateBytes, stream));
  }
  if (zeroed.ok()) zeroed = check(cuda_.StreamSynchronize(stream));
  cuda_.StreamDestroy(stream);
  DS_RETURN_IF_ERROR(zeroed);
  args_.lines = lines();
  args_.state = state_;
  args_.stop = stop_on_device;
  args_.rank = rank();
  args_.world = size();
  return absl::OkStatus();
}

absl::StatusOr<bool> OneShotComm::Connect() {
  DS_RETURN_IF_ERROR(Allocate());
  Offer mine;
  mine.process = getpid();
  mine.address = buffer_;
  mine.good = cuda_.IpcGetMemHandle(&mine.handle, buffer_) == kCudaSuccess;
  // Also: nobody sends before everybody's buffer is zero.
  DS_ASSIGN_OR_RETURN(const std::vector<Offer> offers, Exchange(&host_, mine));
  float failures = 0;
  for (int r = 0; r < size(); ++r) {
    if (offers[r].process == mine.process) {
      args_.peers[r] = offers[r].address;
      continue;
    }
    CUdeviceptr mapped = 0;
    if (!offers[r].good ||
        cuda_.IpcOpenMemHandle(&mapped, offers[r].handle,
                               kIpcLazyEnablePeerAccess) != kCudaSuccess) {
      ++failures;
      continue;
    }
    mapped_.push_back(mapped);
    args_.peers[r] = mapped;
  }
  DS_RETURN_IF_ERROR(host_.AllReduceSum(&failures, 1));
  return failures == 0;
}

absl::Status OneShotComm::Launch(CUfunction kernel, OneShotMode mode,
                                 const void* in, void* out, int64_t count,
                                 int64_t size, CUstream stream) {
  DS_RETURN_IF_ERROR(Check());
  OneShotArgs args = args_;
  args.mode = mode;
  void* parameters[] = {&in, &out, &count, &args};
  CudaLaunchAttribute attribute = {};
  attribute.id = kLaunchProgrammaticSerialization;
  attribute.value.flag = 1;
  CudaLaunchConfig config = {};
  const int64_t needed = CeilDiv(count * size, kOneShotLineData);
  config.grid_x =
      static_cast<unsigned>(std::min(kMaxBlocks, CeilDiv(needed, kThreads)));
  config.grid_y = config.grid_z = 1;
  config.block_x = kThreads;
  config.block_y = config.block_z = 1;
  config.stream = stream;
  config.attributes = &attribute;
  config.num_attributes = programmatic_ ? 1 : 0;
  return Annotate(CudaStatus(cuda_, cuda_.LaunchKernelEx(&config, kernel,
                                                         parameters, nullptr)),
                  "one-shot all-reduce");
}

}  // namespace

int64_t OneShotBytes(int world) {
  if (world <= 2) return 256 << 10;
  if (world <= 4) return 128 << 10;
  return world <= kOneShotRanks ? 64 << 10 : 0;
}

absl::StatusOr<std::unique_ptr<DeviceComm>> AddOneShot(
    std::unique_ptr<DeviceComm> inner, const CudaApi& cuda,
    const OneShotKernels& kernels, Comm* host, const OneShotOptions& options) {
  const int world = host->size();
  int64_t max_bytes = options.max_bytes;
  if (max_bytes < 0) {
    DS_ASSIGN_OR_RETURN(max_bytes, DefaultBytes(world));
  }
  DS_RETURN_IF_ERROR(host->Broadcast(&max_bytes, sizeof(max_bytes)));
  max_bytes -= max_bytes % kOneShotLineData;
  // All ranks have the same plan set, so all or none have kernels.
  if (world < 2 || world > kOneShotRanks || max_bytes == 0 ||
      kernels.f32 == nullptr) {
    return inner;
  }
  auto comm = std::make_unique<OneShotComm>(cuda, kernels, host, max_bytes,
                                            options.programmatic);
  DS_ASSIGN_OR_RETURN(const bool connected, comm->Connect());
  if (!connected) return inner;
  comm->TakeOver(std::move(inner));
  return std::unique_ptr<DeviceComm>(std::move(comm));
}

}  // namespace deepslice
