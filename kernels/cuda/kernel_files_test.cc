// The embedded kernel sources are whole, sorted and include only each other.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "gtest/gtest.h"
#include "kernels/cuda/kernel_spec.h"

namespace deepslice {
namespace {

// A file that meson.build forgets would compile here and fail at a user's.
TEST(KernelFiles, HoldEveryDeviceFileOfTheFolder) {
  const char* root = std::getenv("DS_SOURCE_ROOT");
  ASSERT_NE(root, nullptr);
  std::set<std::string> embedded;
  for (int i = 0; i < kKernelFilesCount; ++i) {
    embedded.insert(kKernelFiles[i].name);
    if (i > 0) {
      EXPECT_LT(std::string(kKernelFiles[i - 1].name), kKernelFiles[i].name);
    }
    std::ifstream in(std::string(root) + "/kernels/cuda/" +
                     kKernelFiles[i].name);
    std::stringstream text;
    text << in.rdbuf();
    EXPECT_EQ(text.str(), kKernelFiles[i].text) << kKernelFiles[i].name;
  }
  std::set<std::string> there;
  for (const auto& entry : std::filesystem::directory_iterator(
           std::string(root) + "/kernels/cuda")) {
    if (entry.path().extension() == ".cuh") {
      there.insert(entry.path().filename());
    }
  }
  EXPECT_EQ(embedded, there);
}

TEST(KernelFiles, IncludeOnlyEachOther) {
  std::set<std::string> names;
  for (int i = 0; i < kKernelFilesCount; ++i) names.insert(kKernelFiles[i].name);
  for (int i = 0; i < kKernelFilesCount; ++i) {
    std::istringstream text(kKernelFiles[i].text);
    std::string line;
    while (std::getline(text, line)) {
      if (line.rfind("#include", 0) != 0) continue;
      const size_t begin = line.find('"'), end = line.rfind('"');
      ASSERT_LT(begin, end) << kKernelFiles[i].name << ": " << line;
      EXPECT_EQ(names.count(line.substr(begin + 1, end - begin - 1)), 1u)
          << kKernelFiles[i].name << ": " << line;
    }
  }
}

TEST(CudaTypeName, IsTheTypeOfBaseCuh) {
  EXPECT_EQ(CudaTypeName(DType::kF32), "float");
  EXPECT_EQ(CudaTypeName(DType::kF16), "half_t");
  EXPECT_EQ(CudaTypeName(DType::kBF16), "bf16");
}

}  // namespace
}  // namespace deepslice
