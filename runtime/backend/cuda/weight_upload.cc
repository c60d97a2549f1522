#include "runtime/backend/cuda/weight_upload.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "schema/base/checked_math.h"
#include "schema/base/digest.h"
#include "schema/base/dtype.h"
#include "schema/base/status_macros.h"
#include "schema/encoding.h"
#include "schema/plan_format.h"

namespace deepslice {

static_assert(WeightUpload::kPartBytes % static_cast<int64_t>(kHashBlock) == 0);

WeightUpload::WeightUpload(const GpuContext& gpu, const Plan& plan,
                           CUdeviceptr to, int threads,
                           std::function<void(int64_t, int64_t)> loaded)
    : gpu_(gpu),
      plan_(plan),
      to_(to),
      bytes_(static_cast<int64_t>(plan.weights().size())),
      loaded_(std::move(loaded)) {
  const int64_t parts = CeilDiv(bytes_, kPartBytes);
  const int64_t wanted = std::min<int64_t>(std::max(threads, 1), parts);
  for (int64_t i = 0; i < wanted; ++i) {
    threads_.emplace_back([this] {
      if (const absl::Status s = Work(); !s.ok()) Stop(s);
      const std::lock_guard<std::mutex> lock(mutex_);
      ended_ = std::max(ended_, std::chrono::steady_clock::now());
    });
  }
}

WeightUpload::~WeightUpload() {
  stopped_ = true;
  for (std::thread& t : threads_) t.join();
}

void WeightUpload::Stop(const absl::Status& why) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (status_.ok()) status_ = why;
  stopped_ = true;
}

absl::Status WeightUpload::Finish() {
  for (std::thread& t : threads_) t.join();
  threads_.clear();
  return status_;
}

double WeightUpload::seconds() const {
  return std::chrono::duration<double>(ended_ - begun_).count();
}

