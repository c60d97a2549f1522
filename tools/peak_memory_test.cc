#include "tools/peak_memory.h"

#include <vector>

#include "gtest/gtest.h"

namespace deepslice {
namespace {

TEST(PeakMemory, CountsWhatWasGivenBack) {
  constexpr size_t kHeld = size_t{64} << 20;
  EXPECT_GT(PeakMemory(), 0);
  {
    std::vector<char> held(kHeld, 1);
    EXPECT_EQ(static_cast<volatile char*>(held.data())[kHeld - 1], 1);
  }
  EXPECT_GT(PeakMemory(), kHeld);
}

}  // namespace
}  // namespace deepslice
