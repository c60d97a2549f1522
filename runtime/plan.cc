#include "runtime/plan.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "flatbuffers/flatbuffers.h"
#include "runtime/manifest.h"
#include "schema/base/checked_math.h"
#include "schema/base/digest.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"
#include "schema/encoding.h"

namespace deepslice {
namespace {

// Root offset, identifier, and the smallest table with its vtable.
constexpr size_t kSmallestPlan = 16;
constexpr char kKernelsFile[] = "kernels.bin";
constexpr std::align_val_t kWeightAlignment{256};

absl::Status CheckFormat(const fb::Plan& plan, absl::string_view label) {
  if (plan.format_version() > kPlanFormatVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat(label, ": made by plan format ", plan.format_version(),
                     "; this build reads up to ", kPlanFormatVersion,
                     "; rebuild the plan or update"));
  }
  if (plan.format_version() == 0) {
    return absl::DataLossError(
        absl::StrCat(label, ": format_version 0; 1 to ", kPlanFormatVersion,
                     " are allowed; copy the plan again"));
  }
  return absl::OkStatus();
}

// The first weight with a byte in [begin, end), for people.
std::string WeightAt(const fb::Plan& plan, uint64_t begin, uint64_t end) {
  for (const fb::Weight* w : *plan.weights()) {
    if (w->offset() < end && begin < w->offset() + w->bytes()) {
      return absl::StrCat(" (in @", absl::CHexEscape(w->name()->c_str()), ")");
    }
  }
  return "";
}

// Hashes blocks by `threads` threads; the first damaged one, or -1.
int64_t FindDamagedBlock(
    const fb::Plan& plan, absl::string_view weights, int threads,
    const std::function<void(int64_t done, int64_t all)>& checked) {
  const uint64_t num_blocks = plan.weights_xxh3()->size();
  std::atomic<uint64_t> next{0}, first_bad{num_blocks};
  std::mutex mutex;  // of `done` and `checked`
  int64_t done = 0;
  const auto work = [&] {
    for (;;) {
      const uint64_t b = next.fetch_add(1, std::memory_order_relaxed);
      if (b >= first_bad.load(std::memory_order_relaxed)) return;
      const absl::string_view block =
          weights.substr(b * kHashBlock, kHashBlock);
      if (Xxh3(block) == plan.weights_xxh3()->Get(b)) {
        if (!checked) continue;
        const std::lock_guard<std::mutex> lock(mutex);
        done += static_cast<int64_t>(block.size());
        checked(done, static_cast<int64_t>(weights.size()));
        continue;
      }
      uint64_t seen = first_bad.load();
      while (b < seen && !first_bad.compare_exchange_weak(seen, b)) {
      }
    }
  };
  std::vector<std::thread> helpers;
  const uint64_t wanted = std::min<uint64_t>(std::max(threads, 1), num_blocks);
  for (uint64_t i = 1; i < wanted; ++i) helpers.emplace_back(work);
  work();
  for (std::thread& t : helpers) t.join();
  const uint64_t bad = first_bad.load();
  return bad == num_blocks ? -1 : static_cast<int64_t>(bad);
}

}  // namespace

absl::StatusOr<Plan> Plan::Check(std::shared_ptr<const std::string> plan,
                                 absl::string_view weights,
                                 absl::string_view plan_label,
                                 absl::string_view weights_label,
                                 const LoadOptions& options) {
  const auto damaged = [&](const auto&... what) {
    return absl::DataLossError(
        absl::StrCat(plan_label, ": ", what..., "; copy the plan again"));
  };
  if (plan->size() < kSmallestPlan ||
      plan->size() > static_cast<size_t>(limits::kPlanBytes)) {
    return damaged(plan->size(), " bytes; ", kSmallestPlan, " to ",
                   limits::kPlanBytes, " are allowed");
  }
  const auto* data = reinterpret_cast<const uint8_t*>(plan->data());
  if (!fb::PlanBufferHasIdentifier(data)) {
    return damaged("no plan: bytes 4 to 7 are not \"", fb::PlanIdentifier(),
                   "\"");
  }
  flatbuffers::Verifier verifier(data, plan->size(), limits::kPlanDepth,
                                 limits::kPlanTables);
  if (!fb::VerifyPlanBuffer(verifier)) {
    return damaged(
        "not a whole FlatBuffer: an offset or a size points "
        "outside the file's ",
        plan->size(), " bytes");
  }
  Plan out;
  out.plan_bytes_ = std::move(plan);
  out.weights_bytes_ = weights;
  out.weights_label_ = std::string(weights_label);
  out.fb_ = fb::GetPlan(data);
  DS_RETURN_IF_ERROR(CheckFormat(*out.fb_, plan_label));
  if (weights.size() != out.fb_->weights_bytes()) {
    return absl::DataLossError(absl::StrCat(
        weights_label, ": has ", weights.size(), " bytes, its plan says ",
        out.fb_->weights_bytes(), "; copy the file again"));
  }
  DS_RETURN_IF_ERROR(CheckPlan(*out.fb_, weights.size(), plan_label));
  if (WeightMemoryBytes(*out.fb_) > weights.size()) {
    out.synthetic_ = std::make_shared<SyntheticMemory>(*out.fb_);
  }
  if (options.check_weights) {
    DS_RETURN_IF_ERROR(out.CheckWeights(options.threads));
  }
  return out;
}