// Not from the mapping where there is a file: reading costs no page faults, and
// a file that was cut is an error rather than a signal.
absl::Status WeightUpload::Read(int file, uint64_t begin, int64_t bytes,
                                char* to) const {
  if (file < 0) {
    std::memcpy(to, plan_.weights().data() + begin, bytes);
    return absl::OkStatus();
  }
  int64_t done = 0;
  while (done < bytes) {
    const ssize_t n =
        pread(file, to + done, bytes - done, static_cast<off_t>(begin + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      return absl::DataLossError(
          absl::StrCat(plan_.weights_label(), ": can't read bytes ",
                       begin + done, " to ", begin + bytes - 1, ": ",
                       n == 0 ? "the file was cut" : std::strerror(errno),
                       "; copy the file again"));
    }
    done += n;
  }
  return absl::OkStatus();
}

absl::Status WeightUpload::Work() {
  DS_RETURN_IF_ERROR(gpu_.MakeCurrent());
  int file = -1;
  if (!plan_.weights_path().empty()) {
    file = open(plan_.weights_path().c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) {
      return absl::NotFoundError(absl::StrCat(
          plan_.weights_path(), ": can't open it: ", std::strerror(errno)));
    }
  }
  const absl::Cleanup close_file = [file] {
    if (file >= 0) close(file);
  };
  DS_ASSIGN_OR_RETURN(const GpuStream stream, GpuStream::Make(gpu_));
  DS_ASSIGN_OR_RETURN(
      const PinnedMemory ring,
      PinnedMemory::Make(gpu_, kSlots * std::min(kPartBytes, bytes_),
                         "the ring of the weights"));
  // No copy may read the ring once it is gone.
  const absl::Cleanup drain = [&] {
    gpu_.cuda().StreamSynchronize(stream.get());
  };
  GpuEvent copied[kSlots];
  for (GpuEvent& e : copied) {
    DS_ASSIGN_OR_RETURN(e, GpuEvent::Make(gpu_));
  }
  const auto check = [&](CudaResult r) {
    return gpu_.Check(r, "copying ", plan_.weights_label(), " to ",
                      gpu_.info().Text());
  };
  const auto& hashes = *plan_.fb().weights_xxh3();
  for (int round = 0; !stopped_; ++round) {
    const int64_t begin = next_.fetch_add(1) * kPartBytes;
    if (begin >= bytes_) break;
    const int64_t end = std::min(begin + kPartBytes, bytes_);
    const int slot = round % kSlots;
    if (round >= kSlots) {
      DS_RETURN_IF_ERROR(
          check(gpu_.cuda().EventSynchronize(copied[slot].get())));
    }
    char* to = ring.data() + slot * std::min(kPartBytes, bytes_);
    // Block by block, so that hashing finds what was read in the cache.
    for (int64_t at = begin; at < end; at += kHashBlock) {
      const int64_t size = std::min<int64_t>(kHashBlock, end - at);
      DS_RETURN_IF_ERROR(Read(file, at, size, to + (at - begin)));
      const int64_t block = at / static_cast<int64_t>(kHashBlock);
      if (Xxh3(to + (at - begin), size) != hashes.Get(block)) {
        return plan_.DamagedBlock(block);
      }
    }
    DS_RETURN_IF_ERROR(check(gpu_.cuda().MemcpyHtoDAsync(
        to_ + begin, to, end - begin, stream.get())));
    DS_RETURN_IF_ERROR(
        check(gpu_.cuda().EventRecord(copied[slot].get(), stream.get())));
    if (!loaded_) continue;
    const std::lock_guard<std::mutex> lock(mutex_);
    loaded_bytes_ += end - begin;
    loaded_(loaded_bytes_, bytes_);
  }
  return check(gpu_.cuda().StreamSynchronize(stream.get()));
}

namespace {

constexpr unsigned kFillThreads = 256;

DType TypeOf(const fb::Weight& w) {
  switch (static_cast<Encoding>(w.encoding())) {
    case Encoding::kF32:
      return DType::kF32;
    case Encoding::kF16:
      return DType::kF16;
    default:
      return DType::kBF16;  // others: refused by CheckPlan
  }
}

}  // namespace

absl::Status FillSyntheticOnDevice(const GpuContext& gpu, const Plan& plan,
                                   const KernelTable& kernels, CUdeviceptr to,
                                   CUstream stream) {
  std::set<uint64_t> seen;  // tied weights are the same bytes
  for (const fb::Weight* w : *plan.fb().weights()) {
    if (w->origin() != fb::WeightOrigin::Synthetic || w->bytes() == 0 ||
        !seen.insert(w->offset()).second) {
      continue;
    }
    const std::string label =
        absl::StrCat("fill_random ", DTypeName(TypeOf(*w)));
    CUfunction function = kernels.service(label);
    if (function == nullptr) {
      return absl::FailedPreconditionError(
          absl::StrCat("weight @", absl::CHexEscape(w->name()->c_str()),
                       " is made from a seed, and the target has no kernel \"",
                       label, "\"; recompile the plan"));
    }
    int64_t cols = w->shape()->size() == 2 ? w->shape()->Get(1) : 1;
    float mean = w->synthetic_mean(), scale = w->synthetic_scale();
    for (const fb::SyntheticPiece* piece : *w->pieces()) {
      if (piece->rows() == 0 || cols == 0) continue;
      CUdeviceptr out =
          to + w->offset() + piece->first_row() * cols * DTypeSize(TypeOf(*w));
      uint64_t key = piece->tensor();
      int64_t stride = piece->row_step() * cols, rows = piece->rows();
      int64_t rows_begin = piece->rows_begin(),
              cols_begin = piece->cols_begin();
      void* params[] = {&out,        &key,        &stride, &rows, &cols,
                        &rows_begin, &cols_begin, &mean,   &scale};
      CudaLaunchConfig config = {};
      config.grid_x = static_cast<unsigned>(
          std::min<int64_t>(CeilDiv(rows * cols, kFillThreads),
                            int64_t{16} * gpu.info().multiprocessors));
      config.grid_y = config.grid_z = 1;
      config.block_x = kFillThreads;
      config.block_y = config.block_z = 1;
      config.stream = stream;
      DS_RETURN_IF_ERROR(gpu.Check(
          gpu.cuda().LaunchKernelEx(&config, function, params, nullptr),
          "weight @", absl::CHexEscape(w->name()->c_str()), ": ", label));
    }
  }
  return absl::OkStatus();
}

}  // namespace deepslice
