// Work on the heads of rows, norms over several ranks, factors and softcaps,
// rotation by two tables; against the references.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/head_rows.h"
#include "kernels/cuda/rows.h"
#include "schema/base/check.h"
#include "tests/gpu/gpu_case.h"
#include "tests/gpu/row_case.h"

namespace deepslice {
namespace {

RefTensor Reference(OpKind kind, const std::vector<const RefTensor*>& operands,
                    const std::vector<Attr>& attrs) {
  RefCall call;
  for (size_t i = 0; i < operands.size(); ++i) call.operands[i] = operands[i];
  call.attrs = attrs.data();
  RefTensor out;
  DS_CHECK(RunReference(kind, call, &out).ok());
  return out;
}

Attr I(int64_t i) { return Attr{.i = i}; }
Attr F(double f) { return Attr{.f = f}; }

GpuParam Maybe(bool is_there, GpuCase* c, const HostTensor& t) {
  return is_there ? GpuParam::At(c->Add(t)) : GpuParam::Null();
}

GpuCase MakeHeadNorm(const KernelSpec& spec, const HeadNormShape& s) {
  Random random(s.heads * 100 + s.head_dim);
  const int64_t rows = RowsOf(s.count, s.max_rows), cols = s.heads * s.head_dim;
  const int64_t params = s.each ? cols : s.head_dim;
  const HostTensor x = random.Tensor(s.x, s.max_rows * s.x_stride, 1.5, 2);
  const HostTensor scale = random.Tensor(DType::kF32, params, 0.3, 1);
  const HostTensor bias = random.Tensor(DType::kF32, params, 0.5);
  const RefTensor in = Dense(x, rows, s.x_stride, cols);
  const RefTensor scales = Vector(scale), biases = Vector(bias);
  const RefTensor want =
      Reference(OpKind::kHeadNorm, {&in, &scales, s.bias ? &biases : nullptr},
                {I(static_cast<int64_t>(s.layer_norm ? NormKind::kLayer
                                                     : NormKind::kRms)),
                 I(s.heads), I(s.head_dim), F(s.eps)});
  GpuCase c;
  c.AddOutput(s.y, s.max_rows * s.y_stride);
  c.AddStep(spec, InfoOf(s.count, rows),
            {GpuParam::At(c.Add(x)), GpuParam::At(c.Add(scale)),
             Maybe(s.bias, &c, bias)},
            {GpuParam::At(0)});
  c.checks.push_back(CheckOf(want, 0, s.y, s.max_rows, s.y_stride, 40));
  return c;
}

GpuCase MakeConcat(const KernelSpec& spec, const ConcatHeadsShape& s) {
  Random random(s.of_a * 10 + s.of_b);
  const int64_t rows = RowsOf(s.count, s.max_rows);
  const HostTensor a = random.Tensor(s.x, s.max_rows * s.a_stride, 1);
  const HostTensor b = random.Tensor(s.x, s.max_rows * s.b_stride, 1);
  const RefTensor in_a = Dense(a, rows, s.a_stride, s.heads * s.of_a);
  const RefTensor in_b = Dense(b, rows, s.b_stride, s.heads * s.of_b);
  const RefTensor want =
      Reference(OpKind::kConcatHeads, {&in_a, &in_b}, {I(s.heads)});
  GpuCase c;
  c.AddOutput(s.y, s.max_rows * s.y_stride);
  c.AddStep(spec, InfoOf(s.count, rows),
            {GpuParam::At(c.Add(a)), GpuParam::At(c.Add(b))},
            {GpuParam::At(0)});
  c.checks.push_back(CheckOf(want, 0, s.y, s.max_rows, s.y_stride, 0));
  return c;
}

GpuCase MakeHeadLinear(const KernelSpec& spec, const HeadLinearShape& s) {
  Random random(s.in * 10 + s.out);
  const int64_t rows = RowsOf(s.count, s.max_rows);
  const HostTensor x = random.Tensor(s.x, s.max_rows * s.x_stride, 1);
  const HostTensor w = random.Tensor(s.weight, s.heads * s.in * s.out, 1);
  const RefTensor in = Dense(x, rows, s.x_stride, s.heads * s.in);
  const int64_t w_rows = s.heads * (s.transposed ? s.in : s.out);
  const int64_t w_cols = s.transposed ? s.out : s.in;
  const RefTensor weight = Dense(w, w_rows, w_cols, w_cols);
  const RefTensor want = Reference(OpKind::kHeadLinear, {&in, &weight},
                                   {I(s.heads), I(s.transposed ? 1 : 0)});
  GpuCase c;
  c.AddOutput(s.y, s.max_rows * s.y_stride);
  c.AddStep(spec, InfoOf(s.count, rows),
            {GpuParam::At(c.Add(x)), GpuParam::At(c.Add(w))},
            {GpuParam::At(0)});
  // A sum of `in` products of about 1, in any order.
  c.checks.push_back(CheckOf(want, 0, s.y, s.max_rows, s.y_stride,
                             4 * std::sqrt(static_cast<double>(s.in))));
  return c;
}

GpuCase MakeSumSquares(const KernelSpec& spec, const SumSquaresShape& s) {
  Random random(s.end);
  const int64_t rows = RowsOf(s.count, s.max_rows);
  const HostTensor x = random.Tensor(s.x, s.max_rows * s.x_stride, 20);
  const RefTensor in = Dense(x, rows, s.x_stride, s.end);
  const RefTensor want =
      Reference(OpKind::kSumSquares, {&in}, {I(s.begin), I(s.end)});
  GpuCase c;
  c.AddOutput(DType::kF32, s.max_rows);
  c.AddStep(spec, InfoOf(s.count, rows), {GpuParam::At(c.Add(x))},
            {GpuParam::At(0)});
  c.checks.push_back(
      CheckOf(want, 0, DType::kF32, s.max_rows, 1, 1600.0 * (s.end - s.begin)));
  return c;
}

GpuCase MakeRmsNormOver(const KernelSpec& spec, const RmsNormOverShape& s) {
  Random random(s.cols);
  const int64_t rows = RowsOf(s.count, s.max_rows);
  const HostTensor x = random.Tensor(s.x, s.max_rows * s.x_stride, 1.5);
  const HostTensor sums = random.Tensor(
      DType::kF32, s.max_rows, 0.2 * s.columns_of_all, 1.0 * s.columns_of_all);
  const HostTensor scale = random.Tensor(DType::kF32, s.cols, 0.3, 1);
  const RefTensor in = Dense(x, rows, s.x_stride, s.cols);
  const RefTensor in_sums = Dense(sums, rows, 1, 1), scales = Vector(scale);
  const RefTensor want =
      Reference(OpKind::kRmsNormOver, {&in, &in_sums, &scales},
                {I(s.columns_of_all), F(s.eps)});
  GpuCase c;
  c.AddOutput(s.y, s.max_rows * s.y_stride);
  c.AddStep(spec, InfoOf(s.count, rows),
            {GpuParam::At(c.Add(x)), GpuParam::At(c.Add(sums)),
             GpuParam::At(c.Add(scale))},
            {GpuParam::At(0)});
  c.checks.push_back(CheckOf(want, 0, s.y, s.max_rows, s.y_stride, 20));
  return c;
}

// `in_place`: 1: y is x; 2: y is second.
GpuCase MakeScale(const KernelSpec& spec, const ScaleShape& s, int in_place) {
  Random random(s.cols + in_place);
  const int64_t rows = RowsOf(s.count, s.max_rows);
  const HostTensor x = random.Tensor(s.x, s.max_rows * s.x_stride, 2);
  const HostTensor second = random.Tensor(s.y, s.max_rows * s.y_stride, 1);
  const RefTensor in = Dense(x, rows, s.x_stride, s.cols);
  RefTensor want = Reference(s.softcap ? OpKind::kSoftcap : OpKind::kScale,
                             {&in}, {F(s.factor)});
  const RefTensor added = Dense(second, rows, s.y_stride, s.cols);
  for (size_t i = 0; s.second && i < want.data.size(); ++i) {
    want.data[i] += added.data[i];
  }
  GpuCase c;
  int y = -1;
  const int x_at = c.Add(x);
  const int second_at = s.second ? c.Add(second) : -1;
  if (in_place == 0) y = c.AddOutput(s.y, s.max_rows * s.y_stride);
  if (in_place == 1) y = x_at;
  if (in_place == 2) y = second_at;
  c.AddStep(spec, InfoOf(s.count, rows),
            {GpuParam::At(x_at),
             s.second ? GpuParam::At(second_at) : GpuParam::Null()},
            {GpuParam::At(y)});
  GpuCheck check = CheckOf(want, y, s.y, s.max_rows, s.y_stride,
                           8 * std::fabs(s.factor) + 8);
  // What is not written stays as it was.
  const HostTensor& before = in_place == 1 ? x : second;
  for (size_t i = 0; in_place > 0 && i < check.want.size(); ++i) {
    if (std::isnan(check.want[i])) check.want[i] = before.values[i];
  }
  c.checks.push_back(check);
  return c;
}

GpuCase MakeRopeOfLength(const KernelSpec& spec, const RopeShape& s) {
  Random random(s.heads * s.head_dim);
  const int64_t rows = RowsOf(CountDim::kTokens, s.max_rows), slots = 5;
  const HostTensor x = random.Tensor(s.x, s.max_rows * s.x_stride, 1);
  const HostTensor freqs = random.Tensor(DType::kF32, s.rotary_dim / 2, 0.5);
  const HostTensor longer = random.Tensor(DType::kF32, s.rotary_dim / 2, 0.1);
  std::vector<int32_t> positions(s.max_rows), slot(s.max_rows), horizons(slots);
  for (int32_t& p : positions) p = static_cast<int32_t>(random.Below(9000));
  for (int32_t& t : slot) t = static_cast<int32_t>(random.Below(slots));
  // On both sides of the border, and on it.
  for (int64_t i = 0; i < slots; ++i) {
    horizons[i] = static_cast<int32_t>(*s.long_from + i - 2);
  }
  const RefTensor in = Dense(x, rows, s.x_stride, s.heads * s.head_dim);
  const RefTensor at = Dense(
      Encode(DType::kI32, {positions.begin(), positions.end()}), rows, 1, 1);
  RefTensor in_positions = at, in_slots = Vector(slot);
  in_positions.shape = {rows};
  in_slots.shape = {rows};
  in_slots.data.resize(rows);
  const RefTensor in_freqs = Vector(freqs), in_longer = Vector(longer),
                  in_horizons = Vector(horizons);
  const bool ntk = s.ntk_factor > 0;
  const RefTensor want =
      Reference(OpKind::kRope,
                {&in, &in_positions, &in_freqs, ntk ? nullptr : &in_longer,
                 &in_slots, &in_horizons},
                {I(s.heads), I(s.head_dim), I(s.rotary_dim),
                 I(static_cast<int64_t>(s.style)), F(s.scale), I(*s.long_from),
                 F(s.ntk_factor)});
  GpuCase c;
  c.AddOutput(s.y, s.max_rows * s.y_stride);
  std::vector<GpuParam> operands = {GpuParam::At(c.Add(x)),
                                    GpuParam::At(c.AddInts(positions)),
                                    GpuParam::At(c.Add(freqs))};
  if (!ntk) operands.push_back(GpuParam::At(c.Add(longer)));
  operands.push_back(GpuParam::At(c.AddInts(slot)));
  operands.push_back(GpuParam::At(c.AddInts(horizons)));
  c.AddStep(spec, InfoOf(CountDim::kTokens, rows), operands, {GpuParam::At(0)});
  c.checks.push_back(CheckOf(want, 0, s.y, s.max_rows, s.y_stride, 8));
  return c;
}

void Add(const KernelSpec& spec, const char* what,
         std::function<GpuCase()> make, std::vector<GpuCaseEntry>* entries) {
  entries->push_back(
      {absl::StrCat(what, " ", spec.entry), {spec}, std::move(make)});
}

// Heads, and the elements of each that its parts, or input and output, have.
constexpr int64_t kConcats[][3] = {
    {16, 512, 64}, {1, 12, 8}, {5, 7, 3}, {3, 32, 16}, {1, 512, 64}};
constexpr int64_t kProducts[][3] = {
    {16, 128, 512}, {4, 512, 128}, {3, 7, 5}, {5, 12, 20}, {2, 40, 33}};

void AddHeads(const GpuTarget& target, std::vector<GpuCaseEntry>* entries) {
  int n = 0;
  for (const DType t : kRowTypes) {
    const auto count = [&] {
      return n % 4 == 3 ? CountDim::kRows : CountDim::kTokens;
    };
    const int64_t max_rows[] = {1, 5, 67};
    for (const int64_t dim : {6, 16, 80, 128, 3000}) {
      for (const bool layer : {false, true}) {
        for (const bool each : {false, true}) {
          HeadNormShape s = {t, n % 5 == 1 ? DType::kF32 : t, 1 + n % 7, dim};
          s.x_stride = s.heads * dim + (n % 3 == 1 ? 5 : 0);
          s.y_stride = s.heads * dim + (n % 4 == 1 ? 8 : 0);
          s.layer_norm = layer;
          s.bias = layer && n % 3 != 0;
          s.each = each;
          s.eps = 1e-6;
          s.count = count();
          s.max_rows = max_rows[n++ % 3];
          const KernelSpec k = SpecializeHeadNorm(s, target);
          Add(
              k, "head_norm", [=] { return MakeHeadNorm(k, s); }, entries);
        }
      }
    }
    for (const auto& [heads, a, b] : kConcats) {
      ConcatHeadsShape s = {t, t, heads, a, b};
      s.a_stride = heads * a + (n % 3 == 1 ? 2 : 0);
      s.b_stride = heads * b;
      s.y_stride = heads * (a + b);
      s.count = count();
      s.max_rows = max_rows[n++ % 3];
      const KernelSpec k = SpecializeConcatHeads(s, target);
      Add(
          k, "concat_heads", [=] { return MakeConcat(k, s); }, entries);
    }
    for (const auto& [heads, in, out] : kProducts) {
      for (const bool transposed : {false, true}) {
        HeadLinearShape s = {t, t, t, heads, in, out};
        s.x_stride = heads * in + (n % 3 == 1 ? 3 : 0);
        s.y_stride = heads * out;
        s.transposed = transposed;
        s.count = count();
        s.max_rows = max_rows[n++ % 3];
        const KernelSpec k = SpecializeHeadLinear(s, target);
        Add(
            k, "head_linear", [=] { return MakeHeadLinear(k, s); }, entries);
      }
    }
  }
}

void AddFactors(const GpuTarget& target, std::vector<GpuCaseEntry>* entries) {
  int n = 0;
  for (const DType t : kRowTypes) {
    for (const int64_t cols : {6, 131, 1024, 5000}) {
      for (const bool softcap : {false, true}) {
        for (int in_place = 0; in_place < 3; ++in_place) {
          ScaleShape s = {in_place != 1 && n % 5 == 4 ? DType::kF32 : t, t,
                          cols};
          s.x_stride = s.y_stride = cols + (n % 4 == 1 ? 3 : 0);
          s.softcap = softcap;
          s.factor = softcap ? 1.5 : n % 2 == 0 ? 0.22 : -12;
          s.second = in_place == 2 || n % 2 == 1;
          s.second_stride = s.second ? s.y_stride : 0;
          s.count = n % 3 == 2 ? CountDim::kRows : CountDim::kTokens;
          s.max_rows = n % 3 == 0 ? 1 : 9;
          ++n;
          const KernelSpec k = SpecializeScale(s, target);
          Add(
              k, "scale", [=] { return MakeScale(k, s, in_place); }, entries);
        }
      }
      SumSquaresShape squares = {t, n % 2 == 0 ? 0 : cols / 3, cols, cols};
      squares.x_stride += n % 3;
      squares.max_rows = 7;
      const KernelSpec sum = SpecializeSumSquares(squares, target);
      Add(
          sum, "sum_squares", [=] { return MakeSumSquares(sum, squares); },
          entries);
      RmsNormOverShape over = {t, t, cols, cols + n % 3, cols};
      over.columns_of_all = 3 * cols + 1;
      over.eps = 1e-5;
      over.max_rows = 7;
      const KernelSpec norm = SpecializeRmsNormOver(over, target);
      Add(
          norm, "rms_norm_over", [=] { return MakeRmsNormOver(norm, over); },
          entries);
    }
    for (const int64_t dim : {10, 96}) {
      RopeShape s = {t, t, 6, dim};
      s.rotary_dim = dim - 4;
      s.x_stride = 6 * dim + (n % 2) * 5;
      s.y_stride = 6 * dim;
      s.style = dim == 10 ? RopeStyle::kInterleaved : RopeStyle::kHalf;
      s.scale = 1.19;
      s.long_from = 4096;
      s.max_rows = 21;
      ++n;
      for (const double factor : {0.0, 2.5}) {
        s.ntk_factor = factor;
        const KernelSpec k = SpecializeRope(s, target);
        Add(
            k, "rope", [=] { return MakeRopeOfLength(k, s); }, entries);
      }
    }
  }
}

}  // namespace

void AddHeadCases(const GpuTarget& target, std::vector<GpuCaseEntry>* entries) {
  AddHeads(target, entries);
  AddFactors(target, entries);
}

}  // namespace deepslice
