// A plan folder, opened and checked: bytes to a view that later code may read
// without fear. No device, no rank communication. The weights stay mapped: who
// cuts that file while it is in use ends the process (mapped_fault.h).
#ifndef DEEPSLICE_RUNTIME_PLAN_H_
#define DEEPSLICE_RUNTIME_PLAN_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/synthetic_weights.h"
#include "schema/base/file.h"
#include "schema/plan_format.h"
#include "schema/plan_generated.h"

namespace deepslice {

struct LoadOptions {
  bool check_weights = true;  // XXH3 of every block of the weights file
  int threads = 1;            // for the check
};

// The plan of one rank, its FlatBuffer and weights mapped read-only.
class Plan {
 public:
  // Opens `folder`/manifest.json, then rank_NNNN.plan and .weights of `rank`.
  // Runs the FlatBuffers verifier (limits.h), then CheckPlan. Errors: NotFound
  // (no manifest, no such rank), DataLoss (damage, with file and place),
  // FailedPrecondition (newer format, not a plan for this build).
  static absl::StatusOr<Plan> Load(const std::string& folder, int rank,
                                   const LoadOptions& options = {});
  // The same from bytes, which are copied; `weights` must be the whole file,
  // and `kernels` is kernels.bin.
  // For tests and tools.
  static absl::StatusOr<Plan> FromBytes(absl::string_view plan,
                                        absl::string_view weights,
                                        absl::string_view label,
                                        const LoadOptions& options = {},
                                        absl::string_view kernels = {});

  const fb::Plan& fb() const { return *fb_; }
  absl::string_view weights() const { return weights_bytes_; }
  // The weights file; empty when the plan came FromBytes.
  const std::string& weights_path() const { return weights_file_.path(); }
  // The images of GPU targets' kernels, whose offsets and hashes nobody has
  // checked; empty when the folder holds no kernels.bin.
  absl::string_view kernels() const { return kernels_bytes_; }
  // What messages call the weights and the kernels file.
  const std::string& weights_label() const { return weights_label_; }
  const std::string& kernels_label() const { return kernels_label_; }
  // Compares all blocks of the weights file with the plan's hashes, as Load does
  // with check_weights. `checked` is told how many bytes of all were, by one
  // thread at a time; may be empty.
  absl::Status CheckWeights(
      int threads,
      const std::function<void(int64_t done, int64_t all)>& checked = {}) const;
  // DataLoss: the hash of block `index` of the weights file is not the plan's.
  absl::Status DamagedBlock(uint64_t index) const;
  // Data and scales of weight i, inside weights() or in memory that
  // FillSynthetic made; scales is nullptr when the encoding has none.
  const void* weight_data(int i) const;
  const float* weight_scales(int i) const;
  // Makes up, in host memory, the weights that are no file's; needed before
  // weight_data of one, which else is nullptr. Once for all copies of this
  // plan; safe from several threads. ResourceExhausted.
  absl::Status FillSynthetic(int threads) const;
  // The first program of that kind for the target ("cpu", "sm_90a"), or
  // nullptr. A GPU target has several step programs: see Program::bucket.
  const fb::Program* FindProgram(absl::string_view target,
                                 fb::ProgramKind kind) const;
  int rank() const { return static_cast<int>(fb_->rank()); }
  int world_size() const { return static_cast<int>(fb_->world_size()); }

 private:
  static absl::StatusOr<Plan> Check(std::shared_ptr<const std::string> plan,
                                    absl::string_view weights,
                                    absl::string_view plan_label,
                                    absl::string_view weights_label,
                                    const LoadOptions& options);

  // The FlatBuffer is a copy: nobody can change it after it was checked.
  std::shared_ptr<const std::string> plan_bytes_;
  MappedFile weights_file_;                   // of Load
  std::shared_ptr<const void> weights_copy_;  // of FromBytes
  absl::string_view weights_bytes_;
  std::string weights_label_, kernels_label_;
  MappedFile kernels_file_;                           // of Load
  std::shared_ptr<const std::string> kernels_copy_;  // of FromBytes
  absl::string_view kernels_bytes_;
  std::shared_ptr<SyntheticMemory> synthetic_;  // nullptr: there are none
  const fb::Plan* fb_ = nullptr;
};

// How many ranks the manifest of `folder` lists; its other checks as in Load.
absl::StatusOr<int> PlanWorldSize(const std::string& folder);

// The semantic check over a buffer that passed the FlatBuffers verifier: every
// index in range, enums known, sizes multiply without overflow, weights inside
// the file, aligned and apart (or the same), buffers that are alive together in
// distinct slots that are large enough at every value of their dims, reads only
// after writes, operands fit their op (count, kinds, shapes), collectives
// numbered in order with their group holding this rank, states fit the
// attention that uses them; launches within what every card takes. What a
// kernel does with its operands can't be seen: its image is trusted as code is.
// DataLoss with `label`, table, index and field; Unimplemented for encodings
// that the CPU's kernels lack.
absl::Status CheckPlan(const fb::Plan& plan, uint64_t weights_bytes,
                       absl::string_view label);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_PLAN_H_
