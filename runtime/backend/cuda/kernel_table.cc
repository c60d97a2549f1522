#include "runtime/backend/cuda/kernel_table.h"

#include <algorithm>
#include <map>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "schema/base/checked_math.h"
#include "schema/base/digest.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

std::string Label(const fb::Kernel& k) {
  const flatbuffers::String* s = k.label() == nullptr ? k.entry() : k.label();
  return absl::CHexEscape(absl::string_view(s->data(), s->size()));
}

absl::StatusOr<absl::string_view> Image(const Plan& plan, int i,
                                        const fb::Kernel& k) {
  const absl::string_view file = plan.kernels();
  uint64_t end;
  if (!CheckedAdd(k.offset(), k.bytes(), &end) || end > file.size()) {
    return absl::DataLossError(
        absl::StrCat(plan.kernels_label(), ": kernel ", i, " (", Label(k),
                     ") ends at byte ", k.offset() + k.bytes(),
                     ", the file has ", file.size(), "; copy the plan again"));
  }
  const absl::string_view image = file.substr(k.offset(), k.bytes());
  if (Xxh3(image) == k.xxh3()) return image;
  return absl::DataLossError(absl::StrCat(
      plan.kernels_label(), ": kernel ", i, " (", Label(k), "), bytes ",
      k.offset(), " to ", end - 1,
      ", is damaged: its XXH3 differs from the plan's; copy the file again"));
}

// Why the driver refuses an image whose hash is right.
absl::Status Refused(const GpuContext& gpu, const Plan& plan, int i,
                     const fb::Kernel& k, CudaResult result) {
  const absl::Status why = CudaStatus(gpu.cuda(), result);
  const std::string where =
      absl::StrCat(plan.kernels_label(), ": kernel ", i, " (", Label(k), ")");
  switch (result) {
    case kCudaNoBinaryForGpu:
    case kCudaUnsupportedPtxVersion:
      return absl::FailedPreconditionError(absl::StrCat(
          where, ": ", gpu.info().Text(), " with a driver of CUDA ",
          gpu.info().driver / 1000, ".", gpu.info().driver % 1000 / 10,
          " can't run it: ", why.message(),
          "; update the driver, or recompile for this card"));
    case kCudaInvalidValue:
    case kCudaInvalidImage:
    case kCudaInvalidPtx:
    case kCudaInvalidSource:
    case kCudaNotFound:
      return absl::DataLossError(absl::StrCat(
          where, ": no kernel: ", why.message(), "; recompile the plan"));
    default:
      return Annotate(why, where);
  }
}

}  // namespace

absl::StatusOr<KernelTable> KernelTable::Load(
    const GpuContext& gpu, const Plan& plan, const fb::Target& target,
    const std::vector<const fb::Program*>& programs) {
  KernelTable out;
  out.gpu_ = &gpu;
  const int count = target.kernels() == nullptr
                        ? 0
                        : static_cast<int>(target.kernels()->size());
  out.functions_.assign(count, nullptr);
  // Most dynamic shared memory that a launch of it wants; -1: not wanted.
  std::vector<int64_t> shared(count, -1);
  for (const fb::Program* p : programs) {
    for (const fb::Step* s : *p->steps()) {
      if (s->kind() != fb::StepKind::Launch) continue;
      int64_t& most = shared[s->launch()->kernel()];
      most = std::max<int64_t>(most, s->launch()->shared_bytes());
    }
  }
  if (target.service() != nullptr) {
    for (const int32_t k : *target.service()) {
      shared[k] = std::max<int64_t>(shared[k], 0);
    }
  }
  std::map<uint64_t, CUmodule> by_offset;  // an image may hold several kernels
  for (int i = 0; i < count; ++i) {
    if (shared[i] < 0) continue;
    const fb::Kernel& k = *target.kernels()->Get(i);
    CUmodule& module = by_offset[k.offset()];
    if (module == nullptr) {
      DS_ASSIGN_OR_RETURN(const absl::string_view image, Image(plan, i, k));
      // The driver reads PTX up to a NUL.
      const std::string copy(image);
      const CudaResult r = gpu.cuda().ModuleLoadData(&module, copy.c_str());
      if (r != kCudaSuccess) return Refused(gpu, plan, i, k, r);
      out.modules_.push_back(module);
    }
    CUfunction function = nullptr;
    CudaResult r =
        gpu.cuda().ModuleGetFunction(&function, module, k.entry()->c_str());
    // Lazy loading is not for the first step, nor for a graph's capture.
    if (r == kCudaSuccess) r = gpu.cuda().FuncLoad(function);
    if (r != kCudaSuccess) return Refused(gpu, plan, i, k, r);
    // Beyond 48 KiB, static memory included, a launch wants it said before.
    if (shared[i] > 0) {
      DS_RETURN_IF_ERROR(gpu.Check(
          gpu.cuda().FuncSetAttribute(function, kFunctionMaxDynamicShared,
                                      static_cast<int>(shared[i])),
          gpu.info().Text(), ": kernel ", i, " (", Label(k), ") wants ",
          shared[i], " bytes of shared memory"));
      // The largest share of the SM's memory for those that keep rings in it:
      // kernels of different shares never overlap on an SM. Others (attention)
      // live from the L1 that is left.
      DS_RETURN_IF_ERROR(gpu.Check(
          gpu.cuda().FuncSetAttribute(function, kFunctionSharedCarveout, 100),
          gpu.info().Text(), ": kernel ", i, " (", Label(k),
          ") wants all shared memory"));
    }
    out.functions_[i] = function;
  }
  if (target.service() != nullptr) {
    for (const int32_t k : *target.service()) {
      const flatbuffers::String* label = target.kernels()->Get(k)->label();
      out.service_.emplace_back(std::string(label->data(), label->size()),
                                out.functions_[k]);
    }
  }
  return out;
}

KernelTable::~KernelTable() {
  for (CUmodule m : modules_) gpu_->cuda().ModuleUnload(m);
}

CUfunction KernelTable::service(absl::string_view label) const {
  for (const auto& [name, function] : service_) {
    if (label == absl::string_view(name)) return function;
  }
  return nullptr;
}

}  // namespace deepslice