absl::StatusOr<Plan> Plan::FromBytes(absl::string_view plan,
                                     absl::string_view weights,
                                     absl::string_view label,
                                     const LoadOptions& options,
                                     absl::string_view kernels) {
  // Aligned as a mapped file would be.
  std::shared_ptr<char> copy(
      static_cast<char*>(operator new(weights.size(), kWeightAlignment)),
      [](char* p) { operator delete(p, kWeightAlignment); });
  if (!weights.empty()) {
    std::memcpy(copy.get(), weights.data(), weights.size());
  }
  DS_ASSIGN_OR_RETURN(
      Plan out, Check(std::make_shared<const std::string>(plan),
                      absl::string_view(copy.get(), weights.size()), label,
                      absl::StrCat(label, " (weights)"), options));
  out.weights_copy_ = std::move(copy);
  out.kernels_copy_ = std::make_shared<const std::string>(kernels);
  out.kernels_bytes_ = *out.kernels_copy_;
  out.kernels_label_ = absl::StrCat(label, " (kernels)");
  return out;
}

absl::StatusOr<Plan> Plan::Load(const std::string& folder, int rank,
                                const LoadOptions& options) {
  DS_ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(folder));
  if (rank < 0 || rank >= manifest.world_size) {
    return absl::NotFoundError(absl::StrCat(
        folder, ": rank ", rank, ": the plan is for ", manifest.world_size,
        manifest.world_size == 1 ? " rank, 0" : " ranks, 0 to ",
        manifest.world_size == 1 ? "" : absl::StrCat(manifest.world_size - 1)));
  }
  const std::string plan_path = JoinPath(folder, RankFileName(rank, ".plan"));
  const std::string weights_path =
      JoinPath(folder, RankFileName(rank, ".weights"));
  DS_ASSIGN_OR_RETURN(std::string bytes,
                      ReadFile(plan_path, limits::kPlanBytes));
  // Its tokenizer and its constants have no other check, and it is small.
  const ManifestFile* listed = manifest.Find(RankFileName(rank, ".plan"));
  if (listed == nullptr || Sha256Hex(bytes) != listed->sha256) {
    return absl::DataLossError(absl::StrCat(
        plan_path,
        ": is damaged, or of another plan: its SHA-256 is not that of "
        "manifest.json; copy the plan again"));
  }
  DS_ASSIGN_OR_RETURN(MappedFile weights, MappedFile::Open(weights_path));
  DS_ASSIGN_OR_RETURN(
      Plan out, Check(std::make_shared<const std::string>(std::move(bytes)),
                      weights.bytes(), plan_path, weights_path, options));
  out.weights_file_ = std::move(weights);
  const auto other = [&](const auto&... what) {
    return absl::DataLossError(
        absl::StrCat(plan_path, ": ", what..., "; copy the plan again"));
  };
  if (out.fb().plan_set_id()->string_view() !=
      std::string_view(manifest.plan_set_id)) {
    return other("of plan set ",
                 absl::CHexEscape(out.fb().plan_set_id()->c_str()),
                 ", manifest.json of ", absl::CHexEscape(manifest.plan_set_id));
  }
  if (out.world_size() != manifest.world_size) {
    return other("for ", out.world_size(), " ranks, manifest.json for ",
                 manifest.world_size);
  }
  if (out.rank() != rank) return other("holds the plan of rank ", out.rank());
  out.kernels_label_ = JoinPath(folder, kKernelsFile);
  if (FileExists(out.kernels_label_)) {
    DS_ASSIGN_OR_RETURN(out.kernels_file_,
                        MappedFile::Open(out.kernels_label_));
    out.kernels_bytes_ = out.kernels_file_.bytes();
  }
  return out;
}

absl::Status Plan::CheckWeights(
    int threads,
    const std::function<void(int64_t done, int64_t all)>& checked) const {
  const int64_t bad = FindDamagedBlock(*fb_, weights_bytes_, threads, checked);
  return bad < 0 ? absl::OkStatus() : DamagedBlock(bad);
}

absl::Status Plan::DamagedBlock(uint64_t index) const {
  const uint64_t begin = index * kHashBlock;
  const uint64_t end =
      std::min<uint64_t>(begin + kHashBlock, weights_bytes_.size());
  return absl::DataLossError(absl::StrCat(
      weights_label_, ": block ", index, ", bytes ", begin, " to ", end - 1,
      WeightAt(*fb_, begin, end),
      ", is damaged: its XXH3 differs from the plan's; copy the file again"));
}

const void* Plan::weight_data(int i) const {
  const fb::Weight* w = fb_->weights()->Get(i);
  if (w->origin() != fb::WeightOrigin::File) {
    return synthetic_ == nullptr ? nullptr : synthetic_->data(*w);
  }
  return weights_bytes_.data() + w->offset();
}

const float* Plan::weight_scales(int i) const {
  const fb::Weight* w = fb_->weights()->Get(i);
  if (w->origin() != fb::WeightOrigin::File ||
      !IsQuantized(static_cast<Encoding>(w->encoding()))) {
    return nullptr;
  }
  return reinterpret_cast<const float*>(weights_bytes_.data() +
                                        w->scales_offset());
}

absl::Status Plan::FillSynthetic(int threads) const {
  return synthetic_ == nullptr ? absl::OkStatus() : synthetic_->Fill(threads);
}

const fb::Program* Plan::FindProgram(absl::string_view target,
                                     fb::ProgramKind kind) const {
  for (const fb::Target* t : *fb_->targets()) {
    if (absl::string_view(t->name()->data(), t->name()->size()) != target) {
      continue;
    }
    for (const fb::Program* p : *t->programs()) {
      if (p->kind() == kind) return p;
    }
  }
  return nullptr;
}

absl::StatusOr<int> PlanWorldSize(const std::string& folder) {
  DS_ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(folder));
  return manifest.world_size;
}

}  // namespace deepslice
