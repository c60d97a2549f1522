// Which of a plan's targets a device can run.
#ifndef DEEPSLICE_RUNTIME_BACKEND_CUDA_TARGET_CHOICE_H_
#define DEEPSLICE_RUNTIME_BACKEND_CUDA_TARGET_CHOICE_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/backend/cuda/device.h"
#include "runtime/plan.h"

namespace deepslice {

// The target whose kernels fit best: of this very architecture ("sm_90a" on
// 9.0), then a binary of the same major number and the highest minor at most
// the device's ("sm_86" on 8.9; not one that ends in "a"), then PTX
// ("compute_80") of the highest number at most the device's. FailedPrecondition
// naming both when none fits.
absl::StatusOr<const fb::Target*> ChooseTarget(const Plan& plan,
                                               const DeviceInfo& device);

// How well target `name` fits a device of major.minor: 0 when not at all, else
// the higher the better.
int TargetFit(absl::string_view name, int major, int minor);

// Whether the target's kernels wait for the step before by themselves, so that
// they may be launched before it has ended: from architecture 9.0 on, whatever
// card they run on.
bool KernelsMayOverlap(absl::string_view name);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_BACKEND_CUDA_TARGET_CHOICE_H_
