// Which device a rank runs on, as far as a person says.
#ifndef DEEPSLICE_RUNTIME_API_DEVICE_CHOICE_H_
#define DEEPSLICE_RUNTIME_API_DEVICE_CHOICE_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace deepslice {

struct DeviceChoice {
  // kAuto: a GPU that one of the plan's targets fits, else the CPU where the
  // plan has that target.
  enum class Kind { kAuto, kCpu, kCuda } kind = Kind::kAuto;
  int ordinal = -1;        // of the GPU; -1: the local rank, or 0 when shared
  bool share_gpu = false;  // all local ranks on one GPU
  // How long a rank waits for the others to come.
  absl::Duration init_timeout = absl::Seconds(60);
  // As NcclOptions::on_stuck.
  std::function<void(const absl::Status&)> on_stuck;
};

// "auto", "cpu", "cuda", "cuda:1" or "1" into `choice`; InvalidArgument.
absl::Status ParseDevice(absl::string_view text, DeviceChoice* choice);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_API_DEVICE_CHOICE_H_
