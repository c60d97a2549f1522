// For tests that compile kernels: leaves them out where there is no NVRTC,
// which the rest of the build does without.
#ifndef DEEPSLICE_COMPILER_JIT_NEEDS_NVRTC_H_
#define DEEPSLICE_COMPILER_JIT_NEEDS_NVRTC_H_

#include "absl/strings/match.h"
#include "compiler/jit/nvrtc.h"
#include "gtest/gtest.h"

namespace deepslice {

// One that is there and does not work is a failure, not a reason to skip.
class NeedsNvrtc : public testing::Test {
 protected:
  void SetUp() override {
    const absl::Status status = OpenNvrtc().status();
    if (absl::StartsWith(status.message(), "libnvrtc: not found")) {
      GTEST_SKIP() << "no NVRTC here; tools/setup.sh installs it";
    }
    ASSERT_TRUE(status.ok()) << status;
  }
};

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_JIT_NEEDS_NVRTC_H_
