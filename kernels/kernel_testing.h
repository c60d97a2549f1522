// Random operands in every encoding, and comparison with the truth; tests only.
#ifndef DEEPSLICE_KERNELS_KERNEL_TESTING_H_
#define DEEPSLICE_KERNELS_KERNEL_TESTING_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/cpu.h"
#include "kernels/reference.h"
#include "kernels/simd_targets.h"
#include "schema/base/dtype.h"
#include "schema/encoding.h"

// After simd_targets.h.
#include "hwy/highway.h"

namespace deepslice {

// A tensor twice: as the CPU kernel reads it, and what exactly that means.
class TestOperand {
 public:
  // Normally distributed values, rounded to `encoding`; a vector when rows < 0.
  static TestOperand Random(std::mt19937* rng, int64_t rows, int64_t cols,
                            Encoding encoding = Encoding::kF32,
                            float spread = 1.0f) {
    TestOperand t;
    t.encoding_ = encoding;
    t.rows_ = rows < 0 ? 1 : rows;
    t.cols_ = cols;
    t.truth_.shape = rows < 0 ? std::vector<int64_t>{cols}
                              : std::vector<int64_t>{rows, cols};
    std::normal_distribution<float> normal(0.0f, spread);
    std::uniform_int_distribution<int> byte(-127, 127);
    for (int64_t r = 0; r < t.rows_; ++r) {
      const float scale = 0.001f * (1 + r % 7);
      if (encoding == Encoding::kI8Row) t.scales_.push_back(scale);
      for (int64_t c = 0; c < cols; ++c) {
        if (encoding == Encoding::kI8Row) {
          const int8_t q = static_cast<int8_t>(byte(*rng));
          t.Append(q);
          t.truth_.data.push_back(static_cast<double>(q) * scale);
        } else {
          t.AppendFloat(normal(*rng));
        }
      }
    }
    return t;
  }
  static TestOperand Ints(std::vector<int32_t> values) {
    TestOperand t;
    t.rows_ = 1;
    t.cols_ = static_cast<int64_t>(values.size());
    t.truth_.shape = {t.cols_};
    for (int32_t v : values) {
      t.Append(v);
      t.truth_.data.push_back(v);
    }
    return t;
  }
  static TestOperand IntMatrix(int64_t rows, int64_t cols,
                               std::vector<int32_t> values) {
    TestOperand t = Ints(std::move(values));
    t.rows_ = rows;
    t.cols_ = cols;
    t.truth_.shape = {rows, cols};
    return t;
  }
  static TestOperand Floats(int64_t rows, int64_t cols,
                            const std::vector<float>& values) {
    TestOperand t;
    t.rows_ = rows;
    t.cols_ = cols;
    t.truth_.shape = {rows, cols};
    for (float v : values) t.AppendFloat(v);
    return t;
  }

  CpuOperand cpu() const {
    CpuOperand o;
    // A tensor without elements is there all the same.
    o.data = bytes_.empty() ? static_cast<const void*>(this) : bytes_.data();
    o.encoding = encoding_;
    o.scales = scales_.empty() ? nullptr : scales_.data();
    o.rows = rows_;
    o.cols = cols_;
    return o;
  }
  const RefTensor& truth() const { return truth_; }
  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }

 private:
  template <typename T>
  void Append(T value) {
    const size_t at = bytes_.size();
    bytes_.resize(at + sizeof(T));
    std::memcpy(bytes_.data() + at, &value, sizeof(T));
  }
  void AppendFloat(float v) {
    if (encoding_ == Encoding::kF16) {
      const uint16_t h = FloatToF16(v);
      Append(h);
      v = F16ToFloat(h);
    } else if (encoding_ == Encoding::kBF16) {
      const uint16_t h = FloatToBF16(v);
      Append(h);
      v = BF16ToFloat(h);
    } else {
      Append(v);
    }
    truth_.data.push_back(v);
  }

  // Exactly as long as the data, so that reads beyond are seen by sanitizers.
  std::vector<char> bytes_;
  std::vector<float> scales_;
  Encoding encoding_ = Encoding::kF32;
  int64_t rows_ = 0, cols_ = 0;
  RefTensor truth_;
};

// Every |got - want| <= absolute + relative * |want|; prints the first that
// is not.
inline testing::AssertionResult Close(const std::vector<float>& got,
                                      const RefTensor& want, double relative,
                                      double absolute, const std::string& what,
                                      uint32_t seed) {
  if (got.size() != want.data.size()) {
    return testing::AssertionFailure()
           << what << ": " << got.size() << " values, not " << want.data.size();
  }
  for (size_t i = 0; i < got.size(); ++i) {
    const double allowed = absolute + relative * std::fabs(want.data[i]);
    if (!(std::fabs(got[i] - want.data[i]) <= allowed)) {
      return testing::AssertionFailure()
             << what << ", seed " << seed << ": index " << i << " (row "
             << i / std::max<int64_t>(1, want.cols()) << "): got " << got[i]
             << ", want " << want.data[i] << ", allowed off by " << allowed;
    }
  }
  return testing::AssertionSuccess();
}

// Calls f(name) once with each instruction set that was compiled
// and that this machine has.
template <typename F>
void ForEachTarget(F f) {
  const int64_t supported = hwy::SupportedTargets() & HWY_TARGETS;
  for (int64_t left = supported; left != 0; left &= left - 1) {
    const int64_t target = left & -left;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    f(std::string(hwy::TargetName(target)));
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

// Floats before and after an output, to see writes beyond its ends.
class GuardedOutput {
 public:
  explicit GuardedOutput(int64_t count)
      : data_(count + 2 * kGuard, kMark), count_(count) {}
  float* data() { return data_.data() + kGuard; }
  std::vector<float> values() const {
    return std::vector<float>(data_.begin() + kGuard, data_.end() - kGuard);
  }
  bool intact() const {
    for (int64_t i = 0; i < kGuard; ++i) {
      if (data_[i] != kMark || data_[kGuard + count_ + i] != kMark) {
        return false;
      }
    }
    return true;
  }

 private:
  static constexpr int64_t kGuard = 64;
  static constexpr float kMark = 12345.0f;
  std::vector<float> data_;
  int64_t count_;
};

// Scratch of the size that the kernel asks for and not one byte more.
class TestScratch {
 public:
  explicit TestScratch(int64_t bytes) : data_(bytes + 64 + kGuard, kMark) {
    const uintptr_t at = reinterpret_cast<uintptr_t>(data_.data());
    offset_ = (64 - at % 64) % 64;
    end_ = offset_ + bytes;
  }
  void* data() { return data_.data() + offset_; }
  bool intact() const {
    for (int64_t i = 0; i < kGuard; ++i) {
      if (data_[end_ + i] != kMark) return false;
    }
    return true;
  }

 private:
  static constexpr int64_t kGuard = 256;
  static constexpr char kMark = 0x5a;
  std::vector<char> data_;
  int64_t offset_ = 0, end_ = 0;
};

}  // namespace deepslice

#endif  // DEEPSLICE_KERNELS_KERNEL_TESTING_H_
