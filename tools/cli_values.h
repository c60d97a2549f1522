// Checks and conversions of values that flags take.
#ifndef DEEPSLICE_TOOLS_CLI_VALUES_H_
#define DEEPSLICE_TOOLS_CLI_VALUES_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace deepslice {

// "80GiB", "80G" (1024^3, as "80Gi"), "80GB" (1000^3), "80e9", "1.5M", "4096".
// Whole bytes from 0 to 2^62; InvalidArgument else.
absl::StatusOr<int64_t> ParseByteSize(absl::string_view text);

// "30s", "500ms", "2m", "1h30m"; a bare number is seconds. From 0 on;
// InvalidArgument else.
absl::StatusOr<absl::Duration> ParseDurationText(absl::string_view text);

// For Option::transform, since they put what the flag's variable can read in
// place of the text: bytes, or seconds with a fraction where needed, as digits.
CLI::Validator ByteSize(int64_t low, int64_t high);
CLI::Validator DurationSeconds(absl::Duration low, absl::Duration high);

// For Option::transform: one of the names, upper and lower case, `-` and `_`
// alike; a wrong one is told with the nearest.
CLI::Validator OneOf(std::vector<std::string> names);

}  // namespace deepslice

#endif  // DEEPSLICE_TOOLS_CLI_VALUES_H_
