#include "runtime/api/device_choice.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace deepslice {

absl::Status ParseDevice(absl::string_view text, DeviceChoice* choice) {
  using Kind = DeviceChoice::Kind;
  choice->ordinal = -1;
  if (text == "auto" || text == "cpu") {
    choice->kind = text == "cpu" ? Kind::kCpu : Kind::kAuto;
    return absl::OkStatus();
  }
  choice->kind = Kind::kCuda;
  absl::string_view number = text;
  const bool prefixed = absl::ConsumePrefix(&number, "cuda:");
  if (!prefixed && (text == "cuda" || text == "gpu")) return absl::OkStatus();
  if (absl::SimpleAtoi(number, &choice->ordinal) && choice->ordinal >= 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "found \"", text, "\"; auto, cpu, cuda or cuda:N is allowed"));
}

}  // namespace deepslice
