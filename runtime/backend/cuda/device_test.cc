#include "runtime/backend/cuda/device.h"

#include "gtest/gtest.h"
#include "runtime/testing/fake_gpu.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

TEST(GpuContext, DescribesTheDevice) {
  FakeGpu fake;
  fake.device_count = 2;
  auto gpu = GpuContext::Open(fake.cuda(), 1);
  ASSERT_TRUE(gpu.ok()) << gpu.status();
  EXPECT_EQ((*gpu)->info().Text(), "device 1 (Fake H200, sm_90)");
  EXPECT_EQ(fake.contexts, 1);
  gpu->reset();
  EXPECT_EQ(fake.contexts, 0);
}

TEST(GpuContext, RefusesADriverThatIsTooOld) {
  FakeGpu fake;
  fake.driver = 12040;
  const absl::Status s = GpuContext::Open(fake.cuda(), 0).status();
  EXPECT_EQ(s.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(
      s.message(),
      "libcuda.so.1: the driver is of CUDA 12.4; CUDA 13.0 or newer is "
      "needed (driver 580); update the driver, or use a plan with target cpu");
}

TEST(GpuContext, RefusesADeviceThatIsNotThere) {
  FakeGpu fake;
  fake.device_count = 2;
  const absl::Status s = GpuContext::Open(fake.cuda(), 2).status();
  EXPECT_EQ(s.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(s.message(),
            "device 2: this process sees 2 GPUs; --device cuda:0 to cuda:1 are "
            "allowed");
  fake.device_count = 0;
  EXPECT_EQ(GpuContext::Open(fake.cuda(), 0).status().code(),
            absl::StatusCode::kFailedPrecondition);
  auto count = CountDevices(fake.cuda());
  ASSERT_TRUE(count.ok());
  EXPECT_EQ(*count, 0);
}

TEST(DeviceMemory, FreesItselfAndSaysHowMuchIsTooMuch) {
  FakeGpu fake;
  fake.memory_bytes = 1 << 20;
  auto gpu = GpuContext::Open(fake.cuda(), 0);
  ASSERT_TRUE(gpu.ok());
  {
    auto memory = DeviceMemory::Make(**gpu, 700'001, "arena");
    ASSERT_TRUE(memory.ok()) << memory.status();
    EXPECT_EQ(fake.allocated(), 700'001);
    const absl::Status s = DeviceMemory::Make(**gpu, 700'001, "cache").status();
    EXPECT_EQ(s.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(s.message(),
              "device 0 (Fake H200, sm_90): cache, 700001 bytes: "
              "CUDA_ERROR_OUT_OF_MEMORY (2): out of memory");
  }
  EXPECT_EQ(fake.allocated(), 0);
}

}  // namespace
}  // namespace deepslice
