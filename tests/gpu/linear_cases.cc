// Fused linears of few tokens against double sums.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/linear.h"
#include "kernels/cuda/linear_tiling.h"
#include "kernels/ref_util.h"
#include "tests/gpu/gpu_case.h"

namespace deepslice {
namespace {

// A sum and how far a kernel's may be off.
struct Sum {
  double value = 0, allowed = 0;
};

// The norm's output for one row; x itself without.
std::vector<double> NormOf(const LinearShape& s, const double* x,
                           const HostTensor& scale, const HostTensor& bias) {
  std::vector<double> y(x, x + s.in);
  if (s.norm == FusedNorm::kNone) return y;
  double mean = 0, squares = 0;
  if (s.norm == FusedNorm::kLayer) {
    for (double v : y) mean += v / s.in;
  }
  for (double v : y) squares += (v - mean) * (v - mean);
  const double inverse = 1 / std::sqrt(squares / s.in + s.eps);
  for (int64_t k = 0; k < s.in; ++k) {
    y[k] = (y[k] - mean) * inverse * scale.values[k];
    if (s.norm_bias) y[k] += bias.values[k];
  }
  return y;
}

// Products are exact in float; what the norm makes is rounded to x's type
// before it meets the weight.
Sum Dot(const LinearShape& s, const std::vector<double>& x, const double* w) {
  Sum sum;
  double squares = 0;
  for (int64_t k = 0; k < s.in; ++k) {
    const double product = x[k] * w[k];
    sum.value += product;
    squares += product * product;
  }
  const double input = s.norm == FusedNorm::kNone ? 0 : UnitRoundoff(s.x);
  sum.allowed =
      std::sqrt(squares) * (6 * input + 0x1p-21 * std::sqrt(double(s.in))) +
      0x1p-22;
  return sum;
}

GpuCase Make(const KernelSpec& spec, const LinearShape& s, int64_t count) {
  Random random(s.in * 7919 + s.out * 31 + s.tokens);
  const int64_t x_rows = s.tokens + (s.gather ? 4 : 0);
  const int64_t y_cols = s.gated ? s.out / 2 : s.out;
  const bool layer = s.norm == FusedNorm::kLayer;
  const HostTensor x =
      random.Tensor(s.x, x_rows * s.x_stride, 1.2, layer ? 0.5 : 0);
  const HostTensor w =
      random.Tensor(s.weight, s.out * s.in, 1 / std::sqrt(double(s.in)));
  const HostTensor scale = random.Tensor(DType::kF32, s.in, 0.3, 1);
  const HostTensor norm_bias = random.Tensor(DType::kF32, s.in, 0.3);
  const HostTensor bias = random.Tensor(DType::kF32, s.out, 1);
  const HostTensor residual =
      random.Tensor(s.x, s.tokens * s.residual_stride, 1);
  const std::vector<int32_t> from = random.Permutation(x_rows);

  GpuCase c;
  const int y = c.AddOutput(s.y, s.tokens * s.y_stride);
  GpuCheck check = {y, s.y};
  check.want.assign(s.tokens * s.y_stride, kUntouched);
  check.allowed.assign(s.tokens * s.y_stride, 0);
  for (int64_t t = 0; t < count; ++t) {
    const double* row = x.values.data() + (s.gather ? from[t] : t) * s.x_stride;
    const std::vector<double> in = NormOf(s, row, scale, norm_bias);
    const auto dot = [&](int64_t o) {
      Sum sum = Dot(s, in, w.values.data() + o * s.in);
      if (s.bias) sum.value += bias.values[o];
      return sum;
    };
    const auto act = [&](double v) { return s.act ? RefAct(*s.act, v) : v; };
    for (int64_t i = 0; i < y_cols; ++i) {
      double value, allowed;
      if (s.gated) {
        const Sum gate = dot(2 * i), up = dot(2 * i + 1);
        const double g = act(gate.value);
        value = g * up.value;
        allowed = 1.2 * gate.allowed * (std::fabs(up.value) + up.allowed) +
                  std::fabs(g) * up.allowed;
      } else {
        const Sum sum = dot(i);
        value = act(sum.value);
        allowed = 1.2 * sum.allowed;
      }
      allowed += 0x1p-20 * (1 + std::fabs(value));
      if (s.residual) value += residual.values[t * s.residual_stride + i];
      check.want[t * s.y_stride + i] = value;
      check.allowed[t * s.y_stride + i] = allowed + RoundingOf(s.y, value);
    }
  }
  c.checks.push_back(check);

  StepInfo info = {};
  info.tokens = static_cast<int32_t>(s.by_rows ? 1 << 20 : count);
  info.rows = static_cast<int32_t>(s.by_rows ? count : 1 << 20);
  const auto maybe = [](bool there, int buffer) {
    return there ? GpuParam::At(buffer) : GpuParam::Null();
  };
  c.AddStep(
      spec, info,
      {GpuParam::At(c.Add(x)), GpuParam::At(c.Add(w)),
       maybe(s.norm != FusedNorm::kNone, c.Add(scale)),
       maybe(s.norm_bias, c.Add(norm_bias)), maybe(s.bias, c.Add(bias)),
       maybe(s.residual, c.Add(residual)), maybe(s.gather, c.AddInts(from))},
      {GpuParam::At(y)});
  return c;
}

// Everything that may be folded in, in turn.
constexpr int kWays = 10;
void Decorate(int way, LinearShape* s) {
  switch (way) {
    case 0:
      s->norm = FusedNorm::kRms;
      break;
    case 1:
      s->norm = FusedNorm::kRms;
      s->gated = true;
      s->act = Act::kSilu;
      break;
    case 2:
      s->residual = true;
      break;
    case 3:
      s->norm = FusedNorm::kLayer;
      s->norm_bias = s->bias = true;
      break;
    case 4:
      s->norm = FusedNorm::kLayer;
      s->norm_bias = s->bias = true;
      s->act = Act::kGeluTanh;
      break;
    case 5:
      s->bias = s->residual = true;
      break;
    case 6:
      s->norm = FusedNorm::kRms;
      s->gather = s->by_rows = true;
      s->y = DType::kF32;
      break;
    case 7:
      s->by_rows = true;
      s->y = DType::kF32;
      break;
    case 8:
      s->gated = s->bias = true;
      s->act = Act::kGelu;
      break;
    case 9:
      s->norm = FusedNorm::kLayer;
      s->act = Act::kRelu;
      s->residual = true;
      break;
  }
}

}  // namespace

void AddLinearCases(const GpuTarget& target,
                    std::vector<GpuCaseEntry>* entries) {
  int n = 0;
  // A layer with `way` folded in and rows of larger matrices.
  const auto shape = [&](DType type, int64_t in, int64_t out, int64_t tokens,
                         int way) {
    LinearShape s;
    s.x = s.weight = s.y = type;
    s.in = in;
    s.out = out;
    s.tokens = tokens;
    s.eps = 1e-5;
    Decorate(way, &s);
    if (s.gated) s.out += s.out % 2;
    const int64_t y_cols = s.gated ? s.out / 2 : s.out;
    s.x_stride = s.in + (n % 4 == 3 ? 8 : n % 8 == 5 ? 3 : 0);
    s.y_stride = y_cols + (n % 5 == 3 ? 8 : n % 9 == 5 ? 1 : 0);
    s.residual_stride = s.residual ? y_cols + (n % 3 == 1 ? 4 : 0) : 0;
    return s;
  };
  const auto add = [&](const LinearShape& s, const KernelSpec& spec, int way) {
    for (const int64_t count : {s.tokens, s.tokens - 2}) {
      if (count < 1) continue;
      entries->push_back(
          {absl::StrCat("linear ", DTypeName(s.x), " ", s.in, "x", s.out, " t",
                        count, "/", s.tokens, " way ", way, " strides ",
                        s.x_stride, "/", s.y_stride, " ", spec.entry),
           {spec},
           [=] { return Make(spec, s, count); }});
    }
  };

  struct Size {
    int64_t in, out;
  };
  const Size sizes[] = {{20, 6},      {48, 17},     {96, 131},   {576, 960},
                        {1000, 131},  {4096, 1100}, {576, 1536}, {2048, 3072},
                        {1000, 1100}, {1536, 576},  {30, 960}};
  constexpr int kSizes = 11;  // no divisor with kWays
  for (const DType type : {DType::kBF16, DType::kF16, DType::kF32}) {
    for (const int64_t tokens : {1, 2, 5, 8, 11, 16, 27, 32}) {
      for (int way = 0; way < kWays; ++way) {
        const Size size = sizes[n++ % kSizes];
        const LinearShape s = shape(type, size.in, size.out, tokens, way);
        const std::optional<KernelSpec> spec = SpecializeLinear(s, target);
        if (spec.has_value()) {
          add(s, *spec, way);
          continue;
        }
        // The contract has an instance up to kMaxLinearTokens: report it.
        KernelSpec none;
        none.entry = absl::StrCat("no instance for ", s.in, "x", s.out, " t",
                                  tokens, " way ", way);
        entries->push_back({none.entry, {none}, [=] {
                              GpuCase c;
                              c.AddStep(none, {}, {}, {});
                              return c;
                            }});
      }
    }
  }

  // Cuts that these shapes are not given, up to the largest of each number.
  struct Cut {
    int64_t in, out, tokens;
    int way;
    LinearTiling tiling;
  };
  const Cut cuts[] = {
      {600, 160, 32, 1, {8, 2, 1, 4, 1, 255}},
      {1544, 200, 32, 1, {8, 2, 1, 2, 4, 255}},
      {1544, 150, 17, 5, {6, 3, 1, 2, 8, 255}},
      {1032, 100, 9, 3, {3, 1, 4, 1, 8, 255}},
      {1032, 40, 8, 2, {1, 2, 4, 3, 2, 128}},
      {2056, 132, 27, 6, {4, 4, 1, 3, 2, 168}},
      {4096, 1100, 11, 0, {6, 4, 1, 3, 1, 168}},
      {8200, 50, 1, 2, {1, 16, 2, 6, 1, 128}},
      {1032, 314, 30, 8, {7, 4, 1, 3, 1, 255}},
      {1544, 131, 31, 7, {7, 2, 1, 4, 1, 255}},
      {1032, 105, 29, 3, {3, 4, 1, 2, 2, 168}},
      {2056, 203, 32, 5, {2, 16, 1, 3, 1, 128}},
      {2056, 206, 26, 2, {4, 8, 1, 4, 2, 255}},
      {1544, 109, 19, 9, {6, 4, 1, 3, 4, 255}},
  };
  for (const DType type : {DType::kBF16, DType::kF16}) {
    for (const Cut& cut : cuts) {
      n += n % 8 == 4 ? 2 : 1;  // x's rows stay on 16 bytes
      if (cut.tiling.cluster > 1 && !target.hopper()) continue;
      const LinearShape s = shape(type, cut.in, cut.out, cut.tokens, cut.way);
      add(s, SpecializeLinearMma(s, target, cut.tiling), cut.way);
    }
  }
}

}  // namespace deepslice
