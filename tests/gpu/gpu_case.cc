#include "tests/gpu/gpu_case.h"

#include <cmath>
#include <numeric>
#include <utility>

#include "schema/base/check.h"
#include "schema/synthetic.h"

namespace deepslice {

double UnitRoundoff(DType t) {
  switch (t) {
    case DType::kBF16: return 0x1p-8;
    case DType::kF16: return 0x1p-11;
    default: return 0x1p-24;
  }
}

double RoundingOf(DType t, double value) {
  // Half of the step between half's smallest numbers; the others have smaller.
  const double least = t == DType::kF16 ? 0x1p-25 : 0;
  return 1.01 * (UnitRoundoff(t) * std::fabs(value) + least);
}

double GetElement(DType t, const char* p) {
  switch (t) {
    case DType::kF32: {
      float v;
      std::memcpy(&v, p, 4);
      return v;
    }
    case DType::kI32: {
      int32_t v;
      std::memcpy(&v, p, 4);
      return v;
    }
    default: {
      uint16_t v;
      std::memcpy(&v, p, 2);
      return t == DType::kF16 ? F16ToFloat(v) : BF16ToFloat(v);
    }
  }
}

void PutElement(DType t, double value, char* p) {
  switch (t) {
    case DType::kF32: {
      const float v = static_cast<float>(value);
      std::memcpy(p, &v, 4);
      return;
    }
    case DType::kI32: {
      const int32_t v = static_cast<int32_t>(value);
      std::memcpy(p, &v, 4);
      return;
    }
    default: {
      const float f = static_cast<float>(value);
      const uint16_t v = t == DType::kF16 ? FloatToF16(f) : FloatToBF16(f);
      std::memcpy(p, &v, 2);
      return;
    }
  }
}

HostTensor Encode(DType type, const std::vector<double>& values) {
  HostTensor t;
  t.type = type;
  t.values.resize(values.size());
  const int64_t size = DTypeSize(type);
  t.bytes.resize(values.size() * size);
  for (size_t i = 0; i < values.size(); ++i) {
    char* p = t.bytes.data() + i * size;
    PutElement(type, values[i], p);
    t.values[i] = GetElement(type, p);
  }
  return t;
}

uint64_t Random::Next() { return SyntheticMix(state_++); }

HostTensor Random::Tensor(DType type, int64_t count, double spread,
                          double mean) {
  std::vector<double> values(count);
  for (double& v : values) {
    v = mean + spread * std::sqrt(3.0) * (2 * Unit() - 1);
  }
  return Encode(type, values);
}

std::vector<int32_t> Random::Permutation(int64_t n) {
  std::vector<int32_t> p(n);
  std::iota(p.begin(), p.end(), 0);
  for (int64_t i = n - 1; i > 0; --i) std::swap(p[i], p[Below(i + 1)]);
  return p;
}

int GpuCase::AddBytes(std::vector<char> bytes) {
  buffers.push_back({std::move(bytes), false});
  return static_cast<int>(buffers.size()) - 1;
}

int GpuCase::AddInts(const std::vector<int32_t>& values) {
  const char* p = reinterpret_cast<const char*>(values.data());
  return AddBytes({p, p + 4 * values.size()});
}

int GpuCase::AddOutput(DType type, int64_t count) {
  return AddBytes(std::vector<char>(count * DTypeSize(type), '\xff'));
}

int GpuCase::AddZeros(int64_t bytes, bool scratch) {
  const int i = AddBytes(std::vector<char>(bytes, '\0'));
  buffers[i].scratch = scratch;
  return i;
}

void GpuCase::AddStep(const KernelSpec& spec, const StepInfo& info,
                      const std::vector<GpuParam>& operands,
                      const std::vector<GpuParam>& outputs) {
  const char* p = reinterpret_cast<const char*>(&info);
  GpuLaunch launch = {spec, info, {GpuParam::At(AddBytes({p, p + sizeof info}))}};
  launch.params.insert(launch.params.end(), operands.begin(), operands.end());
  launch.params.insert(launch.params.end(), outputs.begin(), outputs.end());
  launches.push_back(std::move(launch));
}

}  // namespace deepslice
