// Random weights against schema/synthetic.h, bit for bit.
#include "absl/strings/str_cat.h"
#include "kernels/cuda/service.h"
#include "schema/synthetic.h"
#include "tests/gpu/gpu_case.h"

namespace deepslice {
namespace {

struct Fill {
  int64_t rows, cols, row_stride, rows_begin, cols_begin;
  float mean, scale;
};

GpuCase MakeFill(const KernelSpec& spec, DType type, const Fill& f) {
  const uint64_t key = SyntheticTensorKey(17, "layers.3.mlp");
  const int64_t count = f.rows * f.row_stride + 5;
  std::vector<double> want(count, kUntouched);
  for (int64_t r = 0; r < f.rows; ++r) {
    for (int64_t c = 0; c < f.cols; ++c) {
      // Two roundings, as on the device.
      const float scaled =
          f.scale * SyntheticUnit(key, f.rows_begin + r, f.cols_begin + c);
      want[r * f.row_stride + c] = f.mean + scaled;
    }
  }
  for (double& w : want) {
    if (w == w) w = Encode(type, {w}).values[0];
  }
  GpuCase c;
  const int out = c.AddOutput(type, count);
  GpuLaunch launch;
  launch.spec = spec;
  launch.params = {GpuParam::At(out),
                   GpuParam::Value(key),
                   GpuParam::Value(f.row_stride),
                   GpuParam::Value(f.rows),
                   GpuParam::Value(f.cols),
                   GpuParam::Value(f.rows_begin),
                   GpuParam::Value(f.cols_begin),
                   GpuParam::Value(f.mean),
                   GpuParam::Value(f.scale)};
  c.launches.push_back(launch);
  c.checks.push_back({out, type, want, {}});
  return c;
}

GpuCase MakeRead(const KernelSpec& spec) {
  GpuCase c;
  const int64_t count = 1234567;
  Random random(5);
  std::vector<char> bytes(16 * count);
  for (size_t i = 0; i + 8 <= bytes.size(); i += 8) {
    const uint64_t x = random.Next();
    std::memcpy(bytes.data() + i, &x, 8);
  }
  const int data = c.AddBytes(std::move(bytes));
  const int sink = c.AddZeros(4, true);
  GpuLaunch launch;
  launch.spec = spec;
  launch.params = {GpuParam::At(data), GpuParam::Value(count),
                   GpuParam::At(sink)};
  c.launches.push_back(launch);
  return c;
}

}  // namespace

void AddServiceCases(const GpuTarget& target,
                     std::vector<GpuCaseEntry>* entries) {
  const Fill fills[] = {
      {37, 131, 131, 0, 0, 0.0f, 1.0f},
      {5, 5000, 5003, 7, 11, 1.0f, 0.3f},
      {4097, 1, 1, 1 << 20, 0, 1.0f, 1.0f},
      {3, 2049, 6147, 0, 1ll << 33, -0.7f, 0.01f},
  };
  for (const KernelSpec& spec : ServiceKernels(target)) {
    for (DType t : {DType::kF32, DType::kF16, DType::kBF16}) {
      if (spec.label != absl::StrCat("fill_random ", DTypeName(t))) continue;
      for (const Fill& f : fills) {
        entries->push_back(
            {absl::StrCat(spec.label, " ", f.rows, "x", f.cols), {spec}, [=] {
               return MakeFill(spec, t, f);
             }});
      }
    }
    if (spec.label == "read_bandwidth") {
      entries->push_back(
          {spec.label, {spec}, [=] { return MakeRead(spec); }});
    }
  }
}

}  // namespace deepslice
