// A case of the GPU check: kernels, the memory they run on, and what it must
// hold afterwards. Plain data, made on any thread without a device.
#ifndef DEEPSLICE_TESTS_GPU_GPU_CASE_H_
#define DEEPSLICE_TESTS_GPU_GPU_CASE_H_

#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "kernels/cuda/kernel_spec.h"
#include "schema/base/dtype.h"
#include "schema/plan_format.h"

namespace deepslice {

// Half of the distance of 1 to the next number.
double UnitRoundoff(DType t);
// The most by which `value` changes when it is rounded to `t`.
double RoundingOf(DType t, double value);
// One element of float, half, bfloat or int32.
double GetElement(DType t, const char* p);
void PutElement(DType t, double value, char* p);

// Elements in a type, as bytes and as what exactly those mean.
struct HostTensor {
  DType type = DType::kF32;
  std::vector<double> values;
  std::vector<char> bytes;
};
HostTensor Encode(DType type, const std::vector<double>& values);

// Uniform numbers that depend on the seed alone.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next();
  // In [0, 1).
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1p-53; }
  // Of [0, n).
  int64_t Below(int64_t n) { return static_cast<int64_t>(Next() % n); }
  // Mean `mean`, standard deviation `spread`, rounded to `type`.
  HostTensor Tensor(DType type, int64_t count, double spread, double mean = 0);
  // 0..n-1 in any order.
  std::vector<int32_t> Permutation(int64_t n);

 private:
  uint64_t state_;
};

// In a GpuCheck: these bytes must not have been written.
inline constexpr double kUntouched = std::numeric_limits<double>::quiet_NaN();

struct GpuBuffer {
  std::vector<char> bytes;  // before each run; 0xFF for outputs
  bool scratch = false;     // what it holds afterwards does not matter
};

// A pointer into a buffer, null, or a value of up to 8 bytes.
struct GpuParam {
  int buffer = -1;
  int64_t offset = 0;  // bytes
  uint64_t value = 0;  // when there is no buffer

  static GpuParam Null() { return {}; }
  static GpuParam At(int buffer, int64_t offset = 0) {
    return {buffer, offset, 0};
  }
  template <typename T>
  static GpuParam Value(T v) {
    GpuParam p;
    static_assert(sizeof(T) <= 8);
    std::memcpy(&p.value, &v, sizeof(T));
    return p;
  }
};

struct GpuLaunch {
  KernelSpec spec;
  StepInfo info = {};  // for the grid
  std::vector<GpuParam> params;
};

// |got - want| <= allowed for every element of a buffer.
struct GpuCheck {
  int buffer = 0;
  DType type = DType::kF32;
  std::vector<double> want;
  std::vector<double> allowed;  // or empty: exact
};

struct GpuCase {
  std::vector<GpuBuffer> buffers;
  std::vector<GpuLaunch> launches;
  // Buffers without a check, scratch apart, must be as they were.
  std::vector<GpuCheck> checks;

  int Add(const HostTensor& t) { return AddBytes(t.bytes); }
  int AddBytes(std::vector<char> bytes);
  int AddInts(const std::vector<int32_t>& values);
  // Poisoned.
  int AddOutput(DType type, int64_t count);
  int AddZeros(int64_t bytes, bool scratch = false);
  // By the rule of LaunchStep.
  void AddStep(const KernelSpec& spec, const StepInfo& info,
               const std::vector<GpuParam>& operands,
               const std::vector<GpuParam>& outputs);
};

// A case by name: its kernels at once, since they are compiled all together,
// its data when it is run.
struct GpuCaseEntry {
  std::string name;
  std::vector<KernelSpec> specs;
  std::function<GpuCase()> make;
};

// Where entries of one family are added; `target` chooses instances.
using AddCases = void (*)(const GpuTarget& target,
                          std::vector<GpuCaseEntry>* entries);
void AddLinearCases(const GpuTarget& target, std::vector<GpuCaseEntry>*);
void AddDecodeCases(const GpuTarget& target, std::vector<GpuCaseEntry>*);
void AddTileCases(const GpuTarget& target, std::vector<GpuCaseEntry>*);
void AddLatentCases(const GpuTarget& target, std::vector<GpuCaseEntry>*);
void AddRowsCases(const GpuTarget& target, std::vector<GpuCaseEntry>*);
void AddEncoderCases(const GpuTarget& target, std::vector<GpuCaseEntry>*);
void AddCrossCases(const GpuTarget& target, std::vector<GpuCaseEntry>*);
void AddHeadCases(const GpuTarget& target, std::vector<GpuCaseEntry>*);
void AddSampleCases(const GpuTarget& target, std::vector<GpuCaseEntry>*);
void AddServiceCases(const GpuTarget& target, std::vector<GpuCaseEntry>*);

}  // namespace deepslice

#endif  // DEEPSLICE_TESTS_GPU_GPU_CASE_H_
