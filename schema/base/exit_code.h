// Exit codes of the four commands, and the line a failure prints.
#ifndef DEEPSLICE_SCHEMA_BASE_EXIT_CODE_H_
#define DEEPSLICE_SCHEMA_BASE_EXIT_CODE_H_

#include "absl/status/status.h"

namespace deepslice {

inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitBadInput = 3;
inline constexpr int kExitUnsupported = 4;
inline constexpr int kExitRankFailed = 5;
inline constexpr int kExitInterrupted = 130;
// As of a program that SIGPIPE ends: `dsplan inspect plan/ | head`.
inline constexpr int kExitBrokenPipe = 141;

inline int ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitDone;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kDataLoss:
      return kExitBadInput;
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnimplemented:
      return kExitUnsupported;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kAborted:
      return kExitRankFailed;
    default:
      return kExitFailed;
  }
}

}  // namespace deepslice

#endif  // DEEPSLICE_SCHEMA_BASE_EXIT_CODE_H_
